import * as tf from '../core/tf';
import { type Attend, attention, SequenceAttention } from './attention';
import type { LanguageModel } from './models/language-model';
import { fromBegin } from './positions';

/**
 * [Note: packed sequences] A packed batch is one row that has documents one after the other. Each position attends only to
 * positions of its own document, and positions begin again with each document. Therefore packing does not change the values of
 * a document. Attention is computed per document, so neither a mask nor scores between documents are needed. Source:
 * flash_attn_varlen_func; transformers' DataCollatorWithFlattening.
 */
export class PackedSequences {
  #lengths: readonly number[] | null = null;

  /**
   * Divides the model's next inputs [1, T] into documents of these lengths, until `end` is called. The sum of the lengths is T.
   */
  begin(lengths: readonly number[]): void {
    this.#lengths = lengths;
  }

  /** Ends the division into documents: from now on, each row of an input is one sequence. */
  end(): void {
    this.#lengths = null;
  }

  readonly positionsOf: typeof fromBegin = (length) =>
    this.#lengths?.map((packedLength) => ({ start: 0, length: packedLength })) ?? fromBegin(length);

  readonly attend: Attend = (q, k, v, options) => {
    const lengths = this.#lengths;
    if (lengths === null) return attention(q, k, v, options);
    const [qs, ks, vs] = [q, k, v].map((x) => tf.split(x, [...lengths], 1)) as [
      tf.Tensor[],
      tf.Tensor[],
      tf.Tensor[],
    ]; // the parts of q, k and v
    const mixed = qs.flatMap((part, i) => {
      const [keys, values] = [ks[i], vs[i]];
      return keys === undefined || values === undefined ? [] : [attention(part, keys, values, options)];
    });
    return mixed.length === 1 ? (mixed[0] as tf.Tensor) : tf.concat(mixed, 1);
  };
}

/** Lets a language model take packed sequences. Call this function before a strategy is applied. See [Note: packed sequences]. */
export function packSequences(model: LanguageModel): PackedSequences {
  const packed = new PackedSequences();
  model.positionsOf = packed.positionsOf;
  for (const module of model.modules())
    if (module instanceof SequenceAttention) module.attend = packed.attend;
  return packed;
}
