import {
  type Asked,
  allNone,
  decides,
  isNothing,
  type KeyRow,
  type KeyTable,
  type Meaning,
  none,
  place,
  refused,
  section,
  setting,
} from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { modelMeaning } from '../rows/models';
import {
  clip,
  float,
  number,
  numberOf,
  whole,
  wholeFromZero,
  wholeOf,
  word,
  yes,
  yesOf,
} from '../rows/values';
import { TORCHTITAN_WITHOUT_EFFECT as OTHER } from './torchtitan-keys';
import { DATA } from './transformers';

// TorchTitan's TOML, and the arguments of its train.py. Source: torchtitan/config/job_config.py before the settings became Python.

const parallel = (other: Asked['other'], key: string): number => {
  const degree = Number(other(`parallelism.${key}`) ?? 1);
  return degree > 0 ? degree : 1;
};

/** Returns FSDP's strategy; a degree of -1 stands for all ranks that no other degree has. */
function strategy({ other }: Asked): Meaning {
  const shard = Number(other('parallelism.data_parallel_shard_degree') ?? -1);
  const dpReplicate = parallel(other, 'data_parallel_replicate_degree');
  if (shard === 1) return { sets: { 'parallel.strategy': 'NO_SHARD' } };
  const reshard = String(other('parallelism.fsdp_reshard_after_forward') ?? 'default');
  const isKept =
    reshard === 'never' || (reshard === 'default' && parallel(other, 'pipeline_parallel_degree') > 1);
  const plain = isKept ? 'SHARD_GRAD_OP' : 'FULL_SHARD';
  const hybrid = isKept ? '_HYBRID_SHARD_ZERO2' : 'HYBRID_SHARD';
  return {
    sets: {
      'parallel.strategy': dpReplicate > 1 ? hybrid : plain,
      ...(dpReplicate > 1 && shard > 1 && { 'parallel.mesh': { dpReplicate, dpShard: shard } }),
    },
    ...ranks(shard, other),
  };
}

/** Returns the number of ranks, if no degree stands for the rest. */
function ranks(shard: number, other: Asked['other']): Pick<Meaning, 'place'> {
  if (shard < 1) return {};
  const degrees = [
    'data_parallel_replicate_degree',
    'tensor_parallel_degree',
    'pipeline_parallel_degree',
    'context_parallel_degree',
  ];
  return { place: { world: degrees.reduce((product, key) => product * parallel(other, key), shard) } };
}

const sharding = (check: (value: unknown) => unknown): KeyRow =>
  decides('parallel.strategy', (asked) => {
    check(asked.value);
    return strategy(asked);
  });

function ifPipeline(meaning: (asked: Asked) => Meaning) {
  return (asked: Asked): Meaning =>
    parallel(asked.other, 'pipeline_parallel_degree') === 1
      ? { effect: 'none', why: 'the model is not cut into stages' }
      : meaning(asked);
}

function pipelineSchedule({ value }: Asked): Meaning {
  const schedules: Readonly<Record<string, string>> = {
    gpipe: 'gpipe',
    '1f1b': '1f1b',
    interleaved1f1b: 'interleaved',
    zbh1: 'zb',
  };
  const schedule = schedules[String(value).toLowerCase()];
  return schedule === undefined
    ? {
        effect: 'refused',
        why: `there is no schedule ${String(value)} here; choose gpipe, 1f1b, interleaved or zb`,
      }
    : { sets: { 'parallel.schedule': schedule } };
}

const PARALLELISM: KeyTable = {
  ...OTHER.parallelism,
  data_parallel_replicate_degree: sharding((value) => wholeOf(value)),
  data_parallel_shard_degree: sharding((value) => (Number(value) === -1 ? -1 : wholeOf(value))),
  fsdp_reshard_after_forward: sharding(word({ default: 1, always: 1, never: 1 })),
  tensor_parallel_degree: setting('parallel.tp', whole),
  pipeline_parallel_degree: setting('parallel.pp', whole),
  context_parallel_degree: decides('parallel.cp', ({ value }) =>
    wholeOf(value) === 1
      ? { effect: 'none', why: 'sequences are not divided' }
      : { sets: { 'parallel.cp': wholeOf(value), 'parallel.cpKind': 'ring' } },
  ),
  expert_parallel_degree: decides('parallel.ep', ({ value }) =>
    wholeOf(value) === 1
      ? { effect: 'none', why: 'experts are not divided' }
      : { sets: { 'parallel.ep': wholeOf(value) } },
  ),
  pipeline_parallel_schedule: decides('parallel.schedule', ifPipeline(pipelineSchedule)),
  pipeline_parallel_microbatch_size: decides(
    'parallel.microbatches',
    ifPipeline(({ value, other }) => {
      const batch = Number(other('training.local_batch_size') ?? other('training.batch_size') ?? 8);
      return { sets: { 'parallel.microbatches': wholeOf(batch / wholeOf(value)) } };
    }),
  ),
};

function optimizer({ value }: Asked): Meaning {
  const kind = ({ adamw: 'adamW', adam: 'adam' } as const)[String(value).toLowerCase()];
  return kind === undefined
    ? { effect: 'refused', why: `there is no optimizer ${String(value)} here; choose AdamW or Adam` }
    : { sets: { 'optimizer.kind': kind } };
}

const beta = (index: 0 | 1): KeyRow =>
  decides('optimizer.betas', ({ value, other }) => {
    const betas = [Number(other('optimizer.beta1') ?? 0.9), Number(other('optimizer.beta2') ?? 0.95)];
    betas[index] = numberOf(value);
    return { sets: { 'optimizer.betas': betas } };
  });

