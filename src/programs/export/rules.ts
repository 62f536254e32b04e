import {
  type FloatDType,
  isChanged,
  reduceDtypeOf,
  type SettingPath,
  STRATEGIES,
  settingAt,
  strategyWith,
  type TrainConfig,
  usesFloat16,
  usualConfig,
  type WHOLE_SETTINGS,
} from '../../config';
import { ConfigError } from '../../core';
import {
  type BundleFacts,
  type BundleFile,
  type Exception,
  type Exceptions,
  keysOfSetting,
  type Target,
  type Treatment,
} from './target';

export const similar = (text: string): Treatment => ({ other: text });
export const leftOut = (text: string): Treatment => ({ left: text });
export const inexpressible = (text: string): Treatment => ({ refused: text });

/** Exceptions of every target, unless the target has one of its own. */
const ANYWHERE: Exceptions = {
  model: 'said',
  'parallel.mesh': ({ config: { parallel } }) => (STRATEGIES[parallel.strategy].isHybrid ? 'said' : null),
  // It has no effect on CPUs, as here, but it has one on GPUs.
  'parallel.limitAllGathers': () => LEFT_OUT.work,
  gradScaler: ({ config }) =>
    usesFloat16(config) ? null : leftOut('nothing is float16, so a scale changes no value'),
  dpo: inexpressible(
    "pairs of answers are not exported; swift rlhf or TRL's DPOTrainer train on the same file, from a folder in Hugging Face's format (docs/how-to/sft.md)",
  ),
  // The loss of a model of the user is in model.py.
  loss: ({ shape }) => (shape.kind === 'own' ? 'said' : null),
  lora: inexpressible(
    "adapters are not exported; merge them into a folder in Hugging Face's format (docs/how-to/lora.md), and export a config with model: { from: FOLDER }",
  ),
};

const LEFT_OUT = {
  work: leftOut('not in this bundle: only time, memory or messages differ'),
  nothing: leftOut('not in this bundle, and no training depends on it'),
} as const;

/** A bundle whose settings are looked up, with the files that it would have; null: a setting cannot be written, and its exception says so. */
export interface Lookup {
  readonly target: Target;
  readonly facts: BundleFacts;
  /** The config that has the default of each setting. */
  readonly usual: TrainConfig;
  readonly files: readonly BundleFile[] | null;
  /** All words of the files. */
  readonly words: ReadonlySet<string>;
}

export function lookupIn(target: Target, facts: BundleFacts): Lookup {
  const files = filesOf(target, facts);
  return { target, facts, usual: usualConfig(facts.config), files, words: wordsOf(files ?? []) };
}

