import type { Engine } from '../../backend/engine';
import type * as tf from '../../core/tf';
import type { Module } from '../../nn/module';
import type { FsdpUnit, UnitSchedule } from './fsdp-unit';
import type { Reduction } from './reduction';
import { unitsOf } from './units-of';

/** When units are gathered ahead of their use. Source: torch.distributed.fsdp.BackwardPrefetch, forward_prefetch. */
export interface PrefetchOptions {
  /**
   * Gathers the next unit (in the order of the last forward) while this unit's forward runs. On a GPU this needs no
   * setting, because the CPU runs ahead of the GPU (FSDP2's implicit prefetch); here the CPU itself computes.
   */
  readonly forward: boolean;
  /** BACKWARD_PRE gathers the next unit before this one's gradients are computed, BACKWARD_POST after. */
  readonly backward: 'BACKWARD_PRE' | 'BACKWARD_POST' | null;
  /**
   * At most two gathers are in flight; the next one starts when a unit has waited for one of them. Source: FSDP's limit_all_gathers.
   */
  readonly limit: boolean;
}

/** Source: FSDP's rate limiter, _FreeEventQueue. */
const MOST_GATHERS = 2;

interface Reducing {
  readonly unit: FsdpUnit;
  readonly reduction: Reduction;
}

/**
 * The state that the units of one root share: the order in which they ran, and the reductions in flight.
 *
 * [Note: a step of FSDP] The method names are those of torch's FSDPState and FSDPParamGroup. A pass of a root R with units A and B:
 *
 * | rootPreForward     | R | abandons work that an aborted pass left in flight |
 * | preForward         | R | unshard: starts R's all-gather, with forward prefetch also A's; then waitForUnshard |
 * | preForward         | A | unshard (joins a gather in flight), waitForUnshard |
 * | postForward        | A | reshard: frees whole parameters (reshardAfterForward), or shards them over fewer ranks |
 * | pre-, postForward  | B | as A |
 * | postForward        | R | by default R stays whole, because its backward is next |
 * | preBackward        | R | unshard; starts B's gather (BACKWARD_PRE); waitForUnshard |
 * | preBackward        | B | as R, with A's gather |
 * | postBackward       | B | reshard; then starts B's reduction, or adds up the whole gradients (without gradient sync) |
 * | pre-, postBackward | A | as B; waits for B's reduction before A's starts: [Note: reductions in flight] |
 * | postBackward       | R | as B |
 * | finalizeBackward   | R | waits for all reductions, and reshards units that are still whole |
 *
 * Then the optimizer updates the shards, and `changed` marks whole parameters that were not freed: they are stale. A checkpointed region runs
 * forward again; its units get preRecompute in place of preForward. After an error or an interrupt, `abandon` releases
 * everything in flight.
 *
 * [Note: reductions in flight] A unit's gradients are reduced during the next unit's backward. Before a reduction
 * starts, the schedule waits for the one before it. So besides the gradients that are being computed, at most one
 * unit's whole gradients are in memory. With replicas (HSDP), the all-reduce after it runs during one more unit's backward. At the end of the root's backward, the schedule waits for all reductions. Source:
 * FSDPCommContext.reduce_scatter_state.
 */
export class FsdpSchedule implements UnitSchedule {
  /** The module whose forward and backward are a pass; it need not have its own unit. */
  readonly root: Module;
  readonly #engine: Engine;
  readonly #prefetch: PrefetchOptions;
  readonly units: readonly FsdpUnit[];
  /** Units in the order in which they entered the last forward; `#entered`: this forward. */
  #lastEntered: readonly FsdpUnit[] = [];
  #entered: FsdpUnit[] = [];
  /**
   * Units in the order in which they left this forward, without those whose backward has begun; the last unit's
   * backward is next.
   */
  #awaitingBackward: FsdpUnit[] = [];
  /** Units to gather ahead as soon as fewer gathers are in flight. */
  #wanted: FsdpUnit[] = [];
  #reducing: Reducing[] = [];

  constructor(engine: Engine, root: Module, prefetch: PrefetchOptions) {
    this.#engine = engine;
    this.root = root;
    this.#prefetch = prefetch;
    this.units = unitsOf(root);
  }

