/**
 * Token ids of one microbatch, row by row: `batch` rows of seq + 1 tokens. Inputs are [:, :-1], targets are [:, 1:].
 */
export interface TokenBatch {
  readonly batch: number;
  readonly seq: number;
  readonly tokens: Int32Array;
}

/** Deterministic batches: the same rank and index give the same tokens in every run. */
export interface BatchSource {
  readonly name: string;
  /** Returns a batch of a rank; `index` counts microbatches from 0 over the whole run. */
  batch(rank: number, index: number): TokenBatch;
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

/** Returns the targets [batch · seq] of a token batch: for each input, the next token. */
export function targetsOf(tokens: TokenBatch): Int32Array {
  return columns(tokens, 1);
}

function columns({ batch, seq, tokens }: TokenBatch, from: number): Int32Array {
  const values = new Int32Array(batch * seq);
  for (let row = 0; row < batch; row++) {
    const start = row * (seq + 1) + from;
    values.set(tokens.subarray(start, start + seq), row * seq);
  }
  return values;
}
