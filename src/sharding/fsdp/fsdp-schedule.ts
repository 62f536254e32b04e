import type * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import type { Module } from '../../nn';
import { withoutSpare } from '../missing-gradients';
import type { FsdpUnit, UnitSchedule } from './fsdp-unit';
import type { GradientReduction } from './reduction';
import { unitsOf } from './units-of';

/**
 * The settings that decide which units are gathered before their use. Source: torch.distributed.fsdp.BackwardPrefetch,
 * forward_prefetch.
 */
export interface PrefetchOptions {
  /**
   * Whether the next unit (in the order of the last forward) is gathered while this unit's forward runs. On a GPU,
   * FSDP2 needs no such setting, because the CPU runs ahead of the GPU (implicit prefetch). Here the CPU itself computes.
   */
  readonly forward: boolean;
  /**
   * BACKWARD_PRE gathers the next unit before this unit's gradients are computed; BACKWARD_POST gathers it afterwards. null: no
   * prefetch.
   */
  readonly backward: 'BACKWARD_PRE' | 'BACKWARD_POST' | null;
  /**
   * Whether at most two gathers are in flight. The next gather then starts after a unit has waited for a gather.
   * Source: FSDP's limit_all_gathers.
   */
  readonly limit: boolean;
}

/** The largest number of gathers in flight under `limit`. Source: FSDP's rate limiter, _FreeEventQueue. */
const MOST_GATHERS = 2;

interface Reducing {
  readonly unit: FsdpUnit;
  readonly reduction: GradientReduction;
}

/**
 * The state that the units of one root share: the order in which they ran, and the reductions in flight.
 *
 * [Note: a step of FSDP] The methods have the names of torch's FSDPState and FSDPParamGroup. In a pass, a root R and its
 * units A and B do this:
 *
 * | rootPreForward     | R | abandons work that an aborted pass left in flight |
 * | preForward         | R | unshard: starts R's all-gather (with forward prefetch, A's too); then waitForUnshard |
 * | preForward         | A | unshard (joins a gather in flight), waitForUnshard |
 * | postForward        | A | reshard: frees whole parameters (reshardAfterForward), or shards them over fewer ranks |
 * | pre-, postForward  | B | as A |
 * | postForward        | R | by default R is not freed, because its backward is next |
 * | preBackward        | R | unshard; starts B's gather (BACKWARD_PRE); waitForUnshard |
 * | preBackward        | B | as R, but starts A's gather |
 * | postBackward       | B | reshard; then starts B's reduction, or adds up the whole gradients (without gradient sync) |
 * | pre-, postBackward | A | as B; waits for B's reduction before A's starts: [Note: reductions in flight] |
 * | postBackward       | R | as B |
 * | finalizeBackward   | R | waits for all reductions, and reshards units that are still whole |
 *
 * Then the optimizer updates the shards. If whole parameters were not freed, `changed` marks them as stale. When the
 * forward of a checkpointed region runs again, its units get preRecompute in place of preForward. After an error or
 * an interrupt, `abandon` releases everything in flight.
 *
 * [Note: reductions in flight] A unit's gradients are reduced during the next unit's backward. Before a reduction starts, the
 * schedule waits for the previous reduction. So besides the gradients that one unit computes, memory holds whole gradients of
 * at most one other unit. With replicas (HSDP), an all-reduce follows the reduce-scatter; it runs during one more unit's
 * backward. When the root's backward ends, the schedule waits for all reductions.
 * Source: FSDPCommContext.reduce_scatter_state.
 */
