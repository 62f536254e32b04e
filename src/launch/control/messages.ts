import type { CellError, DebugNews, DebugOrder, DebugSetup, MimeBundle } from '../../cell';
import type { Bytes, ErrorCode, ErrorDetails, Seconds, StepPoint } from '../../core';
import type { SourcePlace } from '../../figures';
import type { StepRecord } from '../../ledger';
import type { ReplicaSum } from '../../sharding';
import type {
  PreparedData,
  RankProgress,
  Sampling,
  SaveOptions,
  StepResult,
  VideoSampling,
  WantedBatches,
} from '../../training';
import type { AbortReason } from '../../wire';
import type { PlantedFault } from './faults';
import type { MadeEvent } from './made-values';
import type { Measurement } from './measurement';
import type { Situation } from './situation';
import type {
  BatchesMade,
  BatchesNeeded,
  PutWork,
  PythonWork,
  TorchModel,
  TorchState,
} from './torch-messages';

/** What a save contains besides parameters: the optimizer's states, the last step's gradients before clipping, or nothing. */
export type SavedBeside = 'states' | 'gradients' | 'nothing';

/** The loss on validation rows after a step. */
export interface EvaluatedStep {
  readonly step: number;
  readonly loss: number;
}

/** Identifies a group of the job's first ranks. */
export interface GroupRef {
  readonly id: number;
  /** The group has ranks 0 to size - 1. */
  readonly size: number;
}

/** An error that a rank threw, with its line in the cell; `code` is RANK_FAILED if the error is not shardlab's. */
export interface RankError extends CellError {
  readonly code: ErrorCode;
  readonly details?: ErrorDetails | undefined;
}

/** Output of a rank's work, while it runs or when it ends. */
export type RankOutput =
  | { readonly kind: 'stream'; readonly name: 'stdout' | 'stderr'; readonly text: string }
  | { readonly kind: 'display'; readonly bundle: MimeBundle; readonly displayId?: string | undefined }
  | { readonly kind: 'update'; readonly bundle: MimeBundle; readonly displayId: string }
  | { readonly kind: 'clear'; readonly wait: boolean }
  | { readonly kind: 'result'; readonly bundle: MimeBundle }
  | { readonly kind: 'error'; readonly error: RankError };

/** An output with its rank and its cell. */
export type RankEvent = RankOutput & { readonly rank: number; readonly cell: number | undefined };

/** A function that the user wrote: its source, or a file and the name under which the file exports the function. */
export type Shipped = { readonly source: string } | { readonly file: string; readonly exported: string };

/** The parts of a training that a user can write. A part is null if the user did not write it; then the config names it. */
export interface OwnSources {
  readonly model: Shipped | null;
  readonly loss: Shipped | null;
  readonly data: Shipped | null;
  readonly validation: Shipped | null;
}

