import type { TrainConfigInput } from '../../config/train-config';

/**
 * What a line of somebody's settings does here. 'used': a run does it; 'planned': only a plan does; 'exported': it is for the launcher of the
 * other program, and an exported folder has it; 'none': it has no effect; 'warning': it has not the effect of its name; 'refused': it is left
 * out, because nothing here does it; 'error': it is wrong.
 */
export type Effect = 'used' | 'planned' | 'exported' | 'none' | 'warning' | 'refused' | 'error';

/** A key of somebody's settings with its value, and where it was written. */
export interface Entry {
  /** The file; 'command line' for an argument of a command. */
  readonly file: string;
  readonly line: number;
  /** The key with the sections that contain it, as it was written: 'zero_optimization.stage', '--num_processes', 'NCCL_DEBUG'. */
  readonly key: string;
  readonly value: unknown;
}

/** A line that was read: what it does here, and why. */
export interface ReadLine extends Entry {
  readonly effect: Effect;
  readonly why: string;
}

/** The effect of a line. */
export type Told = Pick<ReadLine, 'effect' | 'why'>;

/** Where a training runs, and what only a plan knows, as far as lines say so. */
export interface Place {
  /** Number of ranks. */
  readonly world: number;
  readonly machines: number;
  readonly ranksPerMachine: number;
  /** Rows of all data-parallel ranks per step. */
  readonly globalBatch: number;
  /** Rows of a microbatch of a pipeline. */
  readonly microRows: number;
  /** Rows per step of all ranks that a program fills up by passes, unless a line says the passes or the rows. */
  readonly usualRows: { readonly rows: number; readonly isPerDataRank: boolean };
  /** A model of the hub's catalogue, which only plans know. */
  readonly model: string;
  /** Tokens of a sequence. */
  readonly seq: number;
  /** Whether the model is compiled. */
  readonly compile: boolean;
  readonly dropout: boolean;
  /** Whether matmuls are in float8. */
  readonly isFp8: boolean;
  /** Whether the other program cuts a warm-up to the steps of the training. */
  readonly isWarmupCut: boolean;
}

/** Somebody's settings in our own words. */
export interface Reading {
  /** Number of ranks; null: no line says it. */
  readonly world: number | null;
  /** Number of machines; null: no line says it. */
  readonly machines: number | null;
  /** The settings, as `job.train` takes them. */
  readonly config: TrainConfigInput;
  /** Every line, in the order of the files. */
  readonly lines: readonly ReadLine[];
  /** What plans know in addition to a config. */
  readonly place: Partial<Place>;
}
