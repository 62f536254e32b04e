import { type BuiltSizes, builtSizes, readHub } from './families/families';
import { CATALOGUE, type ModelName, type OwnName, PUBLISHED_NAMES, type PublishedName } from './model-names';

/**
 * Our own named models: `tiny` is the notebooks' default, `bench` has the shape of the torch benchmark, and `wan-tiny` draws
 * videos of 4 frames of 16 x 16 pixels from the texts of `t5-tiny`.
 */
const OWN_MODELS: Readonly<Record<OwnName, BuiltSizes>> = {
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
};

/**
 * The settings with which published models train unless a config has others: one sequence per pass, bf16 parameters with
 * gradients reduced in float32, and (in the models below) attention in blocks. Source: Grattafiori et al. 2024, 3.3.2, for the
 * reduction; TorchTitan's defaults (training.mixed_precision_param and _reduce, local_batch_size of its Llama 3 8B).
 */
export const PUBLISHED_TRAINING = {
  batch: 1,
  mixedPrecision: { paramDtype: 'bfloat16', reduceDtype: 'float32' },
} as const;

/** The sizes of every model that has a name. */
export const NAMED_MODELS: Readonly<Record<ModelName, BuiltSizes>> = {
  ...OWN_MODELS,
  // Every published name gets its sizes.
  ...(Object.fromEntries(PUBLISHED_NAMES.map((name) => [name, publishedSizes(name)])) as Record<
    PublishedName,
    BuiltSizes
  >),
};

/**
 * Returns the sizes in the catalogue's config. Throws: Error if they cannot be read.
 *
 * Sources of what no config.json has, or has otherwise: gpt3-175b has Megatron's padded vocabulary (Narayanan et al. 2021).
 * Qwen2.5 has the 32,768 positions of its Instruct models and of its last training (technical report, 2024). Qwen has 8192
 * (model cards). Wan2.2's latents are for 81 frames of 832 x 480 pixels (the encoder reduces 4 frames to one, and 8 x 8 pixels
 * to one position), for 80 frames of the speech-to-video model, and for 121 frames of 1280 x 704 pixels of ti2v-5b, whose
 * encoder reduces 16 x 16 pixels to one position. The sizes of s2v-14b leave out the reference image, motion frames, poses, and
 * the layers by which audio scales and shifts values.
 */
function publishedSizes(name: PublishedName): BuiltSizes {
  const { training = {}, ...config } = CATALOGUE[name] ?? {};
  const read = readHub(config);
  if ('wrong' in read) throw new Error(`${name}: ${read.wrong}`);
  return builtSizes({ ...read.sizes, ...training, attention: 'flash' });
}