export class FsdpSchedule implements UnitSchedule {
  /** The module whose forward and backward are one pass. If inner units have all parameters, the root is not a unit itself. */
  readonly root: Module;
  readonly #engine: Engine;
  readonly #prefetch: PrefetchOptions;
  readonly units: readonly FsdpUnit[];
  /** Units in the order in which they began the last forward; `#entered` has this order for the current forward. */
  #lastEntered: readonly FsdpUnit[] = [];
  #entered: FsdpUnit[] = [];
  /**
   * Units whose forward has ended and whose backward has not begun, in the order in which their forwards ended. Backward runs
   * the last of them next.
   */
  #awaitingBackward: FsdpUnit[] = [];
  /**
   * [Note: units of several modules] Units of a list of modules of which some have not run since the first of them did, with
   * these modules. The first forward gathers such a unit, and the last reshards it. `#awaitingBackward` has the unit once per
   * forward; the last backward reduces the gradients of all. Source: FSDPState._modules_to_run_forward.
   */
  readonly #toRun = new Map<FsdpUnit, Set<Module>>();
  /** Units whose prefetch waits until fewer gathers are in flight. */
  #wanted: FsdpUnit[] = [];
  #reducing: Reducing[] = [];

  constructor(engine: Engine, root: Module, prefetch: PrefetchOptions) {
    this.#engine = engine;
    this.root = root;
    this.#prefetch = prefetch;
    this.units = unitsOf(root);
    recoverWithEngine(engine, new WeakRef(this));
  }

  /**
   * Prepares for the root's forward. Work that is still in flight belongs to an aborted pass, so it is abandoned.
   */
  rootPreForward(): void {
    const entered = this.#entered;
    this.abandon();
    for (const unit of this.units) if (unit.isUnsharding) unit.reshard();
    this.#lastEntered = entered;
  }

