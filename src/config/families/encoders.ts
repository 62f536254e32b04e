import { type Family, family } from './family';

const T5 = {
  name: 'model_type',
  layers: 'num_layers',
  dim: 'd_model',
  heads: 'num_heads',
  headDim: 'd_kv',
  ffn: 'd_ff',
  vocab: 'vocab_size',
  normEps: 'layer_norm_epsilon?',
  relativeBuckets: 'relative_attention_num_buckets?',
  relativeDistance: 'relative_attention_max_distance?',
} as const;

/** Reads only the encoder of T5, because models of images and videos use only the encoder. */
const t5 = family(T5, (words) => {
  const { name, heads, headDim, dim } = words;
  const attnDim = heads * headDim === dim ? undefined : heads * headDim;
  return { ...words, kind: 't5-encoder', name: `${name} encoder`, attnDim };
});

/** Layers without a head. */
const LAYERS = {
  layers: 'num_hidden_layers',
  dim: 'hidden_size',
  heads: 'num_attention_heads',
  ffn: 'intermediate_size',
} as const;

const BERT = {
  ...LAYERS,
  vocab: 'vocab_size',
  seq: 'max_position_embeddings?',
  segments: 'type_vocab_size?',
} as const;

const VIT = {
  ...LAYERS,
  image: 'image_size',
  patchSize: 'patch_size',
  channels: 'num_channels?',
} as const;

/** Families by `model_type`; BERT has a table of segments, and ViT has patches. Source: transformers' configurations. */
export const ENCODERS: Readonly<Record<string, Family>> = {
  bert: family(BERT, (words) => ({ kind: 'encoder', segments: 2, ...words })),
  vit: family(VIT, ({ image, patchSize, channels = 3, ...words }) => ({
    ...{
      kind: 'encoder',
      ...words,
      seq: (image / patchSize) ** 2 + 1,
      patchInputs: patchSize ** 2 * channels,
    },
  })),
  t5,
  umt5: t5,
};
