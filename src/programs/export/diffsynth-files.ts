import { modelNamed, ownData, STRATEGIES } from '../../config';
import { ConfigError } from '../../core';
import { writtenKeys } from '../rows/key-row';
import { DIFFSYNTH, expertOf, firstFile, missingInputs } from '../videos/diffsynth';
import {
  originPaths,
  RELEASE_NAMES,
  releaseOf,
  shareOfHighNoise,
  type WanExpert,
} from '../videos/wan-releases';
import { accelerateFiles } from './accelerate-files';
import { quoted } from './launch-files';
import { nameOf } from './launch-lines';
import { type BundleFacts, type BundleFile, exportedOf, type OwnReads, videoShape } from './target';

/**
 * [Note: DiffSynth-Studio] Its train.py trains one transformer of a release of Wan. So a model with two experts has two launches, one after
 * the other, each with the weights and the timesteps of an expert. Arguments that are no settings here (data, epochs, folders) are those that
 * were read, or else those of its own scripts. Source: examples/wanvideo/model_training of DiffSynth-Studio, commit fed7b18.
 */
const SCRIPT = '"$DIFFSYNTH/examples/wanvideo/model_training/train.py"';

/** The arguments that name the files of the model; of these, DiffSynth-Studio needs one. */
const FILES = ['model_paths', 'model_id_with_origin_paths'] as const;

/** The order of the arguments in DiffSynth-Studio's own scripts; other arguments follow. */
const ORDER: readonly string[] = [
  ...['dataset_base_path', 'dataset_metadata_path', 'data_file_keys', 'height', 'width', 'num_frames'],
  ...['dataset_repeat', ...FILES, 'learning_rate', 'num_epochs', 'remove_prefix_in_ckpt', 'output_path'],
  ...['trainable_models', 'lora_base_model', 'lora_target_modules', 'lora_rank', 'extra_inputs'],
];

/** The user's videos, if no script was read. A bundle goes to other machines, so it does not name the folder of the videos here. */
const VIDEOS = { dataset_base_path: 'data', dataset_metadata_path: 'data/metadata.csv' } as const;

type Values = Readonly<Record<string, unknown>>;

/** Returns the YAML and the launch script of each machine. */
export function diffSynthFiles(facts: BundleFacts): BundleFile[] {
  return accelerateFiles(facts, {
    scripts: expertsOf(facts).map((expert) => [SCRIPT, ...argumentsOf(facts, expert)].join(' \\\n  ')),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: bash reads it
    before: ['DIFFSYNTH=${DIFFSYNTH:-DiffSynth-Studio}'],
    blockClass: undefined,
    precision: 'bf16',
    deepSpeed: deepSpeedSection(facts),
  });
}

/** Returns DeepSpeed's settings, in the form of Accelerate's YAML; undefined if nothing is sharded. */
function deepSpeedSection({ config, lines }: BundleFacts): Values | undefined {
  const { parallel, offload, accumulation, clipNorm } = config;
  const { zeroStage: stage } = STRATEGIES[parallel.strategy];
  if (stage === 0) return undefined;
  const read: Values = Object.fromEntries(lines.map(({ key, value }) => [nameOf(key), value]));
  const device = (isOnHost: boolean): string => (isOnHost ? 'cpu' : 'none');
  return {
    gradient_accumulation_steps: accumulation,
    // 0 means no clipping.
    gradient_clipping: clipNorm ?? 0,
    offload_optimizer_device: device(offload.optimizer),
    // Only stage 3 offloads parameters, so the value of another stage has no effect, and stays as it was read.
    offload_param_device: (stage < 3 ? read.offload_param_device : undefined) ?? device(offload.parameters),
    zero3_init_flag: read.zero3_init_flag ?? stage === 3,
    // Without it, the shards of stage 3 are not put together when DiffSynth-Studio saves.
    ...(stage === 3 && { zero3_save_16bit_model: true }),
    zero_stage: stage,
  };
}

/** Returns the release that a bundle trains. Throws: CONFIG for other models. */
export function releaseIn({ config }: BundleFacts) {
  const known = releaseOf(config.model);
  if (known !== null) return known;
  const names = RELEASE_NAMES.join(', ');
  throw new ConfigError(
    `DiffSynth-Studio trains Wan's releases only; write model: { like: NAME, latent } with one of ${names}`,
  );
}

/** Returns the experts that are trained: those whose files were read, or else all of the model. */
function expertsOf(facts: BundleFacts): readonly WanExpert[] {
  if (videoShape(facts).experts === 1) return [null];
  const file = fileRead(keptArguments(facts));
  return file === undefined ? ['high', 'low'] : [expertOf(file)];
}

/** Returns the files that DiffSynth-Studio reads. */
export function diffSynthReads(facts: BundleFacts): OwnReads {
  const { hub } = releaseIn(facts).release;
  const kept = keptArguments(facts);
  return {
    model: fileRead(kept) ?? `${hub}, which DiffSynth-Studio downloads`,
    data: dataText(facts, kept),
  };
}