/** Work for a rank's main thread. */
export type RankWork =
  | {
      readonly kind: 'cell';
      readonly js: string;
      readonly cell: number;
      readonly walks?: boolean;
      /** Where the debugger stops the cell; undefined if there is no debugger. */
      readonly debug?: DebugSetup;
    }
  | PutWork
  /** Returns the value of a variable, in the form of [Note: sent values]. */
  | { readonly kind: 'get'; readonly name: string }
  /** Returns the value of a function, as 'get' does; `coded` has its arguments. */
  | {
      readonly kind: 'function';
      readonly source: string;
      readonly coded: Uint8Array;
      readonly walks?: boolean;
    }
  | {
      readonly kind: 'train';
      readonly run: number;
      readonly config: unknown;
      readonly data: PreparedData | undefined;
      readonly own: OwnSources | undefined;
      readonly init: string | readonly string[] | undefined;
      readonly group: GroupRef;
      /** The number of steps after which each rank copies its state to the next rank; undefined: never. */
      readonly copySteps?: number | undefined;
      /** Ranks of PyTorch make no faults. */
      readonly faults?: readonly PlantedFault[] | undefined;
      readonly torch?: TorchModel | undefined;
    }
  | {
      readonly kind: 'reshard';
      readonly run: number;
      readonly torch?: TorchModel | undefined;
      readonly config: unknown;
      readonly data: PreparedData | undefined;
      readonly own: OwnSources | undefined;
      readonly before: GroupRef;
      readonly after: GroupRef;
      readonly copySteps?: number | undefined;
    }
  /** Ends when the state was copied; later messages about `save` report the writing. */
  | {
      readonly kind: 'save';
      readonly run: number;
      readonly save: number;
      readonly folder: string;
      readonly options: SaveOptions;
      readonly beside: SavedBeside;
      /** The validation losses so far, which the checkpoint contains. */
      readonly evaluations: readonly EvaluatedStep[];
      readonly torchState?: TorchState | undefined;
    }
  | {
      readonly kind: 'load';
      readonly run: number;
      readonly folder: string;
      readonly parametersOnly: boolean;
    }
  | { readonly kind: 'group'; readonly group: GroupRef }
  /** Measures the memory of a config; `run` is a number that only the trial's buffers use. */
  | {
      readonly kind: 'probe';
      readonly run: number;
      readonly config: unknown;
      readonly data: PreparedData | undefined;
      readonly own: OwnSources | undefined;
      readonly group: GroupRef;
    }
  /** Traces the user's model, and stores batches of all data-parallel ranks; see `traceOnRank`. */
  | {
      readonly kind: 'trace';
      readonly run: number;
      readonly config: unknown;
      readonly data: PreparedData | undefined;
      readonly own: OwnSources;
      readonly group: GroupRef;
      readonly folder: string;
      readonly dataRanks: number;
      readonly batches: WantedBatches;
    }
  /** Stores batches of all data-parallel ranks of a model in Python, and describes its code; only ranks of PyTorch do this. */
  | {
      readonly kind: 'exportOwn';
      readonly run: number;
      readonly folder: string;
      readonly dataRanks: number;
      readonly batches: WantedBatches;
    }
  | {
      readonly kind: 'steps';
      readonly run: number;
      readonly numSteps: number;
      readonly grant: StepGrant;
      /** Whether ranks return the checksums of their replicas after the last step. */
      readonly comparesReplicas: boolean;
      /** Whether ranks halt before each point. [Note: walks] in rank/walker.ts */
      readonly walks?: boolean;
      /** Whether ranks record what the points of the last step make, and return the digests. [Note: made values] */
      readonly records?: boolean | undefined;
    }
  /** Plants faults in the cells and functions of the job's ranks, in place of earlier ones. */
  | { readonly kind: 'plant'; readonly faults: readonly PlantedFault[] }
  /** Returns the values of a part of a recorded event on rank `rank`; null on other ranks, and if the values were not stored. */
  | {
      readonly kind: 'madeValues';
      readonly run: number;
      readonly rank: number;
      readonly event: number;
      readonly part: number;
    }
  /** Sets the learning rate of the next step, in all groups of parameters. */
  | { readonly kind: 'rate'; readonly run: number; readonly lr: number }
  /** Reports the units of a run's model. */
  | { readonly kind: 'units'; readonly run: number }
  /** Returns the means of the loss and of metrics (sources of functions) over the validation rows, on every rank. */
  | { readonly kind: 'evaluate'; readonly run: number; readonly metrics: Readonly<Record<string, string>> }
  /** Returns the ids, with the ones that the model adds. */
  | ({ readonly kind: 'sample'; readonly run: number; readonly ids: readonly number[] } & Sampling)
  /** Returns a video for each caption, on every rank. */
  | ({
      readonly kind: 'sampleVideo';
      readonly run: number;
      readonly captions: readonly string[];
      /** The captions' token ids; null for moving shapes, whose captions have words of their own. */
      readonly tokens: readonly (readonly number[])[] | null;
    } & VideoSampling)
  /** Returns the steps of which the rank has copies. */
  | { readonly kind: 'copies'; readonly run: number }
  /** Gives the model, which was built again, the copied state of a step; returns what `CopyRestored` says. */
  | { readonly kind: 'restore'; readonly run: number; readonly step: number }
  | { readonly kind: 'disposeRun'; readonly run: number; readonly keepsCopies?: boolean }
  | PythonWork
  | { readonly kind: 'measure'; readonly measurement: Measurement }
  /** Makes a rank usable again; with `lost`, ranks were started again, and the rank returns the names that cells have declared. */
  | { readonly kind: 'recover'; readonly lost?: readonly number[] };

/** The result of a rank's work. Structured clone must be able to copy `value`. */
export type RankOutcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: RankError };

/** The number of steps of a call that ranks may run, and whether this number is final. [Note: grants] in run/training.ts. */
export interface StepGrant {
  readonly granted: number;
  readonly isFinal: boolean;
}

/** A rank's answer when the copied state of a run was restored. */
export interface CopyRestored {
  /** Number of the optimizer's updates so far. */
  readonly numUpdates: number;
  /** The results of the newest steps; empty on a rank that was started again. */
  readonly results: readonly StepResult[];
}

/** A rank's report of one training step. */
export interface RankStep {
  readonly result: StepResult;
  /** Null: the step was not recorded. Most steps on PyTorch are not recorded. */
  readonly record: StepRecord | null;
}

/** A rank's report of one step of a cell or of a function. [Note: steps of cells] */
export interface CellStep {
  /**
   * 'step': the step ended with an update; 'cell': the cell made no update; 'minor': the cell made no update, and
   * all its tensors are temporary.
   */
  readonly kind: 'step' | 'cell' | 'minor';
  /** The loss of this rank; null if the step has no loss. */
  readonly loss: number | null;
  readonly lr: number | null;
  /** The norm that clipGradNorm returned. */
  readonly gradNorm: number | null;
  readonly seconds: Seconds;
  /** Null for a step without a record: if steps are very short, only some of them get one. */
  readonly record: StepRecord | null;
}

/** A point that a walked rank has reached. */
export interface ReachedPoint {
  readonly point: StepPoint;
  /** Bytes on the rank's device, in the order of MEMORY_CAUSES. */
  readonly bytes: readonly Bytes[];
  readonly place: SourcePlace | null;
}