  preForward(unit: FsdpUnit): void {
    if (unit.unshards && this.#begins(unit)) this.#entered.push(unit);
    const next = this.#prefetch.forward ? this.#enteredAfter(unit) : [];
    this.#unshard(unit, unit.forwardPrefetch ?? next);
  }

  /** `module` is the unit's module whose forward ended. */
  postForward(unit: FsdpUnit, module: Module): void {
    if (unit.unshards || unit.owners.length > 1) this.#awaitingBackward.push(unit);
    const toRun = this.#toRun.get(unit);
    toRun?.delete(module);
    if (toRun !== undefined && toRun.size > 0) return;
    this.#toRun.delete(unit);
    if (unit.reshardAfterForward) unit.reshardPostForward();
  }

  /** Ends the forward of units of which not every module ran. Source: FSDPState._force_complete_incomplete_states. */
  rootPostForward(): void {
    const units = [...this.#toRun.keys()];
    this.#toRun.clear();
    for (const unit of units) if (unit.reshardAfterForward) unit.reshardPostForward();
  }

  /** Runs before a unit's second forward in a checkpointed region; the unit then stays whole for its backward. */
  preRecompute(unit: FsdpUnit): void {
    this.#unshard(unit, []);
  }

  /** `unit` is null for a root without a unit. */
  preBackward(unit: FsdpUnit | null): void {
    if (unit !== null && unit.owners.length > 1) this.#awaitOneLess(unit);
    else this.#awaitingBackward = this.#awaitingBackward.filter((waitingUnit) => waitingUnit !== unit);
    const others = this.#awaitingBackward.filter((waitingUnit) => waitingUnit !== unit);
    const next = this.#prefetch.backward === 'BACKWARD_PRE' ? others.slice(-1) : [];
    this.#unshard(unit, unit?.backwardPrefetch ?? next);
  }

  /** Takes ownership of the gradients, and reduces them or (without gradient sync) adds them to the local gradients. */
  postBackward(unit: FsdpUnit, all: readonly (tf.Tensor | null)[]): void {
    const grads = withoutSpare(unit.members, all.slice(0, unit.numTrained));
    grads.forEach((grad, i) => {
      const module = unit.members[i]?.module ?? unit.module;
      if (grad === null) return;
      if (unit.half !== null) this.#engine.round(grad, unit.half);
      this.#engine.retag(grad, { cause: 'grad.full', module, declared: unit.half ?? undefined });
    });
    if (unit.owners.length > 1 && this.#awaitingBackward.includes(unit)) {
      unit.gradients.addLocal(grads);
      return;
    }
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

  /** Ends the root's backward: waits for all reductions, and frees whole parameters unless their placement keeps them whole. */
  finalizeBackward(): void {
    this.#wanted = [];
    for (const unit of this.units) {
      unit.reshard();
      if (!unit.requiresGradientSync || !unit.gradients.hasLocal) continue;
      // This pass did not use the unit, but the unit's gradients of earlier passes are still local.
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
    this.#toRun.clear();
  }

  /**
   * Gives all ranks the same state after work was interrupted or failed: one rank may have gathered a unit that another
   * rank has not gathered. Gradients that are already reduced stay, because the failed work may have nothing to do with them.
   */
  recover(): void {
    this.abandon();
    for (const unit of this.units) unit.hideWholes();
  }

  /**
   * Returns a text that is equal for equal states: the names of units in each order that decides which unit is gathered next, and
   * the state of every unit.
   */
  describe(): string {
    // `#lastEntered` is left out, because the root's forward sets it again.
    const orders = [this.#entered, this.#awaitingBackward, this.#wanted];
    const names = orders.map((units) => units.map(({ module }) => module).join());
    return [...names, this.units.map(({ state }) => state).join()].join(' / ');
  }

  tensors(): readonly tf.Tensor[] {
    return this.units.flatMap(({ gathered }) => gathered);
  }

  save(): ((tensors: readonly tf.Tensor[]) => void) | null {
    if (this.#reducing.length > 0 || this.units.some(({ isUnsharding }) => isUnsharding)) return null;
    const [lastEntered, entered] = [this.#lastEntered, [...this.#entered]];
    const [awaitingBackward, wanted] = [[...this.#awaitingBackward], [...this.#wanted]];
    const numsGathered = this.units.map(({ gathered }) => gathered.length);
    return (tensors) => {
      this.#lastEntered = lastEntered;
      this.#entered = [...entered];
      this.#awaitingBackward = [...awaitingBackward];
      this.#wanted = [...wanted];
      let first = 0;
      this.units.forEach((unit, i) => {
        const end = first + (numsGathered[i] ?? 0);
        unit.replaceGathered(tensors.slice(first, end));
        first = end;
      });
    };
  }

  /** Whether no module of the unit has run since all of them did. */
  #begins(unit: FsdpUnit): boolean {
    if (unit.owners.length === 1) return true;
    if (this.#toRun.has(unit)) return false;
    this.#toRun.set(unit, new Set(unit.owners));
    return true;
  }

  #awaitOneLess(unit: FsdpUnit): void {
    const index = this.#awaitingBackward.lastIndexOf(unit);
    if (index >= 0) this.#awaitingBackward = this.#awaitingBackward.toSpliced(index, 1);
  }

  #startReduction(unit: FsdpUnit, grads: readonly (tf.Tensor | null)[]): void {
    if (unit.numTrained === 0) return;
    this.#reducing.push({ unit, reduction: unit.gradients.reduce(grads) });
  }

  /**
   * Waits for each reduction's collective. Then starts the reduction's next collective (the replicas' all-reduce), or adds the
   * result to the gradients.
   */
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

  /** Gathers a unit and waits until it is gathered; also starts the gathers of the units in `ahead`. */
  #unshard(unit: FsdpUnit | null, ahead: readonly FsdpUnit[]): void {
    this.#wanted = this.#wanted.filter((wantedUnit) => wantedUnit !== unit);
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
    const index = this.#lastEntered.indexOf(unit);
    return index < 0 ? [] : this.#lastEntered.slice(index + 1, index + 2);
  }
}

/** Calls the schedule's `recover` in each recovery of the engine, as long as the schedule is in use. */
function recoverWithEngine(engine: Engine, schedule: WeakRef<FsdpSchedule>): void {
  engine.onRecover(() => {
    const used = schedule.deref();
    if (used === undefined) return;
    used.recover();
    recoverWithEngine(engine, schedule);
  });
}
