import { z } from 'zod';
import {
  camelCase,
  FLOAT_WORDS,
  knownKeys,
  nearest,
  PIPELINE,
  PIPELINE_SCHEDULES,
  parsedBy,
  SHORT_FLOATS,
  STRATEGIES,
  STRATEGY_WORDS,
  type Stack,
  size,
  spelled,
} from '../config';
import { ConfigError, ownValue } from '../core';
import names from './batch-names.json';
import { hubModelAt } from './hub-files';
import type { Precision } from './layout';
import { modelOf } from './models';
import { placeSchema } from './place';
import { withSequences } from './planned-model';
import { besideFp8, usualReduceDtype } from './stack-rules';

type Line = Readonly<Record<string, unknown>>;

/** What to write today for each key that only lines of the batch format have. */
export const TODAY: Readonly<Record<string, string>> = names.today;

/** Whether an object has a key that only lines of the batch format have; other lines are a config with the keys of its place. */
function isBatchLine(line: object): boolean {
  const { batch, schedule, parallel = {}, ...keys } = line as Line;
  const within = typeof parallel === 'object' && parallel !== null ? Object.keys(parallel) : [];
  const isOld = (key: string, only: readonly string[]): boolean => ourKey(key) !== key || only.includes(key);
  return (
    typeof batch === 'object' ||
    typeof schedule === 'string' ||
    Object.keys(keys).some((key) => isOld(key, Object.keys(TODAY))) ||
    within.some((key) => isOld(key, names.onlyWithin))
  );
}

/**
 * Returns a line without notes and measurements: keys that are not similar to any known key. A misspelled key is similar to a
 * known key, so it stays, and is refused later. Facts of a model from which no number follows are named too; otherwise nothing within
 * model, parallel and batch is left out.
 */
export function withoutNotes(line: object): { readonly line: object; readonly ignored: readonly string[] } {
  const { id: _id, ...entries } = line as Line;
  const known = [...knownKeys(''), ...Object.keys({ ...placeSchema.shape, ...TODAY, ...names.keys })];
  const notes = Object.keys(entries).filter(
    (key) => !known.includes(ourKey(key)) && nearest(key, known) === undefined,
  );
  return {
    line: Object.fromEntries(Object.entries(entries).filter(([key]) => !notes.includes(key))),
    ignored: isBatchLine(line) ? [...notes, ...factsOf(entries.model)] : notes,
  };
}

/** Returns a line of the batch format as a config with the keys of its place; any other object as it is. Throws: as `ofBatchLine`. */
export function ofAnyLine(line: object): object {
  return isBatchLine(line) ? ofBatchLine(line) : line;
}

/**
 * Returns a line of the batch format (docs/explanation/planner.md) as a config with the keys of its place. Lines have defaults of their own:
 * bf16, FlashAttention, a microbatch of 1, four microbatches per stage of a pipeline; Megatron-LM without sharded gradients,
 * otherwise DeepSpeed for GPTs. Throws: CONFIG if dp or the global batch do not fit the number of GPUs.
 */