/** The checksums of a rank's replicas after the last step of a call. */
export interface ComparedReplicas {
  readonly sums: readonly ReplicaSum[];
  /** The time that the checksums took. */
  readonly seconds: Seconds;
  /** What the points of the last step made; only if it was recorded. */
  readonly made?: readonly MadeEvent[] | undefined;
}

/** News of a running save: the number of bytes on the disk, or the end of the save. */
export type SaveNews =
  | { readonly writtenBytes: Bytes; readonly totalBytes: Bytes }
  | { readonly error: RankError | null };

/** A rank's report when it is ready. */
export interface ReadyReport {
  readonly pid: number;
  readonly rssBytes: number;
  readonly engine: string;
  readonly blas: string;
  readonly transport: string;
  /** The device of a rank of PyTorch: 'cpu', or a GPU's name. */
  readonly device?: string | undefined;
  /** Milliseconds since the process was started. */
  readonly readyMs: number;
}

/** A message from the launcher to a rank's courier. */
export type ToRank =
  | { readonly type: 'work'; readonly id: number; readonly work: RankWork }
  /** Asks what the main thread does; with `looks`, also at which line of the user's code it is. */
  | { readonly type: 'status'; readonly id: number; readonly looks: boolean }
  /** Interrupts the main thread's work, unless the work ends by itself within `delayMs`. */
  | { readonly type: 'interrupt'; readonly delayMs: number }
  /** Writes the abort word of a rank whose control block the launcher cannot write, because ranks share no memory. */
  | { readonly type: 'abort'; readonly reason: AbortReason }
  /** Begins an epoch in a rank whose control block the launcher cannot write. */
  | { readonly type: 'reset'; readonly epoch: number }
  | { readonly type: 'grant'; readonly grant: StepGrant }
  /** The number of points that the rank may pass in the walked work; Infinity: it continues without halts. */
  | { readonly type: 'walk'; readonly passes: number }
  | { readonly type: 'batches'; readonly id: number; readonly made: BatchesMade }
  | {
      readonly type: 'noBatches';
      readonly id: number;
      readonly run: number;
      readonly error: { readonly code: ErrorCode; readonly message: string };
    }
  | { readonly type: 'debug'; readonly order: DebugOrder }
  | { readonly type: 'shutdown' };

/** A message from a rank to the launcher. */
export type FromRank =
  | { readonly type: 'ready'; readonly report: ReadyReport }
  | { readonly type: 'failed'; readonly error: RankError }
  | { readonly type: 'output'; readonly id: number; readonly output: RankOutput }
  | { readonly type: 'step'; readonly id: number; readonly step: RankStep }
  | { readonly type: 'cellStep'; readonly id: number; readonly step: CellStep }
  /** The checksums of the replicas that this cell or function trained. */
  | { readonly type: 'replicas'; readonly id: number; readonly sums: readonly ReplicaSum[] }
  | { readonly type: 'reached'; readonly id: number; readonly reached: ReachedPoint }
  | { readonly type: 'progress'; readonly id: number; readonly progress: RankProgress }
  /** `id` is the number of the question; the answer has the same number. */
  | { readonly type: 'need'; readonly id: number; readonly need: BatchesNeeded }
  | { readonly type: 'save'; readonly save: number; readonly news: SaveNews }
  | {
      readonly type: 'ended';
      readonly id: number;
      readonly outcome: RankOutcome;
      /** The WebAssembly kernel that crashed in this work or in earlier work, and may have damaged the rank's heap. */
      readonly damage?: string | undefined;
    }
  | { readonly type: 'debug'; readonly news: DebugNews }
  | { readonly type: 'status'; readonly id: number; readonly status: Situation };

/** A message from the courier to its main thread. */
export type ToMain =
  | { readonly type: 'work'; readonly id: number; readonly work: RankWork }
  | { readonly type: 'interrupt'; readonly id: number; readonly at: Seconds }
  /** The courier can now terminate the main thread's work. */
  | { readonly type: 'attached' }
  | { readonly type: 'shutdown' };

/**
 * A message from the main thread to its courier: a message for the launcher, the ranks of a group, or the order to close
 * the link before the process exits.
 */
export type ToCourier =
  | FromRank
  | { readonly type: 'group'; readonly name: string; readonly ranks: readonly number[] }
  | { readonly type: 'close' };

/** The values that the courier thread needs to start. */
export interface CourierData {
  readonly rank: number;
  readonly control: ControlAddress;
  readonly folder: string;
  readonly lifelineFd: number;
  readonly shared: SharedArrayBuffer;
  /** Marks that the main thread sets while it does work that must not be terminated. */
  readonly unbroken: Int32Array;
  readonly statusBoard: SharedArrayBuffer;
  /** This rank's own control block, if ranks share no memory. */
  readonly controlBlock: SharedArrayBuffer | undefined;
}

/** The launcher's address, and the secret that proves that a rank belongs to the job. */
export interface ControlAddress {
  readonly endpoint: string;
  readonly token: string;
}
