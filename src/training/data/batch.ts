/**
 * Token ids of one microbatch, row by row: `batch` rows of seq + 1 tokens. Inputs are [:, :-1], targets are [:, 1:].
 */
export interface TokenBatch {
  readonly batch: number;
  readonly seq: number;
  readonly tokens: Int32Array;
  /** The tokens that count in the loss; undefined if every token counts. */
  readonly answers?: AnswerLabels | undefined;
}

/** Labels of a batch of instructions, in which only tokens of answers count in the loss. */
export interface AnswerLabels {
  /** For each input, the next token; IGNORED if that token does not count. Shapes: [batch · seq]. */
  readonly labels: Int32Array;
  /** For packed rows, the lengths in tokens of each row's documents and of its padding; null if a row is one document. */
  readonly documents: readonly (readonly number[])[] | null;
  /** The batch's loss is the mean over all its positions, times this factor. */
  readonly factor: number;
}

/** Deterministic batches: the same rank and index give the same values in every run. */
export interface BatchesOf<Batch> {
  readonly name: string;
  /**
   * Returns a batch of a rank; `index` counts microbatches from 0 over the whole run. `first` is the index of the step's first
   * microbatch; data need it if their loss is a mean over a step.
   */
  batch(rank: number, index: number, first?: number): Batch;
  /** The batches that are never trained on; null or undefined if there are none. */
  readonly validation?: ValidationBatches<Batch> | null;
}

/** Batches of a known number of rows, so that an epoch has an end. */
export interface EpochBatches<Batch> extends BatchesOf<Batch> {
  /** Number of batches that a rank needs for its rows of one epoch; the last batch may end with rows of the next epoch. */
  readonly numBatches: number;
}

/** Batches of tokens. */
export type BatchSource = BatchesOf<TokenBatch>;

/** Batches of a validation part; all ranks' batches together contain each row once. */
export interface ValidationBatches<Batch> {
  /** Number of validation rows, summed over ranks. */
  readonly numRows: number;
  /** Number of batches that each rank runs. */
  readonly numBatches: number;
  /** Returns a batch of a rank; `index` counts from 0. */
  batch(rank: number, index: number): ValidationBatch<Batch>;
}

/** Validation batches whose number is not known. Ranks stop when no rank has rows left. */
export interface UncountedBatches<Batch> extends Pick<ValidationBatches<Batch>, 'batch'> {
  readonly numBatches: null;
}

/** A batch of a validation part. The last batches may have fewer rows than the others. */
export interface ValidationBatch<Batch> {
  readonly batch: Batch;
  /** Number of rows that count. It is 0 if the rank has no row left; the batch then is a row that another rank counts. */
  readonly counted: number;
}

/**
 * A user's function that makes a microbatch, called in each rank; `step` counts microbatches from 0 over the whole run. A
 * resumed run continues like an uninterrupted run if the function's result depends only on the rank and `step`.
 */
export type BatchFunction<Scope, Batch> = (scope: Scope, step: number) => Batch;

/** One column of a batch. Shapes: `values` [rows, …shape]. */
export interface BatchColumn {
  readonly shape: readonly number[];
  readonly dtype: 'float32' | 'int32';
  readonly values: Float32Array | Int32Array;
}

/** A batch of rows with inputs x and, unless the data has none, targets y. */
export interface RowBatch {
  readonly batch: number;
  readonly x: BatchColumn;
  readonly y: BatchColumn | null;
}

/** The sizes of a source's batches: rows, tokens per row, and vocabulary. */
export interface BatchShape {
  readonly batch: number;
  readonly seq: number;
  readonly vocab: number;
}

/** Returns the inputs [batch · seq] of a token batch. */
export function tokenInputsOf(tokens: TokenBatch): Int32Array {
  return columns(tokens, 0);
}

/** Returns the targets [batch · seq] of a token batch: for each input the next token, or IGNORED. */
export function targetsOf(tokens: TokenBatch): Int32Array {
  return tokens.answers?.labels ?? columns(tokens, 1);
}

function columns({ batch, seq, tokens }: TokenBatch, from: number): Int32Array {
  const values = new Int32Array(batch * seq);
  for (let row = 0; row < batch; row++) {
    const start = row * (seq + 1) + from;
    values.set(tokens.subarray(start, start + seq), row * seq);
  }
  return values;
}
