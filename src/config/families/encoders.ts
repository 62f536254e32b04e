import { z } from 'zod';
import { type Family, family, type HubSizes } from './family';
import { layers, origin, size } from './sizes';

/** UMT5's encoder: RMSNorm, gated GELU, and biases of relative positions in every layer. */
export const t5Schema = z.strictObject({
  kind: z.literal('t5-encoder'),
  like: origin.like,
  layers,
  dim: size,
  attnDim: size.optional(),
  heads: size,
  ffn: size,
  vocab: size,
  seq: size.default(512),
  relativeBuckets: size.default(32),
  relativeDistance: size.default(128),
  normEps: z.number().positive().default(1e-6),
});

export type T5Config = z.output<typeof t5Schema>;

const t5Keys = z.looseObject({
  model_type: z.string(),
  num_layers: size,
  d_model: size,
  num_heads: size,
  d_kv: size,
  d_ff: size,
  vocab_size: size,
  relative_attention_num_buckets: size.default(32),
  relative_attention_max_distance: size.default(128),
  layer_norm_epsilon: z.number().positive().default(1e-6),
});

/** Reads only the encoder of T5, because models of images and videos use only the encoder. */
const t5 = family(t5Keys, (config) => {
  const width = config.num_heads * config.d_kv;
  return {
    name: `${config.model_type} encoder`,
    kind: 't5-encoder',
    layers: config.num_layers,
    dim: config.d_model,
    heads: config.num_heads,
    headDim: config.d_kv,
    attnDim: width === config.d_model ? undefined : width,
    ffn: config.d_ff,
    vocab: config.vocab_size,
    relativeBuckets: config.relative_attention_num_buckets,
    relativeDistance: config.relative_attention_max_distance,
    normEps: config.layer_norm_epsilon,
  };
});

const keys = z.looseObject({
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: size,
  num_attention_heads: size,
});

/** Returns layers without a head. */
function sizesOf(config: z.output<typeof keys>): HubSizes {
  return {
    kind: 'encoder',
    layers: config.num_hidden_layers,
    dim: config.hidden_size,
    heads: config.num_attention_heads,
    ffn: config.intermediate_size,
  };
}

const bertKeys = keys.extend({
  vocab_size: size,
  max_position_embeddings: size.nullish(),
  type_vocab_size: size.default(2),
});

const vitKeys = keys.extend({ image_size: size, patch_size: size, num_channels: size.default(3) });

/** Families by `model_type`; BERT has a table of segments, and ViT has patches. Source: transformers' configurations. */
export const ENCODERS: Readonly<Record<string, Family>> = {
  bert: family(bertKeys, (config) => ({
    ...sizesOf(config),
    vocab: config.vocab_size,
    seq: config.max_position_embeddings ?? undefined,
    segments: config.type_vocab_size,
  })),
  vit: family(vitKeys, (config) => ({
    ...sizesOf(config),
    seq: (config.image_size / config.patch_size) ** 2 + 1,
    patchInputs: config.patch_size ** 2 * config.num_channels,
  })),
  t5,
  umt5: t5,
};
