import { decayStepsOf } from '../../config';
import { isNothing, numberOf, wholeOf, word, yesOf } from '../../programs';
import {
  both,
  COMPILED,
  DATA,
  type Dialect,
  decides,
  type Exported,
  float,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  modelMeaning,
  none,
  number,
  place,
  planSwitch,
  refused,
  SEQUENCE,
  section,
  setting,
  settingBoth,
  type Translation,
  whole,
  wholeFromZero,
  wordOf,
  wrongValue,
  yes,
} from '../../programs/toolkit';
import { TORCHTITAN_WITHOUT_EFFECT as OTHER } from './torchtitan-keys';
import { dataRanks, PARALLELISM } from './torchtitan-parallel';

// TorchTitan's TOML, and the arguments of its train.py. Source: torchtitan/config/job_config.py before the settings became Python.

const OPTIMIZERS: Readonly<Record<string, string>> = { AdamW: 'adamW', Adam: 'adam' };

function optimizer({ value }: KeyInput): Translation {
  const name = Object.keys(OPTIMIZERS).find((one) => one.toLowerCase() === String(value).toLowerCase());
  return name === undefined
    ? { effect: 'refused', why: `there is no optimizer ${String(value)} here; choose AdamW or Adam` }
    : { sets: { 'optimizer.kind': OPTIMIZERS[name] } };
}

const beta = (index: 0 | 1): KeyRow =>
  both(
    decides('optimizer.betas', ({ value, other }) => {
      const betas = [Number(other('optimizer.beta1') ?? 0.9), Number(other('optimizer.beta2') ?? 0.95)];
      betas[index] = numberOf(value);
      return { sets: { 'optimizer.betas': betas } };
    }),
    ({ config }) => config.optimizer.betas[index],
  );

const DECAYS = { linear: 'linear', cosine: 'cosine', sqrt: '1-sqrt' } as const;

/** The rate rises, stays, and falls within decay_ratio of all steps; without decay_ratio, it falls from the end of the warm-up. */
function decay({ other }: KeyInput): Translation {
  const type = word(DECAYS)(other('lr_scheduler.decay_type') ?? 'linear');
  const ratio = other('lr_scheduler.decay_ratio');
  if (ratio !== undefined && numberOf(ratio) === 0) return { sets: { 'schedule.kind': 'constant' } };
  if (ratio === undefined && type !== '1-sqrt') return { sets: { 'schedule.kind': type } };
  const steps = Number(other('lr_scheduler.total_steps') ?? other('training.steps') ?? 10_000);
  const warmup = Number(other('lr_scheduler.warmup_steps') ?? 200);
  const decaySteps = ratio === undefined ? steps - warmup : Math.round(steps * numberOf(ratio));
  return {
    sets: { 'schedule.kind': 'wsd', 'schedule.decayType': type, 'schedule.decaySteps': decaySteps },
  };
}

/** Returns the share of the steps in which a rate falls: 0 if it stays; undefined if it falls from the end of the warm-up. */
function decayRatio({ config: { schedule, steps } }: Exported): number | undefined {
  if (schedule === null || schedule.kind === 'constant') return 0;
  return schedule.kind === 'wsd' ? decayStepsOf(schedule, steps) / (schedule.maxSteps ?? steps) : undefined;
}

const SCHEDULE: KeyTable = {
  warmup_steps: both(
    setting('schedule.warmupSteps', wholeFromZero),
    ({ config }) => config.schedule?.warmupSteps ?? 0,
  ),
  total_steps: settingBoth('schedule.maxSteps', whole),
  decay_ratio: both(decides('schedule.kind', decay), decayRatio),
  decay_type: both(decides('schedule.kind', decay), ({ config: { schedule } }) =>
    schedule === null || schedule.kind === 'constant'
      ? undefined
      : wordOf<string>(
          DECAYS,
          schedule.kind === 'wsd' ? schedule.decayType : schedule.kind === 'linear' ? 'linear' : 'cosine',
        ),
  ),
  min_lr_factor: both(
    decides('schedule.etaMin', ({ value, other }) => ({
      sets: { 'schedule.etaMin': Number(other('optimizer.lr') ?? 8e-4) * numberOf(value) },
    })),
    ({ config: { schedule, optimizer } }) =>
      schedule === null || optimizer.lr === 0 ? undefined : schedule.etaMin / optimizer.lr,
  ),
};

const COMPILE = planSwitch('compile', COMPILED, yesOf);
const MASTER = 'parameters are stored as float32 here; mixedPrecision rounds them for matmuls';

const TRAINING: KeyTable = {
  ...OTHER.training,
  local_batch_size: settingBoth('batch', whole),
  // Older versions have this name.
  batch_size: setting('batch', whole),
  global_batch_size: both(
    place('rows of all ranks per step', (value) =>
      Number(value) > 0 ? { globalBatch: wholeOf(value) } : {},
    ),
    (exported) => exported.config.batch * exported.config.accumulation * dataRanks(exported),
  ),
  seq_len: SEQUENCE,
  // TorchTitan always clips: 0 would make every gradient 0, and inf changes none.
  max_norm: settingBoth(
    'clipNorm',
    (value) => {
      if (value === Number.POSITIVE_INFINITY || value === 'inf') return null;
      if (numberOf(value) > 0) return numberOf(value);
      throw wrongValue(value, 'a number above 0, by which TorchTitan multiplies gradients, or inf');
    },
    (norm) => norm ?? Number.POSITIVE_INFINITY,
  ),
  steps: settingBoth('steps', whole),
  enable_cpu_offload: settingBoth('offload.parameters', yes),
  dtype: refused(MASTER, (value) => value === 'float32', 'is the dtype of stored parameters here, too'),
  mixed_precision_param: both(
    setting('mixedPrecision.paramDtype', float),
    ({ config }) => config.mixedPrecision?.paramDtype ?? 'float32',
  ),
  // TorchTitan allows only this value.
  mixed_precision_reduce: both(setting('mixedPrecision.reduceDtype', float), () => 'float32'),
  compile: COMPILE,
  dataset: DATA,
  dataset_path: DATA,
  seed: setting('seed', wholeFromZero),
};

