import { decayStepsOf, type ScheduleConfig } from '../../config';
import {
  both,
  decides,
  type Exported,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  settingBoth,
  settingKeys,
  type Translation,
  wrongValue,
} from '../rows/key-row';
import { number, numberOf, wholeFromZero, wholeOf, word, wordOf } from '../rows/values';
import { weightDecayRow } from '../rows/weight-decay';

// The optimizer and the schedule of transformers' TrainingArguments.

/** Patterns of names by kind. Exports write the name of a kind's first pattern. */
const OPTIMIZERS: readonly (readonly [pattern: RegExp, kind: string, written?: string])[] = [
  [
    /^adamw_(torch|hf|torch_fused|apex_fused|torch_xla|torch_npu_fused|anyprecision)$/,
    'adamW',
    'adamw_torch',
  ],
  [/^(paged_)?adamw_(8bit|bnb_8bit)$|^adamw_torch_8bit$/, 'adamW8bit', 'adamw_bnb_8bit'],
  [/^(paged_)?adamw(_32bit)?$/, 'adamW'],
  [/^(paged_)?lion(_32bit)?$/, 'lion', 'lion_32bit'],
  [/^sgd$/, 'sgd', 'sgd'],
];

function optim({ value }: KeyInput): Translation {
  const name = String(value).toLowerCase();
  const kind = OPTIMIZERS.find(([pattern]) => pattern.test(name))?.[1];
  if (kind === undefined)
    return {
      effect: 'refused',
      why: `there is no optimizer ${name} here; choose optimizer.kind adamW, adamW8bit, lion or sgd`,
    };
  return { sets: { 'optimizer.kind': kind } };
}

/** transformers' schedules. The first name of a kind is the one that exports write. */
const SCHEDULES: Readonly<Record<string, string>> = {
  linear: 'linear',
  cosine: 'cosine',
  constant_with_warmup: 'constant',
  constant: 'constant',
  warmup_stable_decay: 'wsd',
  cosine_with_min_lr: 'cosine',
};

const MIN_LR = 'cosine_with_min_lr';

function schedule({ value }: KeyInput): Translation {
  const kind = SCHEDULES[String(value).toLowerCase()];
  if (kind === undefined)
    return {
      effect: 'refused',
      why: `there is no schedule ${String(value)} here; choose schedule.kind ${Object.keys(SCHEDULES).join(', ')}`,
    };
  return { sets: { 'schedule.kind': kind } };
}

/** Returns the name of an export's schedule; WarmupCosineLR is written as a cosine. */
function scheduleName({ config: { schedule: given } }: Exported): string | undefined {
  const kind = given?.kind ?? 'constant';
  if (kind !== 'cosine' && kind !== 'WarmupCosineLR') return wordOf(SCHEDULES, kind);
  return (given?.etaMin ?? 0) > 0 ? MIN_LR : 'cosine';
}

const DECAYS = ['linear', 'cosine', '1-sqrt'];

/** Returns the settings for a schedule's own arguments, which are an object, or JSON on a command line. */
function scheduleArguments({ value, other }: KeyInput): Translation {
  const given: unknown = typeof value === 'string' ? parsed(value) : value;
  if (typeof given !== 'object' || given === null) throw wrongValue(value, 'an object, as {"min_lr": 1e-5}');
  const lr = Number(other('learning_rate') ?? Number.NaN);
  const sets: Record<string, unknown> = {};
  const unknown: string[] = [];
  for (const [key, each] of Object.entries(given)) {
    if (key === 'min_lr') sets['schedule.etaMin'] = numberOf(each);
    else if (key === 'min_lr_rate' || key === 'min_lr_ratio') sets['schedule.etaMin'] = lr * numberOf(each);
    else if (key === 'num_decay_steps') sets['schedule.decaySteps'] = wholeOf(each);
    else if (key === 'decay_type') sets['schedule.decayType'] = word(wordsOf(DECAYS))(each);
    else unknown.push(key);
  }
  const isUnknown = unknown.length > 0 || Object.values(sets).some(Number.isNaN);
  return isUnknown
    ? {
        effect: 'refused',
        why: `${unknown.join(', ') || 'a share of the learning rate, without a line that has the rate,'} cannot be read; write schedule.etaMin, schedule.decaySteps and schedule.decayType`,
      }
    : { sets };
}

