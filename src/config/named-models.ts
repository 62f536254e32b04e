/**
 * Our own named models: `tiny` is the notebooks' default, `bench` has the shape of the torch benchmark, and `wan-tiny` draws
 * videos of 4 frames of 16 x 16 pixels from the texts of `t5-tiny`.
 */
export const MODEL_SHAPES = named({
  tiny: { kind: 'gpt', layers: 4, dim: 128, heads: 4, vocab: 2048, seq: 64, tied: true },
  bench: { kind: 'gpt', layers: 4, dim: 256, heads: 8, vocab: 8192, seq: 128, tied: true },
  'wan-tiny': {
    kind: 'dit',
    layers: 2,
    dim: 64,
    heads: 4,
    ffn: 128,
    latent: [4, 4, 4],
    patch: [1, 1, 1],
    inChannels: 48,
    outChannels: 48,
    freqDim: 32,
    textDim: 32,
    textLen: 8,
    experts: 2,
    boundary: 0.5,
  },
  't5-tiny': { kind: 't5-encoder', layers: 2, dim: 32, heads: 4, ffn: 64, vocab: 32, seq: 8 },
});

/**
 * The settings with which published models train unless a config has others: one sequence per pass, bf16 parameters with
 * gradients reduced in float32, and (in the models below) attention in blocks. Source: Grattafiori et al. 2024, 3.3.2, for the
 * reduction; TorchTitan's defaults (training.mixed_precision_param and _reduce, local_batch_size of its Llama 3 8B).
 */
export const PUBLISHED_TRAINING = {
  batch: 1,
  mixedPrecision: { paramDtype: 'bfloat16', reduceDtype: 'float32' },
} as const;

/**
 * Sizes of published models. Source: their configurations. `seq` is their sequence length in training; Wan2.2's latent is
 * for 81 frames of 832 x 480 pixels (the encoder reduces 4 frames to one, and 8 x 8 pixels to one position).
 */
export const PUBLISHED_MODELS = named({
  gpt2: gpt(12, 768, 12, { vocab: 50_257, seq: 1024 }),
  'gpt2-xl': gpt(48, 1600, 25, { vocab: 50_257, seq: 1024 }),
  // Megatron's padded vocabulary, as in Narayanan et al. 2021.
  'gpt3-175b': gpt(96, 12_288, 96, { vocab: 51_200, seq: 2048 }),
  'llama3-8b': { ...llama3(32, 4096, 32), ffn: 14_336 },
  'llama3-70b': { ...llama3(80, 8192, 64), ffn: 28_672 },
  'llama3-405b': { ...llama3(126, 16_384, 128), ffn: 53_248 },
  'llama3.2-1b': { ...llama3(16, 2048, 32), ffn: 8192, tied: true },
  'llama3.2-3b': { ...llama3(28, 3072, 24), ffn: 8192, tied: true },
  'llama2-7b': { ...llama2(32, 4096, 32), ffn: 11_008 },
  'llama2-13b': { ...llama2(40, 5120, 40), ffn: 13_824 },
  'llama2-70b': { ...llama2(80, 8192, 64), kvHeads: 8, ffn: 28_672 },
  // The window of attention has 4096 tokens, so attention sees all tokens of a sequence of this length.
  'mistral-7b-v0.1': { ...mistral(), vocab: 32_000, seq: 4096, ropeTheta: 10_000 },
  'mistral-7b-v0.2': { ...mistral(), vocab: 32_000, seq: 32_768, ropeTheta: 1_000_000 },
  'mistral-7b-v0.3': { ...mistral(), vocab: 32_768, seq: 32_768, ropeTheta: 1_000_000 },
  'qwen2.5-0.5b': { ...qwen25(24, 896, 14), kvHeads: 2, ffn: 4864, vocab: 151_936, tied: true },
  'qwen2.5-1.5b': { ...qwen25(28, 1536, 12), kvHeads: 2, ffn: 8960, vocab: 151_936, tied: true },
  'qwen2.5-3b': { ...qwen25(36, 2048, 16), kvHeads: 2, ffn: 11_008, vocab: 151_936, tied: true },
  'qwen2.5-7b': { ...qwen25(28, 3584, 28), kvHeads: 4, ffn: 18_944, vocab: 152_064 },
  'qwen2.5-14b': { ...qwen25(48, 5120, 40), ffn: 13_824, vocab: 152_064, normEps: 1e-5 },
  'qwen2.5-32b': { ...qwen25(64, 5120, 40), ffn: 27_648, vocab: 152_064, normEps: 1e-5 },
  'qwen2.5-72b': { ...qwen25(80, 8192, 64), ffn: 29_568, vocab: 152_064, normEps: 1e-5 },
  'qwen-7b': { ...qwen(32, 4096, 32), ffn: 11_008, vocab: 151_936 },
  'qwen-14b': { ...qwen(40, 5120, 40), ffn: 13_696, vocab: 152_064 },
  'wan2.2-a14b': { ...wan(), inChannels: 16, boundary: 0.875 },
  'wan2.2-i2v-a14b': { ...wan(), inChannels: 36, boundary: 0.9 },
  // Videos have 80 frames; there is one transformer. The sizes leave out the reference image, motion frames, poses, and the
  // layers by which audio scales and shifts values.
  'wan2.2-s2v-14b': {
    ...wan(),
    latent: [20, 60, 104],
    experts: 1,
    audioLayers: [0, 4, 8, 12, 16, 20, 24, 27, 30, 33, 36, 39],
  },
  // 121 frames of 1280 x 704 pixels; the encoder reduces 16 x 16 pixels to one position with 48 channels.
  'wan2.2-ti2v-5b': {
    kind: 'dit',
    layers: 30,
    dim: 3072,
    heads: 24,
    ffn: 14_336,
    latent: [31, 44, 80],
    inChannels: 48,
    outChannels: 48,
    attention: 'flash',
  },
  'umt5-xxl-encoder': {
    kind: 't5-encoder',
    layers: 24,
    dim: 4096,
    heads: 64,
    ffn: 10_240,
    vocab: 256_384,
    seq: 512,
  },
});

