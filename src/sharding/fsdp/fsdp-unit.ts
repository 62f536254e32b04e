import type { HalfDType } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine, GatherState } from '../../engine';
import type { Module, Parameter } from '../../nn';
import { shardLayout } from './shard-layout';
import { UnitGradients } from './unit-gradients';
import { type ShardedState, UnitParameters } from './unit-parameters';
import type { UnitPlacement, UnitSpec } from './unit-placement';
import { type StateOwner, UnitState } from './unit-state';

/** The members of a schedule that its units use. */
export interface UnitSchedule extends GatherState {
  /** Releases what an interrupted pass left in flight. */
  abandon(): void;
}

/**
 * Parameters that are gathered and freed together. The placement decides what is sharded, over which group, and when
 * whole parameters are freed. Frozen parameters have no gradient, and their chunks are a separate state buffer that no
 * optimizer gets. If whole tensors are freed after use, frozen parameters are gathered together with the others. If whole
 * tensors are not freed, frozen parameters are gathered separately, and only after new values were written to their
 * chunks, because a step does not change them.
 */
export class FsdpUnit implements StateOwner {
  readonly engine: Engine;
  /** The module's full name; the names of several modules are separated by commas. */
  readonly module: string;
  /** The modules whose parameters are the unit's. */
  readonly owners: readonly Module[];
  readonly placement: UnitPlacement;
  /** The trainable parameters, then the frozen ones. */
  readonly members: readonly Parameter[];
  readonly numTrained: number;
  /** The dtype to which whole parameters are rounded, and also gradients at the end of backward; null: they are not rounded. */
  readonly half: HalfDType | null;
  /**
   * The sets of parameters that are gathered together: one set of all parameters, or one set of trainable and one set of
   * frozen parameters.
   */
  readonly #gathered: readonly UnitParameters[];
  readonly gradients: UnitGradients;
  /** The state that an optimizer updates. */
  readonly trained: UnitState;
  readonly frozen: UnitState;
  /** Whether gradients are reduced after the unit's backward; otherwise whole local gradients add up. */
  requiresGradientSync = true;
  /**
   * Units to gather during this unit's forward; null: the unit that was next in the last forward. `backwardPrefetch`: the
   * same for backward. Source: set_modules_to_forward_prefetch.
   */
  forwardPrefetch: readonly FsdpUnit[] | null = null;
  backwardPrefetch: readonly FsdpUnit[] | null = null;
  readonly #released = new Set<UnitState>();
  #schedule: UnitSchedule | null = null;
  #isRoot = false;