const wordsOf = (names: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [name, name]));

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw wrongValue(text, 'JSON, as {"min_lr": 1e-5}');
  }
}

/** Returns the arguments that an export's schedule needs. */
function writtenArguments({ config }: Exported): Readonly<Record<string, unknown>> | undefined {
  const { schedule: given, optimizer, steps } = config;
  if (given === null) return undefined;
  if (given.kind === 'wsd') return wsdArguments(given, optimizer.lr, steps);
  return scheduleName({ config, machines: 1, ranksPerMachine: 1 }) === MIN_LR
    ? { min_lr: given.etaMin }
    : undefined;
}

function wsdArguments(given: ScheduleConfig, lr: number, steps: number): Readonly<Record<string, unknown>> {
  return {
    num_decay_steps: decayStepsOf(given, steps),
    decay_type: given.decayType,
    ...(given.etaMin > 0 && { min_lr_ratio: given.etaMin / lr }),
  };
}

/** Returns the steps of warm-up: a number below 1, or the ratio, is a share of all steps. */
function warmup(input: KeyInput): Translation {
  const { key, value, other } = input;
  const given = numberOf(value);
  if (key !== 'warmup_ratio' && (given === 0 || given >= 1))
    return { sets: { 'schedule.warmupSteps': wholeFromZero(given, input) } };
  const steps = other('max_steps') ?? other('train_iters');
  if (given === 0) return { effect: 'none', why: 'the rate does not rise' };
  if (typeof steps !== 'number' || steps <= 0)
    return {
      effect: 'warning',
      why: 'is a share of the steps, and no line has the number of steps; write schedule.warmupSteps',
    };
  return { sets: { 'schedule.warmupSteps': Math.ceil(given * steps) } };
}

const beta = (index: 0 | 1): KeyRow =>
  both(
    decides('optimizer.betas', ({ value, other }) => {
      const betas = [numberOf(other('adam_beta1') ?? 0.9), numberOf(other('adam_beta2') ?? 0.999)];
      betas[index] = numberOf(value);
      return { sets: { 'optimizer.betas': betas } };
    }),
    ({ config: { optimizer } }) => (optimizer.kind === 'sgd' ? undefined : optimizer.betas[index]),
  );

/** Rows of the optimizer and the schedule. */
export const OPTIMIZATION: KeyTable = {
  ...settingKeys('transformers', {
    'optimizer.lr': { learning_rate: settingBoth('optimizer.lr', number) },
    'optimizer.weightDecay': { weight_decay: weightDecayRow("transformers' Trainer") },
    'optimizer.betas': { adam_beta1: beta(0), adam_beta2: beta(1) },
    'optimizer.eps': { adam_epsilon: settingBoth('optimizer.eps', number) },
    'optimizer.kind': {
      optim: both(
        decides('optimizer.kind', optim),
        ({ config }) => OPTIMIZERS.find(([, kind]) => kind === config.optimizer.kind)?.[2],
      ),
    },
    schedule: { lr_scheduler_type: both(decides('schedule.kind', schedule), scheduleName) },
    'schedule.warmupSteps': {
      warmup_steps: both(
        decides('schedule.warmupSteps', warmup),
        ({ config }) => config.schedule?.warmupSteps ?? 0,
      ),
      warmup_ratio: decides('schedule.warmupSteps', warmup),
    },
  }),
  lr_scheduler_kwargs: both(decides('schedule', scheduleArguments), writtenArguments),
};