export function ofBatchLine(line: object): object {
  const { id: _id, model = {}, seq, parallel, batch: rows = {}, ...keys } = renamed(line) as Line;
  const { precision = 'bf16', reduceDtype, recompute = 'none', recomputeEveryNth: nth = 1, ...more } = keys;
  const { schedule, virtualStages, optimizerStates: optimizer, commHook, ...place } = more;
  const isWhole = place.baseWeights !== undefined;
  const { dp, dpShard, tp = 1, pp = 1, cp = 1, ep, ...others } = Object(parallel) as Line;
  const { strategy = isWhole ? 'NO_SHARD' : 'FULL_SHARD', ...rest } = others;
  const { stack = isWhole ? 'fsdp2' : stackOf(model, strategy), ...own } = rest;
  const { sequenceParallel = stack === 'fsdp2', ...flags } = own;
  const stages = virtualStages ?? (schedule === 'interleaved' ? 2 : 1);
  const [gpus, copies] = [Number(place.gpus ?? 8), Number(tp) * Number(pp) * Number(cp)];
  const ranks = gpus / copies;
  if (dp !== undefined && dp !== ranks)
    throw new ConfigError(
      `dp(${dp}) x tp(${tp}) x pp(${pp}) x cp(${cp}) = ${Number(dp) * copies}, but gpus is ${gpus}`,
    );
  const { micro = 1, global = micro * ranks * (pp === 1 ? 1 : 4 * Number(pp)) } = parsedBy(ROWS, rows, [
    'batch',
  ]);
  const passes = global / (ranks * micro);
  if (Number.isInteger(ranks) && !Number.isInteger(passes))
    throw new ConfigError(
      `batch.global (${global}) must be a multiple of dp x batch.micro (${ranks} x ${micro})`,
    );
  return {
    ...{ attention: 'flash', data: 'synthetic', ...place, ...flags, stack },
    model: seq === undefined ? model : withSequences(model, seq),
    ...(pp === 1 ? { batch: micro, accumulation: passes } : { batch: micro * passes }),
    mixedPrecision: {
      paramDtype: besideFp8(precision as Precision),
      reduceDtype: reduceDtype ?? usualReduceDtype(stack as Stack, precision as Precision),
    },
    ...(precision === 'fp8' && { fp8: true }),
    activationCheckpointing:
      recompute === 'full' && nth !== 1 ? { everyNth: nth } : recompute === 'none' ? null : recompute,
    ...(optimizer !== undefined && { optimizer }),
    parallel: {
      ...{ tp, pp, cp, ep, strategy, commHook, sequenceParallel: tp !== 1 && sequenceParallel },
      ...(cp !== 1 && { cpKind: 'ring' }),
      ...(dpShard !== undefined && {
        mesh: { dpShard, dpReplicate: (ranks * Number(cp)) / Number(dpShard) },
      }),
      ...((virtualStages ?? schedule) !== undefined && {
        virtualStages: stages,
        schedule: Number(stages) > 1 ? 'interleaved' : schedule === 'gpipe' ? schedule : '1f1b',
      }),
      ...(pp !== 1 && { microbatches: passes }),
    },
  };
}

const ROWS = z.strictObject({ micro: size.optional(), global: size.optional() });

function stackOf(model: unknown, strategy: unknown): string {
  const { shardedAtRest = ['gradient'] } = ownValue(STRATEGIES, String(strategy)) ?? {};
  if (!shardedAtRest.includes('gradient')) return 'megatron';
  const { kind = 'gpt', layers } =
    typeof model === 'string' ? modelOf(model, hubModelAt) : (Object(model) as Line);
  return kind === 'gpt' && layers !== undefined ? 'deepspeed' : 'fsdp2';
}

/** Names the facts of a published model that are left out; of channels by variant of the model, the first variant is planned. */
function factsOf(model: unknown): readonly string[] {
  const facts: Line = Object(model);
  const variants = Object.keys(Object(facts.in_channels)).slice(1);
  return [
    ...Object.keys(facts).filter((key) => names.facts.includes(key)),
    ...variants.map((variant) => `in_channels.${variant}`),
  ].map((key) => `model.${key}`);
}

/** Returns our key for another usual name or spelling of a line ('gpus_per_node'). */
export function ourKey(key: string): string {
  return ownValue<string>(names.keys, key) ?? camelCase(key);
}

/** Our values by other words, for each key whose values have other words; words without blanks, '-' and '_'. */
const VALUES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ...names.values,
  precision: {
    ...Object.fromEntries(
      Object.entries(SHORT_FLOATS).flatMap(([short, dtype]) =>
        Object.keys(FLOAT_WORDS)
          .filter((name) => FLOAT_WORDS[name] === dtype)
          .map((name) => [name, short]),
      ),
    ),
    ...{ fp8: 'fp8', float8: 'fp8' },
  },
  strategy: STRATEGY_WORDS,
  schedule: {
    ...Object.fromEntries(PIPELINE_SCHEDULES.map((name) => [name, name])),
    ...PIPELINE.schedule.words,
  },
};

/** Returns a value with our keys and values; facts of a published model that follow from its kind are left out. */
function renamed(value: unknown, key = ''): unknown {
  const words = ownValue<Readonly<Record<string, string>>>(VALUES, key);
  if (words !== undefined) return ownValue(words, spelled(String(value))) ?? value;
  if (Array.isArray(value) || typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, each]) => each != null && !(key === 'model' && names.facts.includes(name)))
      .map(([name, each]) => [
        ourKey(name),
        name === 'in_channels' ? (Object.values(Object(each))[0] ?? each) : renamed(each, ourKey(name)),
      ]),
  );
}