function dataText({ config }: BundleFacts, kept: Values): string {
  const { dataset_base_path: folder, dataset_metadata_path: list } = kept;
  if (folder === undefined) {
    const path = ownData(config.data)?.path;
    const videos = path === undefined ? 'your videos' : `the videos of ${[path].flat().join(', ')}`;
    return `copy ${videos} into the folder ${VIDEOS.dataset_base_path}, and write their files and captions into ${VIDEOS.dataset_metadata_path}, with the columns video and prompt.`;
  }
  return list === undefined
    ? `${String(folder)} has the videos in DiffSynth-Studio's cache.`
    : `${String(folder)} has the videos, and --dataset_metadata_path the table of their files and captions, with the columns video and prompt.`;
}

/** Returns the first of the model's files that were read; undefined if none was. */
function fileRead(kept: Values): string | undefined {
  const value = kept.model_paths ?? kept.model_id_with_origin_paths;
  return value === undefined ? undefined : firstFile(value);
}

/** Returns the arguments of DiffSynth-Studio's script that were read; none, if they are those of another model. */
function keptArguments(facts: BundleFacts): Values {
  const passed = facts.lines.filter(
    ({ key }) => key.startsWith('--') && Object.hasOwn(DIFFSYNTH.keys, nameOf(key)),
  );
  const all: Values = Object.fromEntries(passed.map(({ key, value }) => [nameOf(key), value]));
  const file = fileRead(all);
  const isOther = file !== undefined && modelNamed(file.split(',')[0]) !== releaseIn(facts).name;
  if (isOther || (file === undefined && all.dataset_base_path === undefined)) return {};
  if (all.model_paths === undefined) return all;
  // DiffSynth-Studio would load the files of both arguments.
  const { model_id_with_origin_paths: _, ...kept } = all;
  return kept;
}

/** Returns the names of DiffSynth-Studio's arguments that were read, and that are no settings here. */
export function namesKept(facts: BundleFacts): readonly string[] {
  const written = writtenKeys(DIFFSYNTH.keys, exportedOf(facts));
  const names = facts.lines.map(({ key }) => nameOf(key));
  return names.filter((name) => Object.hasOwn(DIFFSYNTH.keys, name) && !Object.hasOwn(written, name));
}

/** Returns the arguments of the launch of one expert. */
function argumentsOf(facts: BundleFacts, expert: WanExpert): readonly string[] {
  const { release } = releaseIn(facts);
  const kept = keptArguments(facts);
  const isRead = fileRead(kept) !== undefined;
  // A script that was read without inputs stays so, if it trains.
  const inputs = isRead && missingInputs(release, kept.extra_inputs).length === 0 ? [] : release.inputs;
  const folder = expert === null ? 'checkpoint' : `checkpoint/${expert}_noise_model`;
  const usual: Values = {
    // A script that was read without a list of videos has them in DiffSynth-Studio's cache.
    ...(kept.dataset_base_path === undefined && VIDEOS),
    ...(release.files !== undefined && { data_file_keys: release.files }),
    ...(!isRead && { model_id_with_origin_paths: originPaths(release, expert) }),
    num_epochs: 1,
    remove_prefix_in_ckpt: 'pipe.dit.',
    output_path: folder,
    ...(facts.config.lora === null && { trainable_models: 'dit' }),
    ...(inputs.length > 0 && { extra_inputs: inputs.join(',') }),
    ...(release.audio !== undefined && { audio_processor_path: `${release.hub}:${release.audio}/` }),
  };
  const values: Values = {
    ...usual,
    ...kept,
    ...writtenKeys(DIFFSYNTH.keys, exportedOf(facts)),
    ...timestepsOf(facts, expert, kept),
  };
  const place = (name: string): number => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  return Object.entries(values)
    .toSorted(([a], [b]) => place(a) - place(b))
    .flatMap(([name, value]) => (value === false ? [] : argumentText(name, value)));
}

/** Returns the ends of an expert's timesteps. The end at which the experts meet follows from the model. */
function timestepsOf(facts: BundleFacts, expert: WanExpert, kept: Values): Values {
  if (expert === null) return {};
  const share = shareOfHighNoise(videoShape(facts).boundary);
  return expert === 'high'
    ? { max_timestep_boundary: share, min_timestep_boundary: kept.min_timestep_boundary ?? 0 }
    : { max_timestep_boundary: kept.max_timestep_boundary ?? 1, min_timestep_boundary: share };
}

/** Returns sentences about arguments that were read, and that the bundle has otherwise. */
export function argumentNotes(facts: BundleFacts): readonly string[] {
  const { release } = releaseIn(facts);
  const kept = keptArguments(facts);
  const missing = missingInputs(release, kept.extra_inputs);
  if (fileRead(kept) === undefined || missing.length === 0) return [];
  return [
    `The arguments that were read have no --extra_inputs ${missing.join(',')}, without which the transformer of ${release.hub} stops; launch_N.sh has ${kept.extra_inputs === undefined ? 'it' : 'the arguments as they were read'}.`,
  ];
}

function argumentText(name: string, value: unknown): string {
  if (value === true) return `--${name}`;
  return `--${name} ${quoted(typeof value === 'object' ? JSON.stringify(value) : String(value))}`;
}
