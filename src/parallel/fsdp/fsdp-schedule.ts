import type * as tf from '@tensorflow/tfjs';
import type { Engine } from '../../backend/engine';
import type { Work } from '../../dist/types';
import type { Module } from '../../nn/module';
import { settled } from '../settled';
import type { FsdpUnit } from './fsdp-unit';
import { unitsOf } from './units-of';

/** When units are gathered ahead of their use. Source: torch.distributed.fsdp.BackwardPrefetch, forward_prefetch. */
export interface PrefetchOptions {
  /**
   * Gathers the next unit, as the last forward ran, while this one's forward runs. On a GPU that comes by itself, for
   * the host is ahead of the device (FSDP2's implicit prefetch); here the host computes, so it is asked for.
   */
  readonly forward: boolean;
  /** BACKWARD_PRE gathers the next unit before this one's gradients are computed, BACKWARD_POST after. */
  readonly backward: 'BACKWARD_PRE' | 'BACKWARD_POST' | null;
}

/** A unit's gradients on their way. */
interface Reduction {
  readonly unit: FsdpUnit;
  readonly grads: readonly (tf.Tensor | null)[];
  readonly shard: tf.Tensor;
  readonly work: Work<void>;
}

/**
 * What the units of one root share: the order in which they ran, and the reduction on its way.
 *
 * [Note: reductions in flight] A unit's gradients are reduced beside the next unit's backward. That reduction is waited
 * for when the next one starts, so at most one unit's whole gradients await their reduction while those of one other
 * unit are computed. The root's is waited for at the end of backward. Source: FSDPCommContext.reduce_scatter_state.
 */
export class FsdpSchedule {
  /** The module whose forward and backward are a pass; it need not have a unit of its own. */
  readonly root: Module;
  readonly #engine: Engine;
  readonly #prefetch: PrefetchOptions;
  /** Units as they entered the last forward, and this one. */
  #lastEntered: readonly FsdpUnit[] = [];
  #entered: FsdpUnit[] = [];
  /** Units as they left this forward, less those whose backward began: the last one's comes next. */
  #awaitingBackward: FsdpUnit[] = [];
  #reduction: Reduction | null = null;

  constructor(engine: Engine, root: Module, prefetch: PrefetchOptions) {
    this.#engine = engine;
    this.root = root;
    this.#prefetch = prefetch;
  }

  /** The root's forward begins. What the last pass left on its way was broken off: its outcome does not matter. */
  begin(): void {
    const entered = this.#entered;
    this.abandon();
    for (const unit of unitsOf(this.root)) if (unit.isGathering) unit.reshard();
    this.#lastEntered = entered;
  }

  beforeForward(unit: FsdpUnit): void {
    this.#entered.push(unit);
    unit.unshard();
    if (this.#prefetch.forward) this.#enteredAfter(unit)?.unshard();
    unit.waitForUnshard();
  }

  afterForward(unit: FsdpUnit): void {
    this.#awaitingBackward.push(unit);
    if (unit.reshardAfterForward) unit.reshard();
  }

  /** Also for a root without a unit: null. */
  beforeBackward(unit: FsdpUnit | null): void {
    this.#awaitingBackward = this.#awaitingBackward.filter((other) => other !== unit);
    unit?.unshard();
    if (this.#prefetch.backward === 'BACKWARD_PRE') this.#awaitingBackward.at(-1)?.unshard();
    unit?.waitForUnshard();
  }

  /** Takes the gradients over. */
  afterBackward(unit: FsdpUnit, grads: readonly (tf.Tensor | null)[]): void {
    for (const [i, grad] of grads.entries()) {
      const module = unit.parameters[i]?.module ?? unit.module;
      if (grad !== null) this.#engine.retag(grad, { cause: 'grad.full', module });
    }
    try {
      unit.reshard();
      if (this.#prefetch.backward === 'BACKWARD_POST') this.#awaitingBackward.at(-1)?.unshard();
      this.finishReduction();
      this.#reduction = { unit, grads, ...unit.reduce(grads) };
    } catch (error) {
      for (const grad of grads) grad?.dispose();
      throw error;
    }
  }

  /** Waits for the reduction on its way, and frees the whole gradients. */
  finishReduction(): void {
    const reduction = this.#reduction;
    if (reduction === null) return;
    this.#reduction = null;
    try {
      reduction.work.wait();
    } catch (error) {
      reduction.shard.dispose();
      throw error;
    } finally {
      for (const grad of reduction.grads) grad?.dispose();
    }
    reduction.unit.accumulate(reduction.shard);
  }

  /** Lets go of an interrupted pass's gradients: their reduction will not end. */
  abandon(): void {
    const reduction = this.#reduction;
    this.#reduction = null;
    settled(reduction?.work ?? null);
    for (const grad of reduction?.grads ?? []) grad?.dispose();
    reduction?.shard.dispose();
    this.#entered = [];
    this.#awaitingBackward = [];
  }

  #enteredAfter(unit: FsdpUnit): FsdpUnit | undefined {
    const place = this.#lastEntered.indexOf(unit);
    return place < 0 ? undefined : this.#lastEntered[place + 1];
  }
}
