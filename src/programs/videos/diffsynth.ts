import { existsSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { isVideoModel, modelNamed, modelShape, STRATEGIES, settingAt } from '../../config';
import { weightFiles } from '../../core';
import {
  allNone,
  both,
  decides,
  type Exported,
  flag,
  flags,
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  refused,
  settingBoth,
  settingKeys,
  type Translation,
  wrongValue,
} from '../rows/key-row';
import type { Dialect, Finding } from '../rows/meant';
import { number, numberOf, whole, wholeOf, yesOf } from '../rows/values';
import {
  boundaryOfShare,
  pixelsPerPosition,
  releaseOf,
  shareOfHighNoise,
  type WanRelease,
} from './wan-releases';

// DiffSynth-Studio's training scripts. Source: diffsynth/diffusion/parsers.py.

const FILES =
  "the folder is not read with the settings; data: './folder' trains a small dit on it, and with 'moving-shapes' or 'synthetic', each rank makes its batches";
const SAVES = 'in a notebook, run.step(n, { saveSteps, outputDir }) saves; shardlab run has --save';

/** Returns the line that converts a pickle of weights. */
function conversion(file: string): string {
  const safe = file.replace(/\.\w+$/, '.safetensors');
  return `python -c "import torch, safetensors.torch as s; s.save_file({k: v.contiguous() for k, v in torch.load('${file}', map_location='cpu', weights_only=True).items()}, '${safe}')"`;
}

/** Returns what a file of a model's weights means. A model of several files is a list. */
export function modelFile(value: unknown): Translation {
  const files = [value].flat().map(String);
  const [first = ''] = files;
  const pickle = files.find((file) => /\.(pth|pt|bin|ckpt)$/i.test(file));
  const text = files.length === 1 ? first : `${files.length} files of one model`;
  if (pickle !== undefined && /(^|[/:])models_t5_umt5-xxl/.test(pickle)) {
    return {
      sets: { 'textEncoder.model': 'umt5-xxl-encoder', 'textEncoder.fsdp': false },
      why: `each rank has the whole text encoder; its weights are a pickle, which is not opened here; to convert it: ${conversion(pickle)}`,
    };
  }
  if (pickle !== undefined) {
    const what = /vae/i.test(pickle)
      ? 'the video autoencoder (VAE), which is not needed: batches here are latents'
      : 'weights as a pickle, which is not opened here';
    return { effect: 'refused', why: `${what}; to convert it: ${conversion(pickle)}` };
  }
  const wrong = wrongFiles(files);
  if (wrong !== null) return { effect: 'refused', why: wrong };
  const model = modelNamed(first);
  if (model === null)
    return {
      effect: 'refused',
      why: `the sizes of ${text} are not known here; write model: { from: FOLDER } with its config.json`,
    };
  const expert = expertOf(first);
  return {
    sets: { model, ...(expert !== null && { data: 'synthetic' }) },
    why: [
      expert === null
        ? ''
        : `only the ${expert}-noise expert is in these files; the model is planned with both experts, and each step runs one of them`,
      files.every((file) => existsSync(file))
        ? `the files are here: model: { from: '${dirname(first)}', latent } begins with these weights`
        : '',
    ]
      .filter((text) => text !== '')
      .join('; '),
  };
}

/** Returns the expert whose weights a file has; null: the file does not say. */
export function expertOf(file: string): 'high' | 'low' | null {
  if (/low_noise/i.test(file)) return 'low';
  return /high_noise/i.test(file) ? 'high' : null;
}

/** Says what is wrong with the files of one model: a shard that the list lacks, or a pointer in place of a file. */
function wrongFiles(files: readonly string[]): string | null {
  const [missing] = weightFiles
    .shardLists(files.map((file) => basename(file)))
    .flatMap((list) => list.missing);
  if (missing !== undefined) return `${missing} is not in the list; give all shards of the model`;
  const pointer = files.find((file) => existsSync(file) && weightFiles.isPointerFile(file));
  return pointer === undefined
    ? null
    : `${pointer} is a Git-LFS pointer, not the file itself; run \`git lfs pull\` in its folder`;
}

/** Returns the items of --model_paths: a JSON list of files, in which several files of one model are a list of their own. */
export function modelPaths(value: unknown): readonly unknown[] {
  const list: unknown = typeof value === 'string' ? parsed(value) : value;
  if (!Array.isArray(list)) throw wrongValue(value, 'a JSON list of files');
  return list;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw wrongValue(text, 'a JSON list of files');
  }
}

