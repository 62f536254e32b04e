import { inspect } from 'node:util';
import type { Redistributed } from '../../checkpoint/reshard/redistribute';
import { nearest } from '../../config/nearest';
import { placeText } from '../../config/place-text';
import { STRATEGIES, strategyNamed } from '../../config/strategies';
import { knownKeys, parseTrainConfig, type TrainConfigInput } from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import { type Bytes, formatBytes, formatSeconds, type Seconds } from '../../core/units';
import { type Shown, withShown } from '../../figures/shown';
import { createTable, DISPLAY, type DisplayBundle } from '../../figures/table';
import type { RunPlace } from './history';

type ParallelInput = NonNullable<TrainConfigInput['parallel']>;

/** The settings that `run.reshard` can change: any setting of `parallel`, the precision, and the number of ranks. */
export interface ReshardChange extends ParallelInput, Pick<TrainConfigInput, 'mixedPrecision'> {
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
  /** Bytes of all values, each element counted once; every replica and shard was compared, bit by bit. */
  readonly bytes: Bytes;
  /** Compared bytes, summed over ranks; every replica counts. */
  readonly comparedBytes: Bytes;
  /** Bytes that moved between ranks. */
  readonly movedBytes: Bytes;
  readonly seconds: Seconds;
}

/**
 * Settings that belong to one strategy or world: a change of strategy or world resets them to their defaults unless the
 * change names them.
 */
const BOUND = ['reshardAfterForward', 'noSync'] as const;

/**
 * Returns the config and world after a change. With another strategy, settings of the old one (mesh, reshardAfterForward,
 * noSync) return to their defaults unless the change names them. Throws: CONFIG for an unknown or wrong setting, and
 * for an empty change.
 */
export function planReshard(from: RunPlace, change: ReshardChange, numRanks: number): RunPlace {
  checkKeys(change);
  const { world = from.world, mixedPrecision = from.config.mixedPrecision, ...parallel } = change;
  checkWorld('reshard', world, numRanks);
  const before = from.config.parallel.strategy;
  const strategy = strategyNamed(parallel.strategy ?? before);
  const isOther = strategy !== before;
  const kept: Record<string, unknown> = { ...from.config.parallel };
  if (isOther) for (const key of BOUND) delete kept[key];
  // An unknown strategy has no properties; the parser reports it.
  const isHybrid = strategy !== undefined && STRATEGIES[strategy].isHybrid;
  if (!isHybrid || world !== from.world) delete kept.mesh;
  const config = parseTrainConfig({
    ...from.config,
    mixedPrecision,
    parallel: { ...kept, ...parallel },
  });
  return { config, world };
}

function checkKeys(change: ReshardChange): void {
  const known = [...knownKeys('parallel'), 'mixedPrecision', 'world'];
  const keys = typeof change === 'object' && change !== null ? Object.keys(change) : [];
  if (keys.length === 0) {
    throw new ConfigError(
      "reshard takes the settings that change, as run.reshard({ strategy: 'SHARD_GRAD_OP' })",
    );
  }
  for (const key of keys) {
    if (known.includes(key)) continue;
    const near = nearest(key, known);
    const hint = near === undefined ? `it has ${known.join(', ')}` : `did you mean '${near}'?`;
    throw new ConfigError(`reshard has no setting '${key}'; ${hint}`, { key });
  }
}

/** Checks a number of ranks. Throws: CONFIG unless `world` is an integer from 1 to `numRanks`. */
export function checkWorld(what: 'train' | 'reshard', world: unknown, numRanks: number): void {
  if (typeof world === 'number' && Number.isInteger(world) && world >= 1 && world <= numRanks) return;
  const name = what === 'train' ? 'ranks' : 'world';
  throw new ConfigError(
    `${what}: ${name} is ${String(world)}, but this job has ${numRanks} ranks; give a whole number from 1 to ${numRanks}, ` +
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