  constructor(owners: readonly Module[], parameters: readonly Parameter[], spec: UnitSpec) {
    const { engine, placement, half } = spec;
    this.engine = engine;
    this.owners = owners;
    this.module = spec.module;
    this.placement = placement;
    const trained = parameters.filter((parameter) => parameter.requiresGrad);
    const frozen = parameters.filter((parameter) => !parameter.requiresGrad);
    this.members = [...trained, ...frozen];
    this.numTrained = trained.length;
    this.half = half;
    const isOne = placement.shardsParameters || trained.length === 0 || frozen.length === 0;
    this.#gathered = (isOne ? [this.members] : [trained, frozen]).map(
      (members) => new UnitParameters(spec, members),
    );
    const [held, heldFrozen = held] = this.#gathered as [UnitParameters, UnitParameters?]; // `#gathered` has one or two sets
    const numRanks = placement.shardGroup?.size ?? 1;
    const layout = shardLayout(trained, numRanks);
    this.gradients = new UnitGradients(spec, layout);
    this.trained = new UnitState(this, {
      name: this.module,
      layout,
      parameters: held,
      first: 0,
      trains: true,
    });
    this.frozen = new UnitState(this, {
      name: `${this.module} (frozen)`,
      layout: shardLayout(frozen, numRanks),
      parameters: heldFrozen,
      first: isOne ? trained.length : 0,
      trains: false,
    });
    for (const parameter of trained) parameter.adopt(this.trained);
    for (const parameter of frozen) parameter.adopt(this.frozen);
  }

  /** 'unsharded' if all parameters are whole; otherwise the state of the first set that is not whole. */
  get state(): ShardedState {
    return this.#gathered.map(({ state }) => state).find((state) => state !== 'unsharded') ?? 'unsharded';
  }

  /** The whole parameters that `reshard` frees. */
  get gathered(): readonly tf.Tensor[] {
    return this.#gathered.flatMap(({ gathered }) => gathered);
  }

  /**
   * Takes the tensors `wholes` in place of the tensors of `gathered`, which are already freed. `wholes` has all whole parameters
   * or is empty.
   */
  replaceGathered(wholes: readonly tf.Tensor[]): void {
    // Parameters that are freed after use are one set.
    for (const parameters of this.#gathered) parameters.replaceGathered(wholes);
  }

  /** Whether `unshard` makes whole parameters from chunks, by a gather or by a copy. */
  get unshards(): boolean {
    return this.#gathered.some(({ unshards }) => unshards);
  }

  /** Whether gradients are not reduced, so that gradients and values may differ between ranks. */
  get isLocal(): boolean {
    const { shardGroup, replicateGroup } = this.placement;
    return shardGroup === null && replicateGroup === null;
  }

  /** Whether the unit holds gradients that are already reduced. */
  get hasGrad(): boolean {
    return this.gradients.shard !== null || this.gradients.wholes !== null;
  }

  /** Whether whole parameters are freed after forward. */
  get reshardAfterForward(): boolean {
    const { reshardAfterForward } = this.placement;
    return reshardAfterForward === 'allButRoot' ? !this.#isRoot : reshardAfterForward;
  }

  /** Adds this unit to a root's schedule. */
  join(schedule: UnitSchedule, isRoot: boolean): void {
    this.#schedule = schedule;
    this.#isRoot = isRoot;
  }

  get schedule(): UnitSchedule | null {
    return this.#schedule;
  }

  /** Starts to gather the whole parameters; a second call has no effect while the gather is in flight. */
  unshard(): void {
    for (const parameters of this.#gathered) parameters.unshard();
  }

  /** Gathers the whole parameters, and waits until they are gathered. */
  waitForUnshard(): void {
    for (const parameters of this.#gathered) parameters.waitForUnshard();
  }

  /** Whether a gather was started and no caller has waited for it yet. */
  get isUnsharding(): boolean {
    return this.#gathered.some(({ isUnsharding }) => isUnsharding);
  }

  /** Frees the whole parameters, unless the placement says that they stay whole. */
  reshard(): void {
    for (const parameters of this.#gathered) parameters.reshard();
  }

  /**
   * Like `reshard`, but if the placement says so, each rank holds a larger shard until backward (parameters are sharded over
   * fewer ranks).
   */
  reshardPostForward(): void {
    for (const parameters of this.#gathered) parameters.reshardPostForward();
  }

  /**
   * Releases everything except the parameters' chunks after an interrupted pass, because data in flight will not
   * arrive. Whole parameters that are not freed count as stale, on every rank.
   */
  abandon(): void {
    this.gradients.zero();
    this.hideWholes();
  }

  /** Frees whole parameters, or marks those that stay whole as stale. Every rank then gathers them again. */
  hideWholes(): void {
    for (const parameters of this.#gathered) parameters.changed();
  }

  /** Notes that a state buffer is no longer used; disposes the unit when none of its state buffers is used. */
  released(state: UnitState): void {
    this.#released.add(state);
    const states = [this.trained, this.frozen].filter(({ slices }) => slices.length > 0);
    if (states.every((ownState) => this.#released.has(ownState))) this.dispose();
  }

  /** Frees all that the unit holds. */
  dispose(): void {
    this.gradients.zero();
    for (const parameters of this.#gathered) parameters.dispose();
  }
}