function filesOf(target: Target, facts: BundleFacts): Lookup['files'] {
  try {
    return target.files(facts);
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

/** Returns what a bundle does with a setting: see [Note: exported settings]. `missing`: it would train something else. */
export function treatmentOf(row: (typeof WHOLE_SETTINGS)[number], lookup: Lookup): Treatment | 'missing' {
  const { path, changes } = row;
  const { target, facts } = lookup;
  const except = target.except(facts);
  const exception = path in except ? except[path] : ANYWHERE[path];
  const treatment = typeof exception === 'function' ? exception(facts) : exception;
  if (treatment !== null && treatment !== undefined) return treatment;
  const idle = row.idle?.(facts.config) ?? null;
  if (idle !== null) return leftOut(idle);
  if (isWritten(path, lookup)) return 'said';
  return changes === 'loss' ? 'missing' : LEFT_OUT[changes];
}

/**
 * Whether a bundle's files have a setting: they have one of its keys, or they would be others without it. A setting that has its default is
 * taken as written.
 */
function isWritten(path: SettingPath, { target, facts, usual, files, words }: Lookup): boolean {
  const { config } = facts;
  if (!isChanged(path, config, usual) || files === null) return true;
  if (keysOf(path, target, facts).some((name) => words.has(name))) return true;
  const [section, key] = path.split('.') as [keyof TrainConfig, string?]; // a path begins with a key of the config
  const value = settingAt(usual, path);
  const without = {
    ...config,
    [section]: key === undefined ? value : { ...Object(config[section]), [key]: value },
  };
  const others = filesOf(target, { ...facts, config: without });
  return others === null || JSON.stringify(files) !== JSON.stringify(others);
}

/** Returns the keys of a target's tables that express a setting. */
export function keysOf(path: string, { keys }: Target, facts: BundleFacts): readonly string[] {
  return keys?.(facts).flatMap((table) => keysOfSetting(path, table)) ?? [];
}

/** Returns all words of a bundle's files. Hyphens become underscores, because flags have '-' in place of a setting's '_'. */
function wordsOf(files: readonly BundleFile[]): ReadonlySet<string> {
  return new Set(files.flatMap(({ text }) => text.replaceAll(/(?<=\w)-(?=\w)/g, '_').split(/\W+/)));
}

/** Exceptions of programs that read the user's texts, in an order of their own. */
export const OWN_BATCHES: Exceptions = {
  data: similar('the program reads texts from data/train.jsonl, in its own order'),
  seed: similar("is the seed of the program's own random numbers"),
};

/** Returns the exception of an optimizer that a program does not have. */
export function onlyOptimizers(program: string, ...kinds: readonly string[]): Exception {
  return ({ config: { optimizer } }) =>
    kinds.includes(optimizer.kind)
      ? null
      : inexpressible(`${program} has no ${optimizer.kind}; use ${kinds.join(' or ')}`);
}

/** Returns the exception of activation checkpointing in a form that a program does not have; 'full' takes its place. */
export function onlyRecompute(...forms: readonly ('full' | 'selective' | 'everyNth')[]): Exception {
  return ({ config: { activationCheckpointing: chosen } }) => {
    const form = typeof chosen === 'object' && chosen !== null ? Object.keys(chosen)[0] : chosen;
    return form === null || forms.some((one) => one === form)
      ? null
      : similar("is 'full': more is computed again, and less is stored");
  };
}

/** Returns the exception of a schedule that a program does not have. */
export function onlySchedules(program: string): (facts: BundleFacts) => Treatment | null {
  return ({ config: { schedule } }) => {
    if (schedule?.kind === 'step' || schedule?.kind === 'exponential')
      return inexpressible(`${program} has no schedule '${schedule.kind}'; use linear, cosine or wsd`);
    return schedule?.kind === 'WarmupCosineLR' ? similar('is cosine, which ends one step later') : null;
  };
}

/** Returns the exception of a program that always reduces gradients in the type `there`. */
export function reducedIn(there: (facts: BundleFacts) => FloatDType) {
  return (facts: BundleFacts): Treatment =>
    reduceDtypeOf(facts.config) === there(facts)
      ? 'said'
      : similar(`gradients are reduced in ${there(facts)}`);
}

/** The exception of tensor parallelism that divides the heads of keys and values. */
export function onlyDivisorsOfHeads({ shape, config: { parallel } }: BundleFacts): Treatment | null {
  if (shape.kind !== 'gpt' && shape.kind !== 'llama') return null;
  const kvHeads = shape.kind === 'llama' ? (shape.kvHeads ?? shape.heads) : shape.heads;
  return kvHeads % parallel.tp === 0
    ? null
    : inexpressible(`${parallel.tp} does not divide the ${kvHeads} heads of keys and values; use a divisor`);
}

/** The exception of parameters that are gathered again from some of the ranks. */
export function onlyAllShards({ config: { parallel } }: BundleFacts): Treatment | null {
  return typeof parallel.reshardAfterForward === 'number'
    ? similar('true: parameters are freed after forward and gathered from all ranks of the shard group')
    : null;
}

/** The exception of units that no framework chooses in this way. The script of an own model names its units. */
export function onlyNamedUnits({ shape, config: { parallel } }: BundleFacts): Treatment | null {
  if (shape.kind === 'own') return 'said';
  return typeof parallel.wrap === 'string' && parallel.wrap !== 'moe'
    ? null
    : similar('every block is a unit: the same values, with other memory and messages');
}

/** The exception of a hybrid strategy without a mesh: one replica in this library, one per machine in a bundle. */
export function onlyMeshes({ config: { parallel }, machines }: BundleFacts): Treatment | null {
  if (!STRATEGIES[parallel.strategy].isHybrid || (parallel.mesh !== null && parallel.mesh.dpReplicate > 1))
    return null;
  return parallel.mesh === null && machines > 1
    ? similar('has one replica per machine; parallel.mesh sets another number of replicas')
    : similar(`has one replica, so it is ${strategyWith(parallel.strategy, { isHybrid: false })}`);
}
