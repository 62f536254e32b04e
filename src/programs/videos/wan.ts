import { modelNamed } from '../../config';
import {
  decides,
  flag,
  flags,
  type KeyInput,
  type KeyTable,
  none,
  refused,
  settingKeys,
  type Translation,
  warned,
  wrongValue,
} from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { number, whole, wholeFromZero, wholeOf, yesOf } from '../rows/values';

// Dialects of Wan2.2: the arguments of generate.py, and the arguments of a document's train.py (Wan2.2 has no train.py).

const ENCODER = { 'textEncoder.model': 'umt5-xxl-encoder' };
const DRAWS = 'is for generating videos; run.sampleVideo does this here';
const SAVES = 'in a notebook, run.step(n, { saveSteps, outputDir }) saves; shardlab run has --save';

function task({ value }: KeyInput): Translation {
  const model = modelNamed(value);
  if (model !== null) return { sets: { model } };
  if (/animate/i.test(String(value)))
    return {
      effect: 'refused',
      why: 'the sizes of Wan-Animate are not known here; choose s2v-14B, i2v-A14B, t2v-A14B or ti2v-5B',
    };
  throw wrongValue(value, 't2v-A14B, i2v-A14B, ti2v-5B or s2v-14B');
}

function ulysses({ value }: KeyInput): Translation {
  const cp = wholeOf(value);
  return cp === 1
    ? { effect: 'none', why: 'sequences are not divided' }
    : { sets: { 'parallel.cp': cp, 'parallel.cpKind': 'ulysses' } };
}

/**
 * Arguments of training scripts whose parsers are not known here: the names are those of transformers and of a document.
 */
const TRAINING: KeyTable = {
  ...settingKeys('transformers', {
    'optimizer.lr': number,
    'optimizer.weightDecay': number,
    accumulation: whole,
    steps: { max_steps: whole },
    'schedule.warmupSteps': { warmup_steps: wholeFromZero },
  }),
  ...settingKeys('torch', { batch: whole }),
  save_interval: none(SAVES),
  log_interval: none('run.log writes every step'),
};

export const WAN: Dialect = {
  name: 'Wan2.2',
  keys: {
    ...settingKeys('wan', {
      model: { task: decides('model', task) },
      'parallel.strategy': {
        dit_fsdp: flag(
          decides('parallel.strategy', ({ value }) => ({
            sets: { 'parallel.strategy': yesOf(value) ? 'FULL_SHARD' : 'NO_SHARD' },
          })),
        ),
      },
      'parallel.cp': { ulysses_size: decides('parallel.cp', ulysses) },
      'textEncoder.fsdp': {
        t5_fsdp: flag(
          decides('textEncoder.fsdp', ({ value }) => ({
            sets: { ...ENCODER, 'textEncoder.fsdp': yesOf(value) },
          })),
        ),
      },
    }),
    ...TRAINING,
    ckpt_dir: none('weights are not read from this folder; model: { from: FOLDER } reads weights'),
    t5_cpu: flag(warned('the text encoder runs on the device of its rank here; textEncoder.fsdp shards it')),
    convert_model_dtype: flag(
      decides('mixedPrecision.paramDtype', () => ({ sets: { 'mixedPrecision.paramDtype': 'bfloat16' } })),
    ),
    offload_model: none(DRAWS),
    use_prompt_extend: flag(none(DRAWS)),
    ...flags({
      replace_flag: refused('Wan-Animate is not built here'),
      use_relighting_lora: refused('Wan-Animate is not built here'),
      enable_tts: refused('speech is not made here'),
      start_from_ref: none(DRAWS),
    }),
    ...Object.fromEntries(
      [
        'size',
        'frame_num',
        'save_file',
        'prompt',
        'prompt_extend_method',
        'prompt_extend_model',
        'prompt_extend_target_lang',
        'base_seed',
        'image',
        'sample_solver',
        'sample_steps',
        'sample_shift',
        'sample_guide_scale',
        'src_root_path',
        'refert_num',
        'num_clip',
        'audio',
        'tts_prompt_audio',
        'tts_prompt_text',
        'tts_text',
        'pose_video',
        'infer_frames',
      ].map((key) => [key, none(DRAWS)]),
    ),
    local_rank: none('the launcher sets it for each process'),
  },
  usual: (other) => ({
    usual: {
      ...(other('dit_fsdp') === undefined && { 'parallel.strategy': 'NO_SHARD' }),
      data: 'synthetic',
    },
    why: "latents of the model's size; --set data=moving-shapes trains on videos with captions",
  }),
  checks: (other) => {
    const trains = Object.keys(TRAINING).find((key) => other(key) !== undefined);
    if (trains === undefined || other('task') === undefined) return [];
    return [
      {
        key: 'ckpt_dir',
        effect: 'none',
        why: 'weights are not read from this folder (model: { from: FOLDER } reads weights); Wan2.2 itself has no train.py, so the arguments of training are read as their names suggest',
      },
    ];
  },
};
