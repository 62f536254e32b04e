import type { CellError, CellOutput, DebugNews, DebugOrder, DebugSetup, MimeBundle } from '../../src/cell';

/** Number of an execution. Every output has this number, so that it appears in the cell that wrote it. */
export type ExecutionId = number;

/** Settings of the executor process. The process gets them as JSON in its only argument. */
export interface ExecutorSettings {
  /** Folder of the notebook. */
  readonly baseDir: string;
  /** Folder of shardlab's package.json. */
  readonly installation: string;
}

/** The request that runs a cell, as a page knows it. */
export interface Origin {
  readonly requestId: string;
  /** The cell of the notebook; undefined if the client does not say it. */
  readonly cellId?: string | undefined;
  /** The cell's source. */
  readonly code: string;
}

/** A compiled cell. */
export interface RunCell {
  readonly type: 'run';
  readonly id: ExecutionId;
  /** The cell's number in the notebook. */
  readonly cell: number;
  /** Whether the cell belongs to a subshell, so that it may run while another cell waits. */
  readonly inSubshell: boolean;
  readonly js: string;
  readonly allowStdin: boolean;
  readonly origin: Origin;
}

/** A cell for the ranks of the newest job. */
export interface RunRanks extends Pick<RunCell, 'id' | 'cell' | 'inSubshell' | 'origin'> {
  readonly type: 'ranks';
  /** Compiled code, or Python as the user wrote it. */
  readonly code: string;
  readonly language: 'JavaScript' | 'Python';
  readonly selection: string;
  /** Where the debugger stops the ranks; undefined if there is no debugger. */
  readonly debug?: DebugSetup | undefined;
}

/** A rank of a job, for the debugger. `job` is a number that the executor gives to each job that it debugs. */
export interface RankPlace {
  readonly job: number;
  readonly rank: number;
}

/** An order for the debug agents of one rank or of all ranks. */
export interface RankOrder {
  readonly type: 'debug';
  readonly place: RankPlace | 'all';
  readonly order: DebugOrder;
}

/** A message of a comm, in either direction. */
export interface CommMessage {
  readonly type: 'comm';
  readonly kind: 'open' | 'message' | 'close';
  readonly commId: string;
  readonly target: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  readonly buffers?: readonly Uint8Array[] | undefined;
}

export type ToExecutor =
  | RunCell
  | RunRanks
  | RankOrder
  | { readonly type: 'input'; readonly value: string }
  | CommMessage;

export type Outcome =
  | { readonly ok: true; readonly result: MimeBundle | undefined }
  | {
      readonly ok: false;
      readonly error: CellError;
      /** True if a cell for ranks failed before any rank got it. */
      readonly reachedNoRank?: true;
    };

export type FromExecutor =
  | { readonly type: 'ready' }
  /** The report of a rank's debug agent. */
  | { readonly type: 'debug'; readonly place: RankPlace; readonly news: DebugNews }
  /** The main thread has noticed an interrupt of all executions. */
  | { readonly type: 'interrupting'; readonly id: ExecutionId }
  | { readonly type: 'output'; readonly id: ExecutionId; readonly output: CellOutput }
  | { readonly type: 'done'; readonly id: ExecutionId; readonly outcome: Outcome }
  | {
      readonly type: 'inputRequest';
      readonly id: ExecutionId;
      readonly prompt: string;
      readonly password: boolean;
    }
  | (CommMessage & { readonly id: ExecutionId });

/** The byte that the front writes to the lifeline to ask for an interrupt. */
export const INTERRUPT_BYTE = 0x49;
/**
 * The byte for an interrupt that child processes have received too. The cell gets more time, because the end of these processes
 * may end the cell.
 */
export const PATIENT_INTERRUPT_BYTE = 0x50;

/**
 * File descriptor of the lifeline in the executor; the lifeline closes when the front ends. If a cell ends the executor, the
 * executor first writes the reason to the lifeline.
 */
export const LIFELINE_FD = 4;
