import { seeded } from '../../../src/core/random';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import { GPT, gpt } from '../../../src/nn/models/gpt';
import { type Llama, llama } from '../../../src/nn/models/llama';
import { applyContextParallel } from '../../../src/sharding/context/apply-context-parallel';
import { ContextParallel, type ContextParallelOptions } from '../../../src/sharding/context/context-parallel';
import { DDP } from '../../../src/sharding/ddp/distributed-data-parallel';
import { fullyShard } from '../../../src/sharding/fsdp/fully-shard';
import { naiveContextParallel } from '../../../src/sharding/naive/context-parallel';
import { AdamW } from '../../../src/sharding/optim/adamw';
import { checkpointed } from '../../../src/sharding/recompute/checkpointed';
import { parallelizeTensors } from '../../../src/sharding/tensor/parallelize-tensors';
import { initializeModelParallel } from '../../../src/wire/dist/model-parallel';
import { HAS_ALL_CASES } from '../../support/cases';
import { relativeDistance, valuesOf } from '../../support/close';
import type { TestRank } from '../../support/rank-process';

/** A training under context parallelism. */
export interface TrainingCase extends ContextParallelOptions {
  readonly model: 'gpt' | 'llama';
  readonly strategy: 'DDP' | 'fullyShard';
  /** Ranks per sequence; the other ranks have other sequences. */
  readonly cp: number;
  /** Ranks that have parts of the same matrices. Default 1. */
  readonly tp?: number;
  readonly isRecomputed?: boolean;
  /** By the naive form, of a GPT. */
  readonly isNaive?: boolean;
}

/** Losses of all steps, and parameters by name after the last one. */
export interface Trained {
  readonly losses: readonly number[];
  readonly parameters: Readonly<Record<string, readonly number[]>>;
}

/** The results of a rank. */
export interface TrainingResult extends Trained {
  /** The training in one process on the sequences of all ranks; only on rank 0. */
  readonly alone: Trained | null;
  /** The relative distance of the gathered logits of a model that has not trained from those of one process. */
  readonly logits: number;
  readonly leftBytes: number;
}

/** The second step's loss depends on the first one's update. */
export const STEPS = HAS_ALL_CASES ? 3 : 2;
const [VOCAB, SEQ, ROWS] = [29, 24, 2];

/** Trains over the ranks and, on rank 0, alone. */
export function trainBoth(rank: TestRank<unknown>, one: TrainingCase): TrainingResult {
  const { engine, group } = rank;
  const before = engine.memory.bytes;
  const { model, parallel, context } = placed(rank, one);
  const logits = compareLogits(model, build(one.model), context);
  const { dp } = parallel;
  const trained = train(rank, model, (step) => batchOf(step, dp.rank, 1));
  const alone = group.rank === 0 ? train(rank, build(one.model), (step) => batchOf(step, 0, dp.size)) : null;
  return { ...trained, alone, logits, leftBytes: engine.memory.bytes - before };
}

const CAUSES = [
  'activation',
  'temp',
  'comm',
  'grad.full',
  'grad.shard',
  'param.full',
  'param.shard',
] as const;

/** Returns the peak bytes of a training step by cause; it reads no values, so it also runs on the meta engine. */
export function peaksOf(rank: TestRank<unknown>, one: TrainingCase): Record<string, number> {
  const { engine, tally } = rank;
  const { model, parallel } = placed(rank, one);
  const { ids, targets } = batchOf(0, parallel.dp.rank, 1);
  tally.restart();
  const pass = gradients(engine, () => model.apply(ids, targets));
  pass.backward();
  tf.dispose([ids, targets, pass.loss]);
  const peaks = Object.fromEntries(CAUSES.map((cause) => [cause, tally.peak(cause).bytes]));
  for (const buffer of model.states()) buffer.dispose();
  model.dispose();
  return peaks;
}

function placed(rank: TestRank<unknown>, one: TrainingCase) {
  const { kind, order, ulyssesDegree, cp, tp = 1 } = one;
  const sizes = { contextParallelSize: cp, tensorModelParallelSize: tp };
  const parallel = initializeModelParallel(rank.group, sizes);
  const model = build(one.model);
  const ofTensors = { group: parallel.tp, warn: () => undefined };
  if (tp > 1) parallelizeTensors(model, ofTensors, { sequenceParallel: true });
  const isNaive = one.isNaive === true && model instanceof GPT;
  if (isNaive) naiveContextParallel(model, parallel.cp);
  const context = isNaive
    ? new ContextParallel(parallel.cp, { kind: 'ring', order: 'contiguous' })
    : applyContextParallel(model, parallel.cp, { kind, order, ulyssesDegree });
  if (one.isRecomputed === true) for (const block of model.blocks) checkpointed(rank, block);
  const mesh = parallel.mesh.slice('dp', 'cp');
  const shards = { ...rank, group: mesh.group, mesh };
  if (one.strategy === 'DDP') new DDP(model, shards);
  else {
    for (const block of model.blocks) fullyShard(block, shards);
    fullyShard(model, shards);
  }
  return { model, parallel, context };
}

function build(name: TrainingCase['model']): GPT | Llama {
  const shape = { layers: 2, dim: 24, heads: 12, vocab: VOCAB, seq: SEQ, seed: 4 } as const;
  return name === 'gpt' ? gpt(shape) : llama({ ...shape, heads: 12, kvHeads: 2, ffn: 20, qkvBias: true });
}

function compareLogits(model: GPT | Llama, plain: GPT | Llama, sequences: ContextParallel): number {
  const distance = tf.tidy(() => {
    const { ids } = batchOf(0, 0, 1);
    const found = sequences.gather(model.apply(ids));
    return relativeDistance(valuesOf(found), valuesOf(plain.apply(ids)));
  });
  plain.dispose();
  return distance;
}

interface Batch {
  readonly ids: tf.Tensor;
  readonly targets: tf.Tensor;
}

function train({ engine }: TestRank<unknown>, model: GPT | Llama, batch: (step: number) => Batch): Trained {
  const optimizer = new AdamW(engine, model, { lr: 1e-2, eps: 1e-4 });
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    optimizer.zeroGrad();
    const { ids, targets } = batch(step);
    const pass = gradients(engine, () => model.apply(ids, targets));
    losses.push(pass.loss.dataSync()[0] ?? Number.NaN);
    pass.backward();
    optimizer.step();
    tf.dispose([ids, targets, pass.loss]);
  }
  const dict = model.stateDict();
  const parameters = Object.fromEntries([...dict].map(([name, value]) => [name, [...valuesOf(value)]]));
  tf.dispose([...dict.values()]);
  optimizer.dispose();
  for (const buffer of model.states()) buffer.dispose();
  model.dispose();
  return { losses, parameters };
}

/** The sequences of `count` data-parallel ranks from `first` on. */
function batchOf(step: number, first: number, count: number): Batch {
  const random = seeded(5, 'context', step);
  const all = Array.from({ length: (first + count) * ROWS * (SEQ + 1) }, () =>
    Math.floor(random.uniform() * VOCAB),
  );
  const rows = Array.from({ length: count * ROWS }, (_, row) => {
    const start = (first * ROWS + row) * (SEQ + 1);
    return all.slice(start, start + SEQ + 1);
  });
  return {
    ids: tf.tensor2d(
      rows.map((row) => row.slice(0, -1)),
      [count * ROWS, SEQ],
      'int32',
    ),
    targets: tf.tensor1d(
      rows.flatMap((row) => row.slice(1)),
      'int32',
    ),
  };
}
