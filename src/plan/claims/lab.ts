import type { TrainConfigInput } from '../../config/train-config';
import type { CollectiveOp, CommCause } from '../../core/events';
import type * as tf from '../../core/tf';
import type { Bytes, Seconds } from '../../core/units';
import type { Dist } from '../../dist/facade';
import type { ProcessGroup } from '../../dist/types';
import type { BytesByCause } from '../../ledger/record';
import type { TemperatureGating, TemperatureGatingOptions } from '../../nn/temperature-gating';
import type { LinkName, LinkNumbers } from '../../transport/link';
import type { MemoryPrediction, Prediction } from '../prediction';
import type { PlanRequestInput } from '../request';

/** What checks without a run may ask. They get it by argument, so that a test can break it. */
export interface PlanLab {
  /** Time and memory on GPUs. */
  predict(request: PlanRequestInput): Prediction;
  /** Memory alone. */
  memory(request: PlanRequestInput): MemoryPrediction;
}

/** Where a run takes place: ranks of this machine, on a wire that may be shaped. */
export interface LabPlace {
  readonly ranks: number;
  readonly link?: LinkName | LinkNumbers;
  /** Most bytes that a rank's engine may hold. */
  readonly memoryLimit?: Bytes;
}

/** Collectives of one kind, cause and rank in one step. */
export interface LabCollectives {
  readonly op: CollectiveOp;
  readonly cause: CommCause;
  readonly count: number;
  readonly bytes: Bytes;
  readonly wireBytes: Bytes;
  /** The main thread stood still. */
  readonly exposedSeconds: Seconds;
  readonly overlappedSeconds: Seconds;
}

/** The results of a run on this machine; bytes and collectives are those of its last step. */
export interface RunFacts {
  readonly world: number;
  readonly numParams: number;
  readonly losses: readonly number[];
  readonly gradNorms: readonly number[];
  /** Of each step. */
  readonly stepSeconds: readonly Seconds[];
  /** On rank 0. */
  readonly collectives: readonly LabCollectives[];
  /** Most that a rank held on the device at one moment. */
  readonly peakBytes: Bytes;
  /** By cause on that rank at that moment; `logical` at the declared types. */
  readonly atPeak: BytesByCause;
  readonly logicalAtPeak: BytesByCause;
  /** The largest that each cause was at any moment of the step, on that rank. */
  readonly peakByCause: BytesByCause;
  /** At the step's end, on rank 0. */
  readonly atRest: BytesByCause;
  readonly hostAtRest: BytesByCause;
}

/** A run that takes commands; it ends with its work. */
export interface LabRun {
  step(numSteps: number): Promise<void>;
  save(path: string): Promise<void>;
  load(path: string): Promise<void>;
  facts(): RunFacts;
}

/** What a function in a rank finds in its first argument (of what a rank's cell sees, the part that checks use). */
export interface LabScope {
  readonly rank: number;
  readonly worldSize: number;
  readonly group: ProcessGroup;
  readonly dist: Dist;
  readonly tf: typeof tf;
  readonly TemperatureGating: new (
    inputDim: number,
    numExperts: number,
    options?: TemperatureGatingOptions,
  ) => TemperatureGating;
}

/** Real ranks. Jobs are kept for the next question of the same place, until `close`. */
export interface RunLab {
  /** Trains this number of steps. */
  train(config: TrainConfigInput, place: LabPlace & { readonly steps: number }): Promise<RunFacts>;
  /**
   * Several runs on the same ranks, a step of each in turn, so that what slows the machine slows all of them. The first
   * `warmUp` steps (default 2) come on top and are left out of `stepSeconds`.
   */
  inTurn<Name extends string>(
    configs: Readonly<Record<Name, TrainConfigInput>>,
    place: LabPlace & { readonly rounds: number; readonly warmUp?: number },
  ): Promise<Readonly<Record<Name, RunFacts>>>;
  /** Gives a run to `work`, and an empty folder that is removed after it. */
  withRun<T>(
    config: TrainConfigInput,
    place: LabPlace,
    work: (run: LabRun, folder: string) => Promise<T>,
  ): Promise<T>;
  /** Times of a collective of `elements` float32 elements on rank 0, round by round. */
  collective(
    op: 'allReduce' | 'reduceScatter' | 'allGather' | 'allToAll',
    elements: number,
    place: LabPlace & { readonly rounds: number },
  ): Promise<readonly Seconds[]>;
  /** Runs a function in every rank. It is shipped by its source: it sees its arguments and nothing else of its file. */
  inRanks<Args extends readonly unknown[], Value>(
    place: LabPlace,
    work: (scope: LabScope, ...args: Args) => Value,
    ...args: Args
  ): Promise<Awaited<Value>[]>;
  /** Ends its jobs. */
  close(): Promise<void>;
}
