import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import type { CollectiveEvent, MemoryCause } from '../../src/core/events';
import { createTrainer } from '../../src/training/trainer';
import { onRanks } from '../support/on-ranks';
import type { RankArgs, TestRank } from '../support/rank-process';
import type { Peak } from '../support/tally-observer';
import { type NaiveName, naively } from './naive';

const CAUSES = [
  'param.shard',
  'param.full',
  'grad.shard',
  'grad.full',
  'optimizer',
  'batch',
  'comm',
] as const;
export type CountedCause = (typeof CAUSES)[number];

/** Measurements of one rank in one training step. */
export interface ContractResult {
  readonly rank: number;
  readonly numParams: number;
  /** Bytes between steps, by cause, on the device and on the host. */
  readonly atRest: Readonly<Record<CountedCause, number>>;
  readonly onHost: Readonly<Record<CountedCause, number>>;
  readonly peaks: Readonly<Record<CountedCause, Peak>>;
  readonly collectives: readonly Pick<
    CollectiveEvent,
    'op' | 'cause' | 'module' | 'count' | 'wireBytes' | 'async'
  >[];
  /** The engine's own count of bytes, and the observer's. */
  readonly engineBytes: number;
  readonly observedBytes: number;
  /** Growth of the engine's bytes over the step after the measured one. */
  readonly growth: number;
  /** Bytes that are left after the trainer was disposed. */
  readonly left: number;
}

/** A config that is trained by its strategy or by a naive form. */
export interface PlacedCase {
  readonly config: TrainConfigInput;
  readonly naive?: NaiveName;
}

/** Measures training steps on ranks. */
export const observeContract = onRanks(__filename, observe);

/** Trains a step, which allocates the states, measures the second, and trains one more. */
function observe(rank: TestRank<RankArgs>, { config, naive }: PlacedCase): ContractResult {
  const { engine, tally } = rank;
  const held = (): number => engine.memory.bytes + engine.host.bytes;
  const before = held();
  const trainer = createTrainer({ ...rank, config: parseTrainConfig(config), parallelize: naively(naive) });
  trainer.step();
  tally.restart();
  trainer.step();
  const result = {
    rank: rank.group.rank,
    numParams: trainer.model.numParams(),
    atRest: byCause((cause) => tally.bytes(cause)),
    onHost: byCause((cause) => tally.hostBytes(cause)),
    peaks: byCause((cause) => tally.peak(cause)),
    collectives: tally.collectives.map(({ op, cause, module, count, wireBytes, async }) => {
      return { op, cause, module, count, wireBytes, async };
    }),
    engineBytes: engine.memory.bytes,
    observedBytes: tally.total,
  };
  const after = held();
  trainer.step();
  const growth = held() - after;
  trainer.dispose();
  return { ...result, growth, left: held() - before };
}

function byCause<T>(value: (cause: MemoryCause) => T): Record<CountedCause, T> {
  // Every cause gets its entry.
  return Object.fromEntries(CAUSES.map((cause) => [cause, value(cause)])) as Record<CountedCause, T>;
}
