/**
 * Token ids of one microbatch, row by row: `batch` rows of seq + 1 tokens. Inputs are [:, :-1], targets are [:, 1:].
 */
export interface TokenBatch {
  readonly batch: number;
  readonly seq: number;
  readonly tokens: Int32Array;
  /** What counts in the loss; undefined: each token counts. */
  readonly answers?: AnswerLabels | undefined;
}

/** Labels of instructions: only tokens of answers count in the loss. */
export interface AnswerLabels {
  /** For each input the next token, or IGNORED: [batch · seq]. */
  readonly labels: Int32Array;
  /** For packed rows, the lengths of each row's documents, padding included; null: a row is one document. */
  readonly documents: readonly (readonly number[])[] | null;
  /** The loss is the mean over all positions, times this factor. */
  readonly factor: number;
}

/** Deterministic batches: the same rank and index give the same values in every run. */
export interface BatchesOf<Batch> {
  readonly name: string;
  /**
   * Returns a batch of a rank; `index` counts microbatches from 0 over the whole run. `first` is the first microbatch of its step, for data whose
   * loss is a mean over a step.
   */
  batch(rank: number, index: number, first?: number): Batch;
  /** The rows that are never trained on; null or undefined: there are none. */
  readonly validation?: ValidationBatches<Batch> | null;
}

/** Batches of rows whose number is known, so that there are epochs. */
export interface EpochBatches<Batch> extends BatchesOf<Batch> {
  /** Number of batches of each rank in which an epoch's rows fit; the last one may end with rows of the next epoch. */
  readonly numBatches: number;
}

/** Batches of tokens. */
export type BatchSource = BatchesOf<TokenBatch>;

/** Batches that contain each row of a validation part once, over all ranks. */
export interface ValidationBatches<Batch> {
  /** Number of rows of all ranks. */
  readonly numRows: number;
  /** Number of batches of each rank. */
  readonly numBatches: number;
  /** Returns a batch of a rank; `index` counts from 0. */
  batch(rank: number, index: number): ValidationBatch<Batch>;
}

/** Validation batches whose number is not known: they end when no rank has rows left. */
export interface UncountedBatches<Batch> extends Pick<ValidationBatches<Batch>, 'batch'> {
  readonly numBatches: null;
}

/** A batch of a validation part. The last batches may have fewer rows than the others. */
export interface ValidationBatch<Batch> {
  readonly batch: Batch;
  /** Number of its rows that count. 0: the rank has no row left, and the batch is one row that another rank counts. */
  readonly counted: number;
}

/**
 * A user's function that makes a microbatch, called in each rank; `step` counts microbatches from 0 over the whole run. A resumed run
 * continues as if undisturbed if the result depends only on the rank and `step`.
 */
export type BatchFunction<Scope, Batch> = (scope: Scope, step: number) => Batch;

/** One column of a batch: [rows, …shape] values, row by row. */
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

/** The shape of a source's batches. */
export interface BatchShape {
  readonly batch: number;
  readonly seq: number;
  readonly vocab: number;
}

/** Returns the inputs [batch · seq] of a token batch. */
export function inputsOf(tokens: TokenBatch): Int32Array {
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
