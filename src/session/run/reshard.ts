import { inspect } from 'node:util';
import {
  type ExpertPlacement,
  knownKeys,
  nearest,
  parseTrainConfig,
  placeText,
  refuseNull,
  requireKind,
  STRATEGIES,
  strategyNamed,
  type TrainConfigInput,
  wholeFrom,
} from '../../config';
import {
  type Bytes,
  ConfigError,
  DISPLAY,
  type DisplayBundle,
  formatBytes,
  formatSeconds,
  isWhole,
  type Seconds,
  type Shown,
  shortened,
  shown,
  withShown,
} from '../../core';
import { createTable } from '../../figures';
import { type MeasuredLoads, placementByUse } from '../../sharding';
import type { Redistributed, StepResult } from '../../training';
import type { RunPlace } from './history';

type ParallelInput = NonNullable<TrainConfigInput['parallel']>;

/** The settings that `run.reshard` can change: any setting of `parallel`, the precision, and the number of ranks. */
export interface ReshardChange
  extends Omit<ParallelInput, 'expertPlacement'>,
    Pick<TrainConfigInput, 'mixedPrecision'> {
  /**
   * 'by-use' places experts according to their loads in the last 10 steps; all other values have the same meaning as in
   * the setting `parallel.expertPlacement`.
   */
  readonly expertPlacement?: ParallelInput['expertPlacement'] | typeof BY_USE;
  /** With 'by-use': the number of additional copies of much used experts, per layer and ep group. Default 0. */
  readonly redundantExperts?: number;
  /**
   * The run continues on the job's first `world` ranks. `batch` is per rank, so more ranks process more sequences per
   * step.
   */
  readonly world?: number;
}

/** Proof that a resharded run holds the same values. Shown in a notebook as one line over a table of the ranks. */
export interface ReshardReport extends Shown {
  /** Number of parameters and optimizer states that are equal to their old values, bit by bit. */
  readonly numTensors: number;
  /** Number of 8-bit optimizer states that were encoded again, because their blocks have new borders. */
  readonly numCoded: number;
  /** Bytes of all compared values; an element counts once, although every replica was compared, bit by bit. */
  readonly bytes: Bytes;
  /** Compared bytes, summed over ranks; every replica counts. */
  readonly comparedBytes: Bytes;
  /** Bytes that moved between ranks. */
  readonly movedBytes: Bytes;
  readonly seconds: Seconds;
}

const BY_USE = 'by-use';

/** Number of steps whose loads decide where experts are placed; routers change in training, so older steps say little. */
const NUM_MEASURED = 10;

/**
 * Settings that belong to one strategy: a change to another strategy resets them to their defaults unless the change
 * names them.
 */
const BOUND = ['reshardAfterForward', 'noSync'] as const;

/**
 * Returns the config and world after a change. Some settings return to their defaults unless the change names them. A
 * new strategy resets reshardAfterForward and noSync. A new world, or a strategy that is not hybrid, resets mesh. A new `ep`
 * resets expertPlacement. `loads` returns measured loads. Throws: CONFIG for an unknown or wrong setting, and for an
 * empty change.
 */
export function planReshard(
  from: RunPlace,
  change: ReshardChange,
  numRanks: number,
  loads: () => MeasuredLoads = () => ({}),
): RunPlace {
  checkKeys(change);
  refuseNull('reshard', change, (name) => name === 'world' || name === 'redundantExperts');
  const {
    world = from.world,
    mixedPrecision = from.config.mixedPrecision,
    redundantExperts,
    expertPlacement,
    ...parallel
  } = change;
  checkWorld('reshard', world, numRanks);
  requireNoCopy(from.config);
  const before = from.config.parallel.strategy;
  const strategy = strategyNamed(parallel.strategy ?? before);
  const isOther = strategy !== before;
  const kept: Record<string, unknown> = { ...from.config.parallel };
  if (isOther) for (const key of BOUND) delete kept[key];
  // A strategy with an unknown name has no properties; the parser reports the name.
  const isHybrid = strategy !== undefined && STRATEGIES[strategy].isHybrid;
  if (!isHybrid || world !== from.world) delete kept.mesh;
  const { ep = from.config.parallel.ep } = parallel;
  if (ep !== from.config.parallel.ep) delete kept.expertPlacement;
  if (redundantExperts !== undefined)
    requireKind('reshard', 'redundantExperts', redundantExperts, wholeFrom(0));
  if (expertPlacement !== BY_USE && redundantExperts !== undefined)
    throw new ConfigError(
      `reshard: redundantExperts ${redundantExperts} needs expertPlacement: '${BY_USE}', which chooses the experts that are copied`,
    );
  const placed = expertPlacement === BY_USE ? placedByUse(loads(), ep, redundantExperts) : expertPlacement;
  const config = parseTrainConfig({
    ...from.config,
    mixedPrecision,
    parallel: { ...kept, ...parallel, ...(placed === undefined ? {} : { expertPlacement: placed }) },
  });
  return { config, world };
}

