import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import type { CollectiveEvent } from '../../../src/core/events';
import { readState } from '../../../src/nn/state-values';
import type { BatchSource } from '../../../src/training/data/batch';
import { syntheticBatches } from '../../../src/training/data/batches';
import { createTrainer, type Trainer } from '../../../src/training/trainer';
import { onRanks } from '../../support/on-ranks';
import type { RankArgs, TestRank } from '../../support/rank-process';

/** One training run of the precision suite. */
export interface PrecisionRun {
  readonly name: string;
  readonly config: TrainConfigInput;
  readonly steps: number;
  /** One process whose microbatches are the batches of `ranks` ranks; undefined: every rank computes its own. */
  readonly standsFor?: number;
}

/** A rank's elements of a parameter. */
export interface Part {
  readonly name: string;
  readonly start: number;
  readonly values: readonly number[];
  readonly grads: readonly number[];
}

/** The report of one rank on one run. */
export interface PrecisionResult {
  readonly losses: readonly number[];
  /** Whether each step's update was skipped. */
  readonly skipped: readonly boolean[];
  readonly parts: readonly Part[];
  /** Of the last step. */
  readonly collectives: readonly Pick<
    CollectiveEvent,
    'op' | 'cause' | 'module' | 'count' | 'wireDType' | 'wireBytes'
  >[];
  /** Bytes between steps. */
  readonly shardBytes: number;
  readonly residual: number;
  readonly left: number;
}

/** Trains models in given precisions on ranks. */
export const trainPrecisions = onRanks(__filename, train);

function train(rank: TestRank<RankArgs>, { config: input, steps, standsFor }: PrecisionRun): PrecisionResult {
  const { engine, tally } = rank;
  const before = engine.memory.bytes;
  const config = parseTrainConfig(input);
  const batches = standsFor === undefined ? {} : { batches: inTurn(standsFor, input) };
  const trainer = createTrainer({ ...rank, config, ...batches });
  const losses: number[] = [];
  const skipped: boolean[] = [];
  for (let step = 0; step < steps; step++) {
    tally.restart();
    const result = trainer.step();
    losses.push(result.loss);
    skipped.push(result.skipped);
  }
  const collectives = tally.collectives.map(({ op, cause, module, count, wireDType, wireBytes }) => {
    return { op, cause, module, count, wireDType, wireBytes };
  });
  const parts = partsOf(rank, trainer);
  const shardBytes = tally.bytes('param.shard');
  const residual = engine.memory.bytes - tally.total;
  trainer.dispose();
  return { losses, skipped, parts, collectives, shardBytes, residual, left: engine.memory.bytes - before };
}

function partsOf({ engine }: TestRank<RankArgs>, trainer: Trainer): Part[] {
  return trainer.model.states().flatMap((buffer) => {
    const values = readState(engine, buffer);
    const grads = readState(engine, buffer, 'grad');
    return buffer.slices.map(({ parameter, offset, length, start }) => ({
      name: parameter.name,
      start,
      values: [...values.subarray(offset, offset + length)],
      grads: [...grads.subarray(offset, offset + length)],
    }));
  });
}

/** Microbatch m of a step is what rank m takes in that step. */
function inTurn(ranks: number, { batch = 0, model }: TrainConfigInput): BatchSource {
  if (typeof model !== 'object' || !('kind' in model) || model.kind !== 'gpt')
    throw new Error('precision runs spell a gpt out');
  const { seq, vocab } = model;
  const source = syntheticBatches({ batch, seq, vocab });
  return {
    name: 'in turn',
    batch: (_rank, index) => source.batch(index % ranks, Math.floor(index / ranks)),
  };
}
