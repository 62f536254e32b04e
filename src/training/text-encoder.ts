import * as tf from '../core/tf';
import { abandonUnits, fullyShard, policyOf, RowsOfRanks, type ShardContext } from '../sharding';
import { type Beside, type EncoderConfig, textEncoderOf } from './checkpoint/pretrained/text-encoder-model';

/**
 * A frozen text encoder beside a trained model. With `fsdp`, the encoder's parameters are sharded over the ranks, so every rank
 * must encode at the same time. Source: Wan2.2's T5EncoderModel and t5_fsdp.
 */
export class FrozenTextEncoder {
  readonly #model: Beside;
  /** Closes the files of trained weights, which are read when a parameter is sharded or used. */
  readonly #close: () => void;
  readonly #context: ShardContext;
  readonly #isSharded: boolean;

  /** `context.group` has all ranks of the training. */
  constructor(config: EncoderConfig, context: ShardContext) {
    const { textEncoder } = config;
    this.#context = context;
    this.#isSharded = textEncoder.fsdp && context.group.size > 1;
    const { model, close } = textEncoderOf(config, context.engine.hasValues);
    this.#model = model;
    this.#close = close;
    for (const parameter of this.#model.parameters()) parameter.requiresGrad = false;
    if (!this.#isSharded) return;
    const { text_encoder: encoder } = this.#model;
    const options = { precision: policyOf(config) };
    const place = { ...context, rows: new RowsOfRanks() };
    for (const block of encoder.blocks)
      fullyShard(block, place, { precision: { ...options.precision, outputDtype: null } });
    fullyShard(encoder, place, options);
  }

  /** Encodes texts. Shapes: tokens [B · L], 0 for padding → [B, L, d], 0 at padding. The caller disposes the result. */
  encode(tokens: Int32Array, batch: number): tf.Tensor {
    const { engine } = this.#context;
    try {
      return tf.tidy(() => {
        const ids = tf.tensor(tokens, [batch, tokens.length / batch], 'int32');
        const seen = tf.cast(tf.notEqual(ids, 0), 'float32');
        const hidden = this.#model.apply(ids, seen);
        return engine.tagged({ cause: 'batch', module: '' }, () => tf.mul(hidden, tf.expandDims(seen, 2)));
      });
    } finally {
      if (this.#isSharded) abandonUnits(this.#model.text_encoder);
    }
  }

  dispose(): void {
    for (const parameter of this.#model.parameters()) if (parameter.isAdopted) parameter.state.dispose();
    this.#model.dispose();
    this.#close();
  }
}