/** The rate rises, stays, and falls within decay_ratio of all steps; without decay_ratio, it falls from the end of the warm-up. */
function decay({ other }: Asked): Meaning {
  const type = word({ linear: 'linear', cosine: 'cosine', sqrt: '1-sqrt' } as const)(
    other('lr_scheduler.decay_type') ?? 'linear',
  );
  const ratio = other('lr_scheduler.decay_ratio');
  if (ratio === undefined && type !== '1-sqrt') return { sets: { 'schedule.kind': type } };
  const steps = Number(other('training.steps') ?? 10_000);
  const warmup = Number(other('lr_scheduler.warmup_steps') ?? 200);
  const decaySteps = ratio === undefined ? steps - warmup : Math.round(steps * numberOf(ratio));
  return {
    sets: { 'schedule.kind': 'wsd', 'schedule.decayType': type, 'schedule.decaySteps': decaySteps },
  };
}

const SCHEDULE: KeyTable = {
  warmup_steps: setting('schedule.warmupSteps', wholeFromZero),
  total_steps: setting('schedule.maxSteps', whole),
  decay_ratio: decides('schedule.kind', decay),
  decay_type: decides('schedule.kind', decay),
  min_lr_factor: decides('schedule.etaMin', ({ value, other }) => ({
    sets: { 'schedule.etaMin': Number(other('optimizer.lr') ?? 8e-4) * numberOf(value) },
  })),
};

const COMPILE = place('the model is compiled', (value) => ({ compile: yesOf(value) }));
const MASTER = 'parameters are stored as float32 here; mixedPrecision rounds them for matmuls';

const TRAINING: KeyTable = {
  ...OTHER.training,
  local_batch_size: setting('batch', whole),
  // The name of older versions.
  batch_size: setting('batch', whole),
  global_batch_size: place('rows of all ranks per step', (value) =>
    Number(value) > 0 ? { globalBatch: wholeOf(value) } : {},
  ),
  seq_len: decides('data.seq', ({ value }) => ({
    effect: 'none',
    why: `sequences have the model's seq; write model: { …, seq: ${String(value)} }`,
  })),
  max_norm: setting('clipNorm', clip),
  steps: setting('steps', whole),
  enable_cpu_offload: setting('offload.parameters', yes),
  dtype: refused(MASTER, (value) => value === 'float32', 'is the type of stored parameters here, too'),
  mixed_precision_param: setting('mixedPrecision.paramDtype', float),
  mixed_precision_reduce: setting('mixedPrecision.reduceDtype', float),
  compile: COMPILE,
  dataset: DATA,
  dataset_path: DATA,
  seed: setting('seed', wholeFromZero),
};

function checkpointing({ value, other }: Asked): Meaning {
  const mode = String(value);
  if (mode === 'none') return { sets: { activationCheckpointing: null } };
  if (mode === 'full') return { sets: { activationCheckpointing: 'full' } };
  if (mode !== 'selective')
    return { effect: 'refused', why: `there is no mode ${mode} here; choose none, full or selective` };
  const option = String(other('activation_checkpoint.selective_ac_option') ?? '2');
  return option === 'op'
    ? { sets: { activationCheckpointing: 'selective' } }
    : {
        sets: { activationCheckpointing: 'full' },
        effect: 'warning',
        why: `activationCheckpointing: "full", for every layer; in TorchTitan, one of ${option} layers runs again`,
      };
}

const FLOAT8 =
  'which matmuls are in float8; a plan knows float8 by its name alone, and nothing here computes in it';

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
    flavor: decides('model', (asked) =>
      modelMeaning({
        ...asked,
        value: `${String(asked.other('model.name') ?? 'llama3')}-${String(asked.value)}`,
      }),
    ),
    converters: place('float8, which only a plan knows', (value) => ({
      isFp8: [value].flat().some((name) => /float8|mx/.test(String(name))),
    })),
  },
  optimizer: {
    name: decides('optimizer.kind', optimizer),
    lr: setting('optimizer.lr', number),
    beta1: beta(0),
    beta2: beta(1),
    eps: setting('optimizer.eps', number),
    weight_decay: setting('optimizer.weightDecay', number),
    implementation: none('the update has one implementation here'),
    // The name of older versions.
    fused: none('the update has one implementation here'),
    early_step_in_backward: refused('the optimizer updates after backward here'),
  },
  lr_scheduler: SCHEDULE,
  training: TRAINING,
  parallelism: PARALLELISM,
  activation_checkpoint: {
    ...OTHER.activation_checkpoint,
    mode: decides('activationCheckpointing', checkpointing),
    selective_ac_option: none('decides with mode which layers run again'),
  },
  compile: {
    enable: COMPILE,
    ...allNone('a plan knows only whether the model is compiled', 'components backend'),
  },
  debug: { ...OTHER.debug, seed: setting('seed', wholeFromZero) },
};

const PYTHON =
  'newer versions of TorchTitan have their settings in modules of Python, which are not read; write them as a config, or give the TOML of an older version';

/** Whether the settings are elsewhere: in a file, or in Python. */
const isElsewhere = (other: Asked['other']): boolean =>
  ['job.config_file', 'module', 'config'].some((key) => other(key) !== undefined);

/** TorchTitan's TOML, and the same settings as arguments: --training.steps 10. */
export const TORCHTITAN: Dialect = {
  name: 'TorchTitan',
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
          },
          why: "TorchTitan's defaults",
        },
};