/** Throws: CONFIG if a run has a second copy of its first weights (DPO without adapters), because only parameters move. */
function requireNoCopy({ dpo, lora }: RunPlace['config']): void {
  if (dpo === null || lora !== null) return;
  throw new ConfigError(
    'reshard moves parameters and optimizer states, but not the reference model of dpo; await run.save(folder), then ' +
      'job.train({ … }) with the new strategy, and run.load(folder). With lora there is no second model, and reshard works',
  );
}

function placedByUse(
  loads: MeasuredLoads,
  ep: number,
  redundantExperts: number | undefined,
): ExpertPlacement {
  if (!isWhole(ep, 1))
    throw new ConfigError(`reshard: ep is ${shown(ep)}, but must be a whole number of at least 1`);
  if (ep === 1)
    throw new ConfigError(
      `reshard: expertPlacement '${BY_USE}' needs ranks that share the experts, but parallel.ep is 1; give ep too: run.reshard({ ep: 2, expertPlacement: '${BY_USE}' })`,
    );
  if (Object.keys(loads).length === 0)
    throw new ConfigError(
      `reshard: expertPlacement '${BY_USE}' needs measured loads, and this run has none yet: await run.step() first, with a model that has experts within its layers`,
    );
  return placementByUse(loads, ep, { redundantExperts });
}

/**
 * Returns a change in the form of a config, for warnings. The placement of experts is left out, because no
 * warning is about it.
 */
export function changedSettings(change: ReshardChange): TrainConfigInput {
  const { world: _, redundantExperts: __, expertPlacement: ___, mixedPrecision = null, ...parallel } = change;
  return { mixedPrecision, parallel };
}

/** Returns, by layer, the number of rows that each expert computed in the last steps. */
export function measuredLoads(results: readonly StepResult[]): MeasuredLoads {
  const sums: Record<string, readonly number[]> = {};
  for (const { experts = {} } of results.slice(-NUM_MEASURED)) {
    for (const [layer, { tokens }] of Object.entries(experts))
      sums[layer] = tokens.map((rows, expert) => rows + (sums[layer]?.[expert] ?? 0));
  }
  return sums;
}

function checkKeys(change: ReshardChange): void {
  const known = [...knownKeys('parallel'), 'mixedPrecision', 'world', 'redundantExperts'];
  const keys = typeof change === 'object' && change !== null ? Object.keys(change) : [];
  if (keys.length === 0) {
    throw new ConfigError(
      `reshard takes the settings that change, as run.reshard({ strategy: 'SHARD_GRAD_OP' }), not ${shown(change)}`,
    );
  }
  for (const key of keys) {
    if (known.includes(key)) continue;
    const near = nearest(key, known);
    const hint = near === undefined ? `it has ${known.join(', ')}` : `did you mean '${near}'?`;
    throw new ConfigError(`reshard has no setting '${shortened(key)}'; ${hint}`, { key });
  }
}

/** Checks a number of ranks. Throws: CONFIG unless `world` is an integer from 1 to `numRanks`. */
export function checkWorld(what: 'train' | 'reshard', world: unknown, numRanks: number): void {
  if (isWhole(world, 1) && world <= numRanks) return;
  const name = what === 'train' ? 'ranks' : 'world';
  throw new ConfigError(
    `${what}: ${name} is ${shown(world)}, but this job has ${numRanks} ranks; give a whole number from 1 to ${numRanks}, ` +
      'or launch a job with more ranks',
    { [name]: world, numRanks },
  );
}

/** Combines the ranks' results into one report. */
export function createReshardReport(
  from: RunPlace,
  to: RunPlace,
  ranks: readonly Redistributed[],
  seconds: Seconds,
): ReshardReport {
  const sum = (key: 'comparedBytes' | 'receivedBytes'): Bytes =>
    ranks.reduce((total, rank) => total + rank[key], 0);
  const { numTensors = 0, numCoded = 0, bytes = 0 } = ranks[0] ?? {};
  const movedBytes = sum('receivedBytes');
  const text =
    `${placeText(from)} → ${placeText(to)}: ${numTensors} tensors, ${formatBytes(bytes)}, all bit-equal; ` +
    `${numCoded === 0 ? '' : `${numCoded} 8-bit states encoded again; `}` +
    `${formatBytes(movedBytes)} moved between ranks in ${formatSeconds(seconds)}`;
  const rows = ranks.map(({ receivedBytes, comparedBytes }, rank) => ({
    rank,
    receivedBytes,
    comparedBytes,
  }));
  const format = (value: unknown): string => formatBytes(Number(value));
  const table = createTable(rows, {
    title: text,
    columns: [
      { key: 'rank' },
      { key: 'receivedBytes', title: 'received', align: 'right', format },
      { key: 'comparedBytes', title: 'compared', align: 'right', format },
    ],
  });
  const facts = { numTensors, numCoded, bytes, comparedBytes: sum('comparedBytes'), movedBytes, seconds };
  return withShown(facts, {
    toString: () => text,
    [DISPLAY]: (): DisplayBundle => table[DISPLAY](),
    [inspect.custom]: () => text,
  } as Shown);
}