/** Returns the meaning of all files in the value of --model_paths. */
function allFiles({ value }: KeyInput): Translation {
  const meanings = modelPaths(value).map(modelFile);
  const sets = Object.assign({}, ...meanings.map((meaning) => meaning.sets ?? {}));
  const why = meanings
    .map((meaning) => meaning.why ?? '')
    .filter((text) => text !== '')
    .join('; ');
  return Object.keys(sets).length === 0 ? { effect: 'refused', why } : { sets, why };
}

/** Reads one item of --model_paths, so that each item gets a row of its own. */
export const MODEL_PATHS: Dialect = {
  name: "DiffSynth-Studio's --model_paths",
  keys: { model_paths: decides('model', ({ value }) => modelFile(value)) },
};

function identifiers({ value, other }: KeyInput): Translation {
  if (other('model_paths') !== undefined)
    return {
      effect: 'refused',
      why: 'downloads the files that --model_paths already has; leave out one of these two arguments',
    };
  const files = String(value).split(',');
  const model = modelNamed(files[0]);
  if (model === null)
    return {
      effect: 'refused',
      why: 'nothing is downloaded, and the sizes of these models are not known here; write model: { from: FOLDER }',
    };
  const encoder = files.map((file) => modelFile(file)).find(({ sets }) => sets?.['textEncoder.model']);
  return {
    sets: { model, ...encoder?.sets },
    why: 'nothing is downloaded: the weights are random numbers',
  };
}

/** Returns a row of LoRA, which is used if --lora_base_model is given. `same`: settings that get the same value. */
function lora(path: string, convert: (value: unknown) => unknown, same: readonly string[] = []): KeyRow {
  const row = decides(path, ({ value, other }) => {
    if (other('lora_base_model') === undefined)
      return { effect: 'none', why: 'without --lora_base_model, all parameters train' };
    const converted = convert(value);
    return { sets: Object.fromEntries([path, ...same].map((each) => [each, converted])) };
  });
  return both(row, ({ config }) => {
    const written = settingAt(config, path);
    return Array.isArray(written) ? written.join(',') : (written ?? undefined);
  });
}

const LORA: KeyTable = {
  lora_base_model: both(
    decides('lora', () => ({
      usual: { 'lora.r': 32, 'lora.alpha': 32, 'lora.targets': ['q', 'k', 'v', 'o', 'ffn.0', 'ffn.2'] },
      why: 'only adapters train',
    })),
    ({ config }) => (config.lora === null ? undefined : 'dit'),
  ),
  ...settingKeys('diffSynth', {
    // DiffSynth-Studio has no argument for alpha: add_lora_to_model takes the rank.
    'lora.r': { lora_rank: lora('lora.r', (value) => wholeOf(value), ['lora.alpha']) },
    'lora.targets': {
      lora_target_modules: lora('lora.targets', (value) =>
        isNothing(value) ? 'all-linear' : String(value).split(','),
      ),
    },
  }),
  lora_checkpoint: refused('adapters are read by run.load here'),
  preset_lora_path: refused('adapters are merged by run.savePretrained here'),
  preset_lora_model: refused('adapters are merged by run.savePretrained here'),
};

const SIZE =
  "the size of videos is the model's latent: frames / 4, rows / 8, columns / 8; write model: { …, latent }";

