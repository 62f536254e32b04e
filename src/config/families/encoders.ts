import { type Family, family, renamed } from './family';
import { type T5Config, t5Schema } from './kinds';
import type { ModelKind } from './model-kind';

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

/** The names of embeddings in BERT. */
export const ENCODER_EMBEDDINGS = ['word_embeddings', 'position_embeddings'];

/**
 * Parts of the encoder's parameter names: first in Wan's own code (models_t5_umt5-xxl-enc-bf16.pth) and in this library, then in
 * transformers' UMT5EncoderModel.
 */
const TRANSFORMERS_PARTS = [
  [/^token_embedding\./, 'shared.'],
  [/^norm\./, 'encoder.final_layer_norm.'],
  [/^blocks\./, 'encoder.block.'],
  [/\.norm1\./, '.layer.0.layer_norm.'],
  [/\.norm2\./, '.layer.1.layer_norm.'],
  [/\.attn\.([qkvo])\./, '.layer.0.SelfAttention.$1.'],
  [/\.pos_embedding\.embedding\./, '.layer.0.SelfAttention.relative_attention_bias.'],
  [/\.ffn\.gate\.0\./, '.layer.1.DenseReluDense.wi_0.'],
  [/\.ffn\.fc1\./, '.layer.1.DenseReluDense.wi_1.'],
  [/\.ffn\.fc2\./, '.layer.1.DenseReluDense.wo.'],
] as const;

/** The name of the table of tokens in files that have it only within the encoder. */
const WITHIN_ENCODER = 'encoder.embed_tokens.weight';

/** Returns the names of a T5 encoder's parameter in published files: Wan's, then transformers'. */
function encoderNames(own: string): readonly string[] {
  const names = [own, renamed(own, TRANSFORMERS_PARTS)];
  return own === 'token_embedding.weight' ? [...names, WITHIN_ENCODER] : names;
}

export const T5_KIND: ModelKind<T5Config> = {
  schema: t5Schema,
  says: "UMT5's encoder; it has no loss, so it is planned or called, not trained",
  small: "{ kind: 't5-encoder', layers: 2, dim: 64, heads: 4, ffn: 128, vocab: 512, seq: 64 }",
  trainsOn: null,
  withoutLoss:
    'it is a text encoder, which Wan2.2 uses but does not train; plan it, or call nn.t5Encoder({ … }) in a cell',
  isCausal: false,
  embeddings: ['shared'],
  namesInFile: encoderNames,
  stageConflict: () => 'its layers also read the bias of the first layer, and the model has no loss',
};
