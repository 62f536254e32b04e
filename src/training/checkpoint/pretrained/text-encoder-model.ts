import { encoderShape, type TrainConfig } from '../../../config';
import type * as tf from '../../../core/tf';
import { Module, T5Encoder } from '../../../nn';

/** A config with a text encoder. */
export type EncoderConfig = TrainConfig & { readonly textEncoder: NonNullable<TrainConfig['textEncoder']> };

/** A module around the encoder, so that the names of the encoder's modules begin with `text_encoder` in ledgers. */
export class Beside extends Module {
  readonly text_encoder: T5Encoder;

  constructor(encoder: T5Encoder) {
    super();
    this.text_encoder = encoder;
  }

  forward(ids: tf.Tensor, mask: tf.Tensor): tf.Tensor {
    return this.text_encoder.apply(ids, mask);
  }
}

/** Makes the encoder of a config, with the values that the config's seed gives. */
export function textEncoderOf({ textEncoder, seed }: EncoderConfig): Beside {
  return new Beside(new T5Encoder(encoderShape(textEncoder))).manualSeed(seed).eval();
}