/** The option of mode 'selective': a number n if every n-th layer runs again, or 'op' if matmuls do not run again. */
const optionOf = (other: KeyInput['other']): string =>
  String(other('activation_checkpoint.selective_ac_option') ?? '2');

function checkpointing({ value, other }: KeyInput): Translation {
  const mode = String(value);
  if (mode === 'none') return { sets: { activationCheckpointing: null } };
  if (mode === 'full') return { sets: { activationCheckpointing: 'full' } };
  if (mode !== 'selective')
    return { effect: 'refused', why: `there is no mode ${mode} here; choose none, full or selective` };
  const option = optionOf(other);
  return { sets: { activationCheckpointing: option === 'op' ? 'selective' : { everyNth: wholeOf(option) } } };
}

/** Returns the mode and the option of a setting. */
function modeOf({
  config: { activationCheckpointing: chosen },
}: Exported): readonly [mode: string, option?: string] {
  if (chosen === null) return ['none'];
  if (chosen === 'selective') return ['selective', 'op'];
  return typeof chosen === 'object' && 'everyNth' in chosen
    ? ['selective', String(chosen.everyNth)]
    : ['full'];
}

const FLOAT8 =
  'which matmuls are in float8; a plan knows only whether float8 is used, and nothing here computes in float8';

/** Settings of TorchTitan, by section. */
const SECTIONS: Readonly<Record<string, KeyTable>> = {
  ...OTHER,
  job: {
    ...OTHER.job,
    config_file: {
      ...none("TorchTitan's TOML, which is read too"),
      mean: ({ value }) => ({ file: String(value), effect: 'used', why: 'is read too' }),
    },
  },
  model: {
    ...OTHER.model,
    name: none('names the model together with flavor'),
    flavor: decides('model', (input) =>
      modelMeaning({
        ...input,
        value: `${String(input.other('model.name') ?? 'llama3')}-${String(input.value)}`,
      }),
    ),
    converters: place('float8; only a plan takes it into account', (value) => ({
      isFp8: [value].flat().some((name) => /float8|mx/.test(String(name))),
    })),
  },
  optimizer: {
    name: both(decides('optimizer.kind', optimizer), ({ config }) =>
      wordOf(OPTIMIZERS, config.optimizer.kind),
    ),
    lr: settingBoth('optimizer.lr', number),
    beta1: beta(0),
    beta2: beta(1),
    eps: settingBoth('optimizer.eps', number),
    weight_decay: settingBoth('optimizer.weightDecay', number),
    implementation: none('the update has one implementation here'),
    // Older versions have this name.
    fused: none('the update has one implementation here'),
    early_step_in_backward: refused('the optimizer updates after backward here'),
  },
  lr_scheduler: SCHEDULE,
  training: TRAINING,
  parallelism: PARALLELISM,
  activation_checkpoint: {
    ...OTHER.activation_checkpoint,
    mode: both(decides('activationCheckpointing', checkpointing), (exported) => modeOf(exported)[0]),
    selective_ac_option: both(
      none('together with mode, decides which layers run again'),
      (exported) => modeOf(exported)[1],
    ),
  },
  compile: {
    enable: {
      ...COMPILE,
      mean: (input) => {
        const { other } = input;
        const parts = [other('compile.components') ?? ['model', 'loss']].flat().map(String);
        const [compile, compileLoss] = [parts.includes('model'), parts.includes('loss')];
        return yesOf(input.value)
          ? { place: { compile, compileLoss }, why: `torch.compile compiles ${parts.join(' and ')}` }
          : COMPILE.mean(input);
      },
    },
    components: none('together with enable, decides what is compiled'),
    backend: none('a plan knows only what is compiled'),
  },
  debug: { ...OTHER.debug, seed: settingBoth('seed', wholeFromZero) },
};

const PYTHON =
  'newer versions of TorchTitan have their settings in modules of Python, which are not read; write them as a config, or give the TOML of an older version';

/** Whether the settings are not in these arguments, but in a file or in Python. */
const isElsewhere = (other: KeyInput['other']): boolean =>
  ['job.config_file', 'module', 'config'].some((key) => other(key) !== undefined);

/** TorchTitan's TOML, and the same settings as arguments: --training.steps 10. */
export const TORCHTITAN: Dialect = {
  name: 'TorchTitan',
  namesSections: true,
  stack: () => 'fsdp2',
  keys: {
    ...Object.fromEntries(Object.entries(SECTIONS).map(([name, keys]) => [name, section(keys)])),
    quantize: none(FLOAT8),
    float8: none(FLOAT8),
    mx: none(FLOAT8),
    module: refused(PYTHON, isNothing),
    config: refused(PYTHON, isNothing),
  },
  usual: (other) =>
    isElsewhere(other)
      ? null
      : {
          usual: {
            batch: 8,
            steps: 10_000,
            'optimizer.lr': 8e-4,
            'optimizer.betas': [0.9, 0.95],
            'optimizer.weightDecay': 0.1,
            'schedule.kind': 'linear',
            'schedule.warmupSteps': 200,
            clipNorm: 1,
            'mixedPrecision.paramDtype': 'bfloat16',
            'mixedPrecision.reduceDtype': 'float32',
            'parallel.strategy': 'FULL_SHARD',
            activationCheckpointing: { everyNth: 2 },
          },
          place: { isWarmupCut: true },
          why: "TorchTitan's defaults",
        },
};