/**
 * Returns the latent of the arguments' videos: one frame, and one more for each further four; 8 rows and columns of pixels are one,
 * 16 in TI2V-5B. Null: no argument names the model, or none of the three sizes is given.
 * Source: diffsynth/diffusion/parsers.py (81 frames by default); Wan2.2's autoencoders.
 */
function latentOf(other: KeyInput['other']): readonly number[] | null {
  const name = modelOf(other);
  const shape = name === null ? null : modelShape({ model: name });
  const [frames, height, width] = ['num_frames', 'height', 'width'].map((key) => other(key));
  if (shape === null || !isVideoModel(shape) || [frames, height, width].every((size) => size === undefined))
    return null;
  const pixels = name === null ? 8 : pixelsPerPosition(name);
  const [, rows, columns] = shape.latent;
  return [
    frames === undefined ? 21 : Math.floor((wholeOf(frames) - 1) / 4) + 1,
    height === undefined ? rows : wholeOf(height) / pixels,
    width === undefined ? columns : wholeOf(width) / pixels,
  ];
}

/** Returns the name of the model whose files the arguments name; null: they name none that is known here. */
function modelOf(read: KeyInput['other']): ReturnType<typeof modelNamed> {
  const files = read('model_paths') ?? read('model_id_with_origin_paths');
  return files === undefined ? null : modelNamed(firstFile(files).split(',')[0]);
}

/** Returns the first file in the value of --model_paths or --model_id_with_origin_paths. */
export function firstFile(value: unknown): string {
  const isList = typeof value === 'string' && value.trimStart().startsWith('[');
  return String([isList ? parsed(value) : value].flat(2)[0]);
}

/** Returns a size of the videos, for an export: from the latent of the model. */
function writtenSize(axis: 0 | 1 | 2) {
  return ({ config }: Exported): number | undefined => {
    const shape = modelShape(config);
    if (!isVideoModel(shape)) return undefined;
    const extent = shape.latent[axis];
    const name =
      'like' in shape && shape.like !== undefined ? modelNamed(shape.like) : modelNamed(config.model);
    return axis === 0 ? 4 * (extent - 1) + 1 : extent * (name === null ? 8 : pixelsPerPosition(name));
  };
}

/**
 * Returns the meaning of an end of the timesteps that are drawn. The ends of the two experts meet at the model's boundary; DiffSynth-Studio
 * counts timesteps, and here the boundary is a share of noise.
 */
function boundaryMeaning({ key, value, other }: KeyInput): Translation {
  const share = numberOf(value);
  const boundary = boundaryOfShare(share);
  if (boundary === null) return { effect: 'none', why: 'is the end of all timesteps' };
  const name = modelOf(other);
  const shape = name === null ? null : modelShape({ model: name });
  if (shape === null || !isVideoModel(shape) || shape.experts === 1)
    return { effect: 'none', why: `no model with two experts is named, so no expert begins at ${share}` };
  const expert = expertOf(firstFile(other('model_paths') ?? other('model_id_with_origin_paths')));
  if ((expert === 'low') === (key === 'max_timestep_boundary'))
    return {
      effect: 'warning',
      why: `the ${expert ?? 'high'}-noise expert has no end of its timesteps here; both experts run, each on its side of model.boundary`,
    };
  const own = shareOfHighNoise(shape.boundary);
  return share === own
    ? { effect: 'used', why: `is model.boundary: ${shape.boundary}, the model's own` }
    : {
        sets: { 'model.boundary': boundary },
        why: `the model's own boundary is ${shape.boundary}, for which DiffSynth-Studio has ${own}`,
      };
}

function sizeMeaning({ other }: KeyInput): Translation {
  const latent = latentOf(other);
  return latent === null
    ? { effect: 'none', why: SIZE }
    : { effect: 'used', why: `model.latent: ${JSON.stringify(latent)}` };
}

/** Returns the row of an argument without a value that switches a setting on; an export has it if `isThere`. */
function switchKey(path: string, isThere: (exported: Exported) => boolean = () => true): KeyRow {
  const row = decides(path, ({ value }) => ({ sets: { [path]: yesOf(value) } }));
  return flag(
    both(row, (exported) =>
      settingAt(exported.config, path) === true && isThere(exported) ? true : undefined,
    ),
  );
}

