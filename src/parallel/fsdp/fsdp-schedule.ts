import type { Engine } from '../../backend/engine';
import type * as tf from '../../core/tf';
import type { Module } from '../../nn/module';
import type { FsdpUnit } from './fsdp-unit';
import type { Reduction } from './reduction';
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
  /** At most two gathers on their way; further ones begin when one was waited for. Source: FSDP's limit_all_gathers. */
  readonly limit: boolean;
}

/** Source: FSDP's rate limiter, _FreeEventQueue. */
const MOST_GATHERS = 2;

interface Reducing {
  readonly unit: FsdpUnit;
  readonly reduction: Reduction;
}

/**
 * What the units of one root share: the order in which they ran, and the reductions on their way.
 *
 * [Note: reductions in flight] A unit's gradients are reduced beside the next unit's backward. That reduction is waited
 * for when the next one starts, so at most one unit's whole gradients await their reduction while those of one other
 * unit are computed; where shards exist in copies, the copies' all-reduce then runs beside one more unit's backward.
 * All are waited for at the end of the root's backward. Source: FSDPCommContext.reduce_scatter_state.
 */
export class FsdpSchedule {
  /** The module whose forward and backward are a pass; it need not have a unit of its own. */
  readonly root: Module;
  readonly #engine: Engine;
  readonly #prefetch: PrefetchOptions;
  readonly units: readonly FsdpUnit[];
  /** Units as they entered the last forward, and this one. */
  #lastEntered: readonly FsdpUnit[] = [];
  #entered: FsdpUnit[] = [];
  /** Units as they left this forward, less those whose backward began: the last one's comes next. */
  #awaitingBackward: FsdpUnit[] = [];
  /** Units to be gathered ahead as soon as few enough are on their way. */
  #wanted: FsdpUnit[] = [];
  #reducing: Reducing[] = [];

  constructor(engine: Engine, root: Module, prefetch: PrefetchOptions) {
    this.#engine = engine;
    this.root = root;
    this.#prefetch = prefetch;
    this.units = unitsOf(root);
  }

  /** The root's forward begins. What the last pass left on its way was broken off: its outcome does not matter. */
  begin(): void {
    const entered = this.#entered;
    this.abandon();
    for (const unit of this.units) if (unit.isGathering) unit.reshard();
    this.#lastEntered = entered;
  }

  beforeForward(unit: FsdpUnit): void {
    if (unit.isGathered) this.#entered.push(unit);
    const next = this.#prefetch.forward ? this.#enteredAfter(unit) : [];
    this.#gather(unit, unit.forwardPrefetch ?? next);
  }

  afterForward(unit: FsdpUnit): void {
    if (unit.isGathered) this.#awaitingBackward.push(unit);
    if (unit.reshardAfterForward) unit.reshardPostForward();
  }

  /** A checkpointed region runs forward again; the units in it stay whole for their backward. */
  beforeRecompute(unit: FsdpUnit): void {
    this.#gather(unit, []);
  }

  /** Also for a root without a unit: null. */
  beforeBackward(unit: FsdpUnit | null): void {
    this.#awaitingBackward = this.#awaitingBackward.filter((other) => other !== unit);
    const next = this.#prefetch.backward === 'BACKWARD_PRE' ? this.#awaitingBackward.slice(-1) : [];
    this.#gather(unit, unit?.backwardPrefetch ?? next);
  }

  /** Takes the gradients over. */
  afterBackward(unit: FsdpUnit, all: readonly (tf.Tensor | null)[]): void {
    const grads = all.slice(0, unit.numTrained).map((grad, i) => {
      if (unit.members[i]?.isSpare !== true) return grad;
      grad?.dispose();
      return null;
    });
    grads.forEach((grad, i) => {
      const module = unit.members[i]?.module ?? unit.module;
      if (grad === null) return;
      if (unit.half !== null) this.#engine.round(grad, unit.half);
      this.#engine.retag(grad, { cause: 'grad.full', module, declared: unit.half ?? undefined });
    });
    try {
      unit.reshard();
      if (this.#prefetch.backward === 'BACKWARD_POST' && unit.backwardPrefetch === null)
        this.#ahead(this.#awaitingBackward.slice(-1));
      this.#advance();
    } catch (error) {
      for (const grad of grads) grad?.dispose();
      throw error;
    }
    if (unit.requiresGradientSync) this.#reduce(unit, grads);
    else unit.gradients.addLocal(grads);
  }

  /** The root's backward ends: nothing is on its way any more, and what does not stay whole is freed. */
  finish(): void {
    this.#wanted = [];
    for (const unit of this.units) {
      unit.reshard();
      if (!unit.requiresGradientSync || !unit.gradients.hasLocal) continue;
      // Its gradients stayed local before, and it had no part in this pass.
      this.#advance();
      this.#reduce(unit, []);
    }
    while (this.#reducing.length > 0) this.#advance();
  }

  /** Lets go of an interrupted pass's gradients: their reduction will not end. */
  abandon(): void {
    const reducing = this.#reducing;
    this.#reducing = [];
    for (const { reduction } of reducing) reduction.abandon();
    this.#entered = [];
    this.#awaitingBackward = [];
    this.#wanted = [];
  }

  #reduce(unit: FsdpUnit, grads: readonly (tf.Tensor | null)[]): void {
    if (unit.numTrained === 0) return;
    this.#reducing.push({ unit, reduction: unit.gradients.reduce(grads) });
  }

  /** Takes every reduction on its way to its next group; those that are done are added up. */
  #advance(): void {
    const reducing = this.#reducing;
    this.#reducing = [];
    try {
      for (let next = reducing.shift(); next !== undefined; next = reducing.shift()) {
        if (next.reduction.advance()) this.#reducing.push(next);
        else next.unit.gradients.add(next.reduction);
      }
    } catch (error) {
      for (const { reduction } of [...this.#reducing, ...reducing]) reduction.abandon();
      this.#reducing = [];
      throw error;
    }
  }

  /** Makes a unit whole; gathers others beside its computation. */
  #gather(unit: FsdpUnit | null, ahead: readonly FsdpUnit[]): void {
    this.#wanted = this.#wanted.filter((other) => other !== unit);
    unit?.unshard();
    this.#ahead(ahead);
    unit?.waitForUnshard();
    this.#ahead([]);
  }

  #ahead(units: readonly FsdpUnit[]): void {
    this.#wanted.push(...units);
    while (this.#wanted.length > 0 && !this.#isFull()) this.#wanted.shift()?.unshard();
  }

  #isFull(): boolean {
    const most = this.#prefetch.limit ? MOST_GATHERS : Number.POSITIVE_INFINITY;
    return this.units.filter((unit) => unit.isGathering).length >= most;
  }

  #enteredAfter(unit: FsdpUnit): readonly FsdpUnit[] {
    const place = this.#lastEntered.indexOf(unit);
    return place < 0 ? [] : this.#lastEntered.slice(place + 1, place + 2);
  }
}