  /**
   * Called when the root's forward begins. Work that is still in flight belongs to an aborted pass, so its result does
   * not matter.
   */
  rootPreForward(): void {
    const entered = this.#entered;
    this.abandon();
    for (const unit of this.units) if (unit.isUnsharding) unit.reshard();
    this.#lastEntered = entered;
  }

  preForward(unit: FsdpUnit): void {
    if (unit.unshards) this.#entered.push(unit);
    const next = this.#prefetch.forward ? this.#enteredAfter(unit) : [];
    this.#unshard(unit, unit.forwardPrefetch ?? next);
  }

  postForward(unit: FsdpUnit): void {
    if (unit.unshards) this.#awaitingBackward.push(unit);
    if (unit.reshardAfterForward) unit.reshardPostForward();
  }

  /** Called when a checkpointed region runs forward again; its units stay whole for their backward. */
  preRecompute(unit: FsdpUnit): void {
    this.#unshard(unit, []);
  }

  /** Called also for a root without a unit, with null. */
  preBackward(unit: FsdpUnit | null): void {
    this.#awaitingBackward = this.#awaitingBackward.filter((other) => other !== unit);
    const next = this.#prefetch.backward === 'BACKWARD_PRE' ? this.#awaitingBackward.slice(-1) : [];
    this.#unshard(unit, unit?.backwardPrefetch ?? next);
  }

  /** Takes ownership of the gradients, and starts their reduction. */
  postBackward(unit: FsdpUnit, all: readonly (tf.Tensor | null)[]): void {
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
        this.#prefetchUnshard(this.#awaitingBackward.slice(-1));
      this.#advanceReductions();
    } catch (error) {
      for (const grad of grads) grad?.dispose();
      throw error;
    }
    if (unit.requiresGradientSync) this.#startReduction(unit, grads);
    else unit.gradients.addLocal(grads);
  }

  /**
   * Called when the root's backward ends: waits for all reductions, and frees parameters that do not stay whole.
   */
  finalizeBackward(): void {
    this.#wanted = [];
    for (const unit of this.units) {
      unit.reshard();
      if (!unit.requiresGradientSync || !unit.gradients.hasLocal) continue;
      // Its gradients of earlier passes are still local, and it was not used in this pass.
      this.#advanceReductions();
      this.#startReduction(unit, []);
    }
    while (this.#reducing.length > 0) this.#advanceReductions();
  }

  /** Releases an interrupted pass's gradients, because their reduction will not end. */
  abandon(): void {
    const reducing = this.#reducing;
    this.#reducing = [];
    for (const { reduction } of reducing) reduction.abandon();
    this.#entered = [];
    this.#awaitingBackward = [];
    this.#wanted = [];
  }

  #startReduction(unit: FsdpUnit, grads: readonly (tf.Tensor | null)[]): void {
    if (unit.numTrained === 0) return;
    this.#reducing.push({ unit, reduction: unit.gradients.reduce(grads) });
  }

  /** Waits for each reduction's current collective and starts its next (the replicas' all-reduce); adds finished ones to the unit's gradients. */
  #advanceReductions(): void {
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

  /** Makes a unit whole, and gathers others during its computation. */
  #unshard(unit: FsdpUnit | null, ahead: readonly FsdpUnit[]): void {
    this.#wanted = this.#wanted.filter((other) => other !== unit);
    unit?.unshard();
    this.#prefetchUnshard(ahead);
    unit?.waitForUnshard();
    this.#prefetchUnshard([]);
  }

  #prefetchUnshard(units: readonly FsdpUnit[]): void {
    this.#wanted.push(...units);
    while (this.#wanted.length > 0 && !this.#isFull()) this.#wanted.shift()?.unshard();
  }

  #isFull(): boolean {
    const most = this.#prefetch.limit ? MOST_GATHERS : Number.POSITIVE_INFINITY;
    return this.units.filter((unit) => unit.isUnsharding).length >= most;
  }

  #enteredAfter(unit: FsdpUnit): readonly FsdpUnit[] {
    const place = this.#lastEntered.indexOf(unit);
    return place < 0 ? [] : this.#lastEntered.slice(place + 1, place + 2);
  }
}