/** Whether nothing is sharded. Otherwise, DeepSpeed offloads, and its settings are in the YAML of Accelerate. */
function isWithoutDeepSpeed({ config: { parallel } }: Exported): boolean {
  return STRATEGIES[parallel.strategy].zeroStage === 0;
}

const DISTILLATION = refused('distillation is not built here; a dit learns flow matching');

/** The row of an argument that only --task dmd2 uses. */
const ofDistillation: KeyRow = {
  ...DISTILLATION,
  mean: (input) =>
    String(input.other('task') ?? '').includes('dmd2')
      ? DISTILLATION.mean(input)
      : { effect: 'none', why: 'is for --task dmd2' },
};

/** Arguments of DiffSynth-Studio's scripts for other models, and of its newer releases. Source: diffsynth/diffusion/parsers.py. */
const OTHERS: KeyTable = {
  ...allNone(
    'is for models that are not built here',
    'processor_path processor_config tokenizer_1_path tokenizer_2_path tokenizer_t5xxl_path silence_latent_path max_audio_duration frame_rate noise_scale',
  ),
  ...flags({
    ...allNone(
      'is for models that are not built here',
      'silent_on_missing_audio zero_cond_t framewise_decoding first_frame_as_condition',
    ),
    align_to_opensource_format: none('run.savePretrained writes adapters as PEFT does'),
    enable_npu_patch: none('ranks run on CPUs here; a plan is for GPUs'),
    ...allNone(
      'run.log writes JSON lines; nothing is written for TensorBoard or other loggers',
      'enable_csv_log enable_swanlab_log enable_tensorboard_log enable_wandb_log',
    ),
  }),
  ...allNone(
    'run.log writes JSON lines; nothing is written for TensorBoard or other loggers',
    'swanlab_project wandb_project',
  ),
  customized_optimizer: refused('write optimizer.kind adamW, adam, adamW8bit, lion or sgd'),
  quant_options: refused('weights are not quantized here'),
  ...Object.fromEntries(
    'discriminator_learning_rate fake_score_learning_rate feature_indices gan_loss_weight gan_r1_reg_alpha gan_r1_reg_weight matching_t_max matching_t_mean matching_t_min matching_t_sampling matching_t_std student_grad_clip_norm student_sample_steps student_sample_type student_schedule student_t_list student_update_freq teacher_cfg_scale'
      .split(' ')
      .map((name) => [`dmd2_${name}`, ofDistillation]),
  ),
  embedded_guidance: none('is for models that are not built here'),
};

/** Returns the inputs without which DiffSynth-Studio stops, and that the value of --extra_inputs lacks. */
export function missingInputs({ required }: WanRelease, extraInputs: unknown): readonly string[] {
  const names = String(extraInputs ?? '').split(',');
  return required.filter((input) => !names.includes(input));
}

/** Finds a model whose transformer needs an image or audio, and that no argument gives one. */
function inputFindings(read: KeyInput['other']): readonly Finding[] {
  const name = modelOf(read);
  const known = name === null ? null : releaseOf(name);
  if (known === null) return [];
  const missing = missingInputs(known.release, read('extra_inputs'));
  if (missing.length === 0) return [];
  const key = read('model_paths') === undefined ? 'model_id_with_origin_paths' : 'model_paths';
  const shape = modelShape({ model: known.name });
  const input =
    isVideoModel(shape) && shape.inChannels > shape.outChannels
      ? `${shape.outChannels} channels in place of ${shape.inChannels}`
      : 'no audio';
  const why =
    `model: "${known.name}"; DiffSynth-Studio stops at the first step: without --extra_inputs ${missing.join(',')}, ` +
    `its transformer gets ${input}`;
  return [{ key, effect: 'warning', why }];
}