/** Every model that has a name. */
export const NAMED_MODELS = { ...MODEL_SHAPES, ...PUBLISHED_MODELS };

/** The sizes of a model, which the schema of its kind checks. */
export interface NamedSizes {
  readonly kind: 'gpt' | 'llama' | 'dit' | 't5-encoder';
  readonly [size: string]: unknown;
}

/** Returns models as they are; their declared type has only their names. */
function named<Name extends string>(
  models: Readonly<Record<Name, NamedSizes>>,
): Readonly<Record<Name, NamedSizes>> {
  return models;
}

function gpt(
  layers: number,
  dim: number,
  heads: number,
  sizes: { readonly vocab: number; readonly seq: number },
) {
  return { kind: 'gpt', layers, dim, heads, ...sizes, attention: 'flash' } as const;
}

/** Source: Grattafiori et al. 2024, table 3. */
function llama3(layers: number, dim: number, heads: number) {
  return {
    kind: 'llama',
    layers,
    dim,
    heads,
    kvHeads: 8,
    vocab: 128_256,
    seq: 8192,
    ropeTheta: 500_000,
    attention: 'flash',
  } as const;
}

/** Source: Touvron et al. 2023b, and the configurations of its models. */
function llama2(layers: number, dim: number, heads: number) {
  return { kind: 'llama', layers, dim, heads, vocab: 32_000, seq: 4096, attention: 'flash' } as const;
}

/** Source: Jiang et al. 2023, and the configurations of its three versions. */
function mistral() {
  return {
    kind: 'llama',
    layers: 32,
    dim: 4096,
    heads: 32,
    kvHeads: 8,
    ffn: 14_336,
    attention: 'flash',
  } as const;
}

/**
 * Source: Qwen2.5's technical report (2024), table 1, and the configurations of its models; its last training had sequences of
 * 32,768 tokens.
 */
function qwen25(layers: number, dim: number, heads: number) {
  return { ...qwen(layers, dim, heads), kvHeads: 8, seq: 32_768, ropeTheta: 1_000_000 } as const;
}

/** Source: Bai et al. 2023; bias on queries, keys and values, RMSNorm's eps 1e-6; 8192 tokens of context (model cards). */
function qwen(layers: number, dim: number, heads: number) {
  return {
    kind: 'llama',
    layers,
    dim,
    heads,
    seq: 8192,
    qkvBias: true,
    normEps: 1e-6,
    attention: 'flash',
  } as const;
}

/** Source: Wan2.2's wan/configs (t2v-A14B, i2v-A14B, s2v-14B, ti2v-5B), github.com/Wan-Video/Wan2.2. */
function wan() {
  return {
    kind: 'dit',
    layers: 40,
    dim: 5120,
    heads: 40,
    ffn: 13_824,
    latent: [21, 60, 104],
    experts: 2,
    attention: 'flash',
  } as const;
}
