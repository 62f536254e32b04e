import type { AttentionKind, Stack, TrainConfigInput } from '../../config';

/**
 * The effect of a line of the user's settings. 'used': a run does it; 'planned': only a plan does; 'exported': it is for the launcher of the
 * other program, and an exported folder has it, or its report names it; 'none': it has no effect; 'warning': it has another effect than its name says; 'refused': it is left
 * out, because nothing here does it; 'error': it is wrong.
 */
export type Effect = 'used' | 'planned' | 'exported' | 'none' | 'warning' | 'refused' | 'error';

/** A key of the user's settings with its value, and where the key was written. */
export interface Entry {
  /** The file; 'command line' for an argument of a command. */
  readonly file: string;
  readonly line: number;
  /** The key with the sections that contain it, as it was written: 'zero_optimization.stage', '--num_processes', 'NCCL_DEBUG'. */
  readonly key: string;
  readonly value: unknown;
}

/** A line that was read: its effect here, and the reason. */
export interface ReadLine extends Entry {
  readonly effect: Effect;
  readonly why: string;
}

/** The effect of a line, and the reason. */
export type LineEffect = Pick<ReadLine, 'effect' | 'why'>;

/** Where a training runs, and facts that only a plan uses, as far as lines give them. */
export interface Place {
  /** Number of ranks. */
  readonly world: number;
  readonly machines: number;
  readonly ranksPerMachine: number;
  /** Rows of all data-parallel ranks per step. */
  readonly globalBatch: number;
  /** Rows of a microbatch of a pipeline. */
  readonly microRows: number;
  /** The rows of all ranks per step for which the program chooses the number of passes, if no line has passes or rows. */
  readonly usualRows: { readonly rows: number; readonly isPerDataRank: boolean };
  /** A model of the hub's catalogue, which only plans know. */
  readonly model: string;
  /** Number of tokens per sequence. */
  readonly seq: number;
  /** The program that trains, by the planner's word. */
  readonly stack: Stack;
  /** How attention is computed, for a model that other lines name or size. */
  readonly attention: AttentionKind;
  /** Whether the model, and whether the loss is compiled. */
  readonly compile: boolean;
  readonly compileLoss: boolean;
  readonly dropout: boolean;
  /** Whether the messages of tensor parallelism overlap with its matmuls. */
  readonly asyncTensorParallel: boolean;
  /** Whether matmuls are in float8. */
  readonly isFp8: boolean;
  /** Whether the other program shortens a warm-up that has more steps than the training. */
  readonly isWarmupCut: boolean;
}

/** The user's settings, as settings of this library. */
export interface Reading {
  /** Number of ranks; null if no line has it. */
  readonly world: number | null;
  /** Number of machines; null if no line has it. */
  readonly machines: number | null;
  /** The settings, as `job.train` takes them. */
  readonly config: TrainConfigInput;
  /** Every line, in the order of the files. */
  readonly lines: readonly ReadLine[];
  /** Facts that plans use in addition to a config. */
  readonly place: Partial<Place>;
}
