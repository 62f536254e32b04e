import type { TrainConfigInput } from '../config';
import type { Bytes, CollectiveOp, CommCause, Seconds } from '../core';
import type * as tf from '../core/tf';
import type { BytesByCause } from '../ledger';
import type { TemperatureGating, TemperatureGatingOptions } from '../nn';
import type { MemoryPrediction, PlanObject, Prediction } from '../planner';
import type { Dist, LinkName, LinkNumbers, ProcessGroup } from '../wire';

/** The planner's functions that checks call. Checks get this object as an argument, so that a test can replace it. */
export interface PlanLab {
  /** Predicts time and memory on GPUs. */
  predict(request: PlanObject): Prediction;
  /** Predicts only memory. */
  memory(request: PlanObject): MemoryPrediction;
  /** Returns the number unchanged. Checks call it for each number that they compute themselves, such as a formula's result. */
  figure(name: string, value: number): number;
}

/** Where a run takes place: ranks of this machine, with a link that may be shaped. */
export interface LabPlace {
  readonly ranks: number;
  readonly link?: LinkName | LinkNumbers;
}

/** Collectives of one kind, cause and rank in one step. */
export interface LabCollectives {
  readonly op: CollectiveOp;
  readonly cause: CommCause;
  readonly count: number;
  readonly bytes: Bytes;
  readonly wireBytes: Bytes;
  /** Time in which the main thread only waited. */
  readonly exposedSeconds: Seconds;
  readonly overlappedSeconds: Seconds;
}

/** The results of a run on this machine; bytes and collectives are those of its last step. */
export interface RunFacts {
  readonly world: number;
  readonly numParams: number;
  readonly losses: readonly number[];
  /** Seconds of each step. */
  readonly stepSeconds: readonly Seconds[];
  /** Collectives on rank 0. */
  readonly collectives: readonly LabCollectives[];
  /** The most bytes that a rank held on the device at one moment. */
  readonly peakBytes: Bytes;
  /** Bytes by cause on the rank and at the moment of `peakBytes`; `logicalAtPeak` counts them in the declared types. */
  readonly atPeak: BytesByCause;
  readonly logicalAtPeak: BytesByCause;
  /** The most bytes of each cause at any moment of the step, on the rank of `peakBytes`. */
  readonly peakByCause: BytesByCause;
  /** Bytes at the step's end, on rank 0. */
  readonly atRest: BytesByCause;
}

/** A run that takes commands until the function that received the run returns. */
export interface LabRun {
  step(numSteps: number): Promise<void>;
  save(path: string): Promise<void>;
  load(path: string): Promise<void>;
  facts(): RunFacts;
}

/** The first argument of a function that runs in a rank. It has those names of a rank's cell that checks use. */
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

/** Runs on real ranks. A job is used again for the next call with the same place, until `close`. */
export interface RunLab {
  /** Trains this number of steps. */
  train(config: TrainConfigInput, place: LabPlace & { readonly steps: number }): Promise<RunFacts>;
  /**
   * Runs several trainings on the same ranks, one step of each in turn, so that a slow machine affects all trainings alike.
   * `warmUp` more steps (default 2) come first and are left out of `stepSeconds`.
   */
  inTurn<Name extends string>(
    configs: Readonly<Record<Name, TrainConfigInput>>,
    place: LabPlace & { readonly rounds: number; readonly warmUp?: number },
  ): Promise<Readonly<Record<Name, RunFacts>>>;
  /** Passes a run and an empty folder to `work`, and removes the folder afterwards. */
  withRun<T>(
    config: TrainConfigInput,
    place: LabPlace,
    work: (run: LabRun, folder: string) => Promise<T>,
  ): Promise<T>;
  /** Runs a function in every rank. The function is sent as source text, so it sees only its arguments. */
  inRanks<Args extends readonly unknown[], Value>(
    place: LabPlace,
    work: (scope: LabScope, ...args: Args) => Value,
    ...args: Args
  ): Promise<Awaited<Value>[]>;
  /** Says why times that are measured now would not be judged; '' if this machine is quiet. */
  busy(): Promise<string>;
  /** Ends all jobs. */
  close(): Promise<void>;
}
