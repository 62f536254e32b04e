import type { Engine } from '../../backend/engine';
import type { HalfDType } from '../../core/dtypes';
import type { Module } from '../../nn/module';
import type { Parameter } from '../../nn/parameter';
import { halfOf, type MixedPrecision } from '../precision/mixed-precision';
import type { RowTable } from '../sparse/row-tables';
import type { FsdpSchedule } from './fsdp-schedule';
import { type ShardLayout, shardLayout } from './shard-layout';
import { UnitGradients } from './unit-gradients';
import { type ShardedState, UnitParameters } from './unit-parameters';
import type { UnitPlacement } from './unit-placement';
import { UnitState } from './unit-state';

/** What makes a unit. */
export interface FsdpUnitOptions {
  readonly engine: Engine;
  readonly module: Module;
  readonly parameters: readonly Parameter[];
  readonly placement: UnitPlacement;
  /** Types of parameters and gradients on the wire and in values; default float32. */
  readonly precision?: MixedPrecision | undefined;
  /** Parameters of which only touched rows' gradients travel; those of other units may be among them. */
  readonly tables?: readonly RowTable[] | undefined;
  /** Whether shards of parameters and gradients lie on the host. */
  readonly offloadsParameters?: boolean | undefined;
}

/**
 * Parameters that are gathered and freed together. Where and for how long they, their gradients and what the optimizer
 * updates are whole or in shards is their placement's matter. Frozen parameters are gathered with the others; they have
 * no gradient, and their chunks are a state buffer of their own that no optimizer is given.
 */
export class FsdpUnit {
  /** The module's full name. */
  readonly module: string;
  readonly owner: Module;
  readonly placement: UnitPlacement;
  /** Those that train, then the frozen ones. */
  readonly members: readonly Parameter[];
  readonly numTrained: number;
  /** Values of whole parameters and of gradients as they leave backward; null: float32. */
  readonly half: HalfDType | null;
  readonly parameters: UnitParameters;
  readonly gradients: UnitGradients;
  /** What an optimizer updates. */
  readonly trained: UnitState;
  readonly frozen: UnitState;
  /** Whether the end of backward reduces gradients; otherwise they add up, local and whole. */
  requiresGradientSync = true;
  /** Units to gather during this one's forward and backward; null: those that ran next. Source: set_modules_to_forward_prefetch. */
  forwardPrefetch: readonly FsdpUnit[] | null = null;
  backwardPrefetch: readonly FsdpUnit[] | null = null;
  readonly #released = new Set<UnitState>();
  #schedule: FsdpSchedule | null = null;
  #isRoot = false;

  constructor(options: FsdpUnitOptions) {
    const { engine, module, parameters, placement, precision, offloadsParameters, tables = [] } = options;
    this.owner = module;
    this.module = module.path;
    this.placement = placement;
    const trained = parameters.filter((parameter) => parameter.requiresGrad);
    const frozen = parameters.filter((parameter) => !parameter.requiresGrad);
    this.members = [...trained, ...frozen];
    this.numTrained = trained.length;
    const onHost = (offloadsParameters ?? false) && placement.shardsParameters;
    const shared = { engine, module: this.module, placement, onHost };
    this.half = halfOf(precision?.paramDtype ?? null);
    this.parameters = new UnitParameters({ ...shared, parameters: this.members, half: this.half });
    const numRanks = placement.shardGroup?.size ?? 1;
    const layout = shardLayout(trained, numRanks);
    const reduced = {
      half: halfOf(precision?.reduceDtype ?? null),
      keepsHalf: precision?.keepLowPrecisionGrads ?? false,
      tables: tables.filter(({ parameter }) => trained.includes(parameter)),
    };
    this.gradients = new UnitGradients({ ...shared, ...reduced, layout });
    this.trained = new UnitState(this, { name: this.module, layout, first: 0, trains: true });
    this.frozen = new UnitState(this, {
      name: `${this.module} (frozen)`,
      layout: shardLayout(frozen, numRanks),
      first: trained.length,
      trains: false,
    });
    for (const parameter of trained) parameter.adopt(this.trained);
    for (const parameter of frozen) parameter.adopt(this.frozen);
  }

  /** All parameters in flat shards. */
  get layout(): ShardLayout {
    return this.parameters.layout;
  }

  get state(): ShardedState {
    return this.parameters.state;
  }

  /** Whether gradients, and so values, are this rank's own. */
  get isLocal(): boolean {
    const { shardGroup, replicateGroup } = this.placement;
    return shardGroup === null && replicateGroup === null;
  }

  /** Whether there is a mean gradient. */
  get hasGrad(): boolean {
    return this.gradients.shard !== null || this.gradients.wholes !== null;
  }

  /** Whether whole parameters are freed after forward. */
  get reshardAfterForward(): boolean {
    const { reshardAfterForward } = this.placement;
    return reshardAfterForward === 'allButRoot' ? !this.#isRoot : reshardAfterForward;
  }

  /** Puts this unit under a root's schedule. */
  join(schedule: FsdpSchedule, isRoot: boolean): void {
    this.#schedule = schedule;
    this.#isRoot = isRoot;
  }

  get schedule(): FsdpSchedule | null {
    return this.#schedule;
  }

  /** Starts to gather the whole parameters; a second call joins the first. */
  unshard(): void {
    this.parameters.gather();
  }

  /** Gathers the whole parameters and waits until they are here. */
  waitForUnshard(): void {
    this.parameters.wait();
  }

  /** Whether a gather is on its way that nobody waited for. */
  get isGathering(): boolean {
    return this.parameters.isGathering;
  }

  /** Frees the whole parameters where they do not stay. */
  reshard(): void {
    this.parameters.free();
  }

  /**
   * Lets go of all but the parameters' chunks after an interrupted pass: what was on its way will not arrive. Whole parameters
   * that stay count as stale, on every rank alike.
   */
  abandon(): void {
    this.gradients.zero();
    this.parameters.changed();
  }

  /** One of its state buffers is used no more; the unit goes with the last of them. */
  released(state: UnitState): void {
    this.#released.add(state);
    const states = [this.trained, this.frozen].filter(({ slices }) => slices.length > 0);
    if (states.every((one) => this.#released.has(one))) this.dispose();
  }

  /** Frees all that the unit holds. */
  dispose(): void {
    this.gradients.zero();
    this.parameters.dispose();
  }
}
