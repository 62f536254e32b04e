import { encoderShape, type TrainConfig } from '../../../config';
import type * as tf from '../../../core/tf';
import { Module, T5Encoder } from '../../../nn';
import { requireFit } from '../load/fit';
import { openFirstState } from './open-pretrained';

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

/** A text encoder, and the function that closes the files of its weights. */
interface OpenedEncoder {
  readonly model: Beside;
  readonly close: () => void;
}

/**
 * Makes the encoder of a config, with the values of its files, or with those that the config's seed gives. `readsFiles` is false in a dry
 * run, which has no values. Throws: IO for files that cannot be read, SHAPE if they do not fit the encoder.
 */
export function textEncoderOf({ textEncoder, seed }: EncoderConfig, readsFiles = true): OpenedEncoder {
  const encoder = new T5Encoder(encoderShape(textEncoder));
  const model = new Beside(encoder).manualSeed(seed).eval();
  const { from } = textEncoder;
  if (from === null || !readsFiles) return { model, close: () => undefined };
  return { model, close: readEncoder(encoder, from) };
}

function readEncoder(encoder: T5Encoder, from: string | readonly string[]): () => void {
  const parameters = encoder.namedState();
  const { state, close } = openFirstState(from, encoder.shape, [...parameters.keys()]);
  try {
    const own = new Map([...state].filter(([name]) => !isBesideEncoder(name)));
    const shapes = new Map([...parameters].map(([name, { shape }]) => [name, shape]));
    const { unread } = state;
    requireFit(
      `textEncoder.from: ${String(from)} does not fit textEncoder.model`,
      shapes,
      own,
      unread && { unread },
    );
    for (const [name, parameter] of parameters) {
      const entry = own.get(name);
      if (entry !== undefined && 'source' in entry) parameter.defer(entry.source);
    }
    return close;
  } catch (error) {
    close();
    throw error;
  }
}

/** Whether a tensor of a whole T5 is none of its encoder, or is its encoder's copy of the table of tokens. */
function isBesideEncoder(name: string): boolean {
  return name === 'encoder.embed_tokens.weight' || /^(decoder\.|lm_head\.)/.test(name);
}
