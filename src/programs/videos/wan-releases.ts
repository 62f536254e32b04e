import { type ModelName, type ModelSetting, modelNamed, modelShape } from '../../config';

// Wan's releases as DiffSynth-Studio trains them. Source: examples/wanvideo/model_training of DiffSynth-Studio, commit fed7b18.

/** One of Wan's releases, with the files and the inputs that DiffSynth-Studio needs for it. */
export interface WanRelease {
  /** The repository on ModelScope and on the Hub. */
  readonly hub: string;
  readonly vae: string;
  /** The inputs of the model beside text and noise, for --extra_inputs. */
  readonly inputs: readonly string[];
  /** Those of `inputs` without which DiffSynth-Studio stops at the first step. Source: diffsynth/pipelines/wan_video.py. */
  readonly required: readonly string[];
  /** The columns of metadata.csv that are files, for --data_file_keys; undefined: the parser's default. */
  readonly files?: string;
  /** The folder in `hub` of the encoder of audio. */
  readonly audio?: string;
}

const RELEASES: Readonly<Partial<Record<ModelName, WanRelease>>> = {
  'wan2.2-a14b': { hub: 'Wan-AI/Wan2.2-T2V-A14B', vae: 'Wan2.1_VAE.pth', inputs: [], required: [] },
  'wan2.2-i2v-a14b': {
    hub: 'Wan-AI/Wan2.2-I2V-A14B',
    vae: 'Wan2.1_VAE.pth',
    inputs: ['input_image'],
    required: ['input_image'],
  },
  'wan2.2-ti2v-5b': {
    hub: 'Wan-AI/Wan2.2-TI2V-5B',
    vae: 'Wan2.2_VAE.pth',
    inputs: ['input_image'],
    required: [],
  },
  'wan2.2-s2v-14b': {
    hub: 'Wan-AI/Wan2.2-S2V-14B',
    vae: 'Wan2.1_VAE.pth',
    inputs: ['input_image', 'input_audio', 's2v_pose_video'],
    required: ['input_audio'],
    files: 'video,input_audio,s2v_pose_video',
    audio: 'wav2vec2-large-xlsr-53-english',
  },
};

/** The names of the releases. */
export const RELEASE_NAMES: readonly string[] = Object.keys(RELEASES);

/** The sizes that are no part of a release's weights: those of the videos, and the timestep at which the experts change. */
const NOT_OF_WEIGHTS: readonly string[] = ['kind', 'like', 'latent', 'boundary', 'attention'];

/** Returns the release that a model is, by its name or as `like` a name with equal sizes of weights; null for other models. */
export function releaseOf(
  model: ModelSetting,
): { readonly name: ModelName; readonly release: WanRelease } | null {
  const said = typeof model === 'string' ? model : 'like' in model ? model.like : undefined;
  const name = said === undefined ? null : modelNamed(said);
  const release = name === null ? undefined : RELEASES[name];
  if (name === null || release === undefined) return null;
  if (typeof model === 'string') return { name, release };
  const known: Readonly<Record<string, unknown>> = { ...modelShape({ model: name }) };
  const isSame = Object.entries(model).every(
    ([key, value]) => NOT_OF_WEIGHTS.includes(key) || JSON.stringify(value) === JSON.stringify(known[key]),
  );
  return isSame ? { name, release } : null;
}

/** An expert of the two-expert models; null: the model has one transformer. */
export type WanExpert = 'high' | 'low' | null;

/** Returns the files of a release in the form of --model_id_with_origin_paths, for one expert. */
export function originPaths({ hub, vae, audio }: WanRelease, expert: WanExpert): string {
  const folder = expert === null ? '' : `${expert}_noise_model/`;
  const files = [
    `${folder}diffusion_pytorch_model*.safetensors`,
    ...(audio === undefined ? [] : [`${audio}/model.safetensors`]),
    'models_t5_umt5-xxl-enc-bf16.pth',
    vae,
  ];
  return files.map((file) => `${hub}:${file}`).join(',');
}

/** Returns the number of pixels, along each side of a frame, of one position of a model's latent. Source: Wan2.2's autoencoders. */
export function pixelsPerPosition(name: string): number {
  return name === 'wan2.2-ti2v-5b' ? 16 : 8;
}

/** The number of timesteps among which DiffSynth-Studio draws. Source: WanTrainingModule, set_timesteps(1000, training=True). */
const NUM_TIMESTEPS = 1000;

/** The shift of DiffSynth-Studio's timesteps towards noise. Source: FlowMatchScheduler.set_timesteps_wan. */
const SHIFT = 5;

/** Returns the share of noise at an index of DiffSynth-Studio's timesteps, which begin with noise alone. */
function noiseAt(index: number): number {
  const unshifted = 1 - index / NUM_TIMESTEPS;
  return (SHIFT * unshifted) / (1 + (SHIFT - 1) * unshifted);
}

/**
 * Returns the share of DiffSynth-Studio's timesteps that belong to the high-noise expert: its --max_timestep_boundary, and the
 * --min_timestep_boundary of the low-noise expert. `boundary` is the least share of noise at which the high-noise expert runs.
 */
export function shareOfHighNoise(boundary: number): number {
  let index = 0;
  while (index < NUM_TIMESTEPS && noiseAt(index) >= boundary) index++;
  const share = index / NUM_TIMESTEPS;
  // DiffSynth-Studio takes int(share * 1000), which is one less for some shares, because 1 / 1000 is no binary fraction.
  return Math.floor(share * NUM_TIMESTEPS) === index ? share : (index + 0.5) / NUM_TIMESTEPS;
}

/** Returns the boundary, with as few digits as possible, of which a share is that of the high-noise expert; null for a share of 0 or 1. */
export function boundaryOfShare(share: number): number | null {
  const index = Math.floor(share * NUM_TIMESTEPS);
  if (index <= 0 || index >= NUM_TIMESTEPS) return null;
  const middle = (noiseAt(index - 1) + noiseAt(index)) / 2;
  const digits = [1, 2, 3, 4, 5, 6].find(
    (count) => shareOfHighNoise(Number(middle.toFixed(count))) === shareOfHighNoise(noiseAt(index - 1)),
  );
  return Number(middle.toFixed(digits ?? 7));
}