export const DIFFSYNTH: Dialect = {
  name: 'DiffSynth-Studio',
  keys: {
    model_paths: decides('model', allFiles),
    model_id_with_origin_paths: decides('model', identifiers),
    ...settingKeys('transformers', {
      'optimizer.lr': { learning_rate: settingBoth('optimizer.lr', number) },
      'optimizer.weightDecay': { weight_decay: settingBoth('optimizer.weightDecay', number) },
      accumulation: { gradient_accumulation_steps: settingBoth('accumulation', whole) },
    }),
    ...settingKeys('diffSynth', {
      activationCheckpointing: {
        use_gradient_checkpointing: flag(
          decides('activationCheckpointing', ({ value }) =>
            yesOf(value)
              ? { sets: { activationCheckpointing: 'full' } }
              : { effect: 'warning', why: 'DiffSynth-Studio recomputes all blocks in any case' },
          ),
        ),
      },
      'offload.activations': {
        use_gradient_checkpointing_offload: switchKey('offload.activations'),
      },
      'offload.parameters': {
        enable_model_cpu_offload: switchKey('offload.parameters', isWithoutDeepSpeed),
      },
      'offload.optimizer': {
        enable_optimizer_cpu_offload: switchKey(
          'offload.optimizer',
          (exported) => exported.config.offload.parameters && isWithoutDeepSpeed(exported),
        ),
      },
    }),
    ...LORA,
    sp_size: decides('parallel.cp', ({ value }) =>
      wholeOf(value) === 1
        ? { effect: 'none', why: 'sequences are not divided' }
        : { sets: { 'parallel.cp': wholeOf(value), 'parallel.cpKind': 'ulysses' } },
    ),
    ...Object.fromEntries(
      ['dataset_base_path', 'dataset_metadata_path', 'dataset_repeat', 'data_file_keys', 'extra_inputs'].map(
        (key) => [key, none(FILES)],
      ),
    ),
    dataset_num_workers: none('ranks make their batches themselves'),
    height: both(decides('model.latent', sizeMeaning), writtenSize(1)),
    width: both(decides('model.latent', sizeMeaning), writtenSize(2)),
    num_frames: both(decides('model.latent', sizeMeaning), writtenSize(0)),
    max_pixels: none(SIZE),
    num_epochs: none('data never ends here, so a run counts steps; write steps'),
    trainable_models: none('the transformers train, and text encoders do not'),
    task: none('names the loss; a dit learns flow matching here'),
    find_unused_parameters: flag(none('parameters without a gradient are found here in any case')),
    output_path: none(SAVES),
    save_steps: none(SAVES),
    remove_prefix_in_ckpt: none(SAVES),
    resume_from_checkpoint: none('shardlab run has --resume'),
    fp8_models: refused('nothing here computes in float8'),
    offload_models: refused('split training is not built here: a run trains the whole model'),
    template_model_id_or_path: refused('template models are not built here'),
    enable_lora_hot_loading: flag(refused('template models are not built here')),
    cpu_offload_split_threshold: none('parallel.wrap decides the units'),
    tokenizer_path: none('the words of a caption are its tokens here'),
    audio_processor_path: none('audio is random numbers here'),
    audio_processor_config: none('audio is random numbers here'),
    max_timestep_boundary: decides('model.boundary', boundaryMeaning),
    min_timestep_boundary: decides('model.boundary', boundaryMeaning),
    initialize_model_on_cpu: flag(none('models are built chunk by chunk here in any case')),
    ...OTHERS,
  },
  checks: inputFindings,
  usual: (other) => {
    const latent = latentOf(other);
    return {
      usual: {
        ...{ batch: 1, 'optimizer.lr': 1e-4, data: 'synthetic', activationCheckpointing: 'full' },
        ...(latent !== null && { 'model.latent': latent }),
      },
      why: "one video per rank, the learning rate of DiffSynth-Studio's parser, recompute of all blocks, which its scripts force, and latents in place of its videos",
    };
  },
};
