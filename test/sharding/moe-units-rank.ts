import { parseTrainConfig } from '../../src/config/train-config';
import { tensorsIn } from '../../src/core/tensor-tree';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import { moe } from '../../src/nn/models/gpt';
import { readState } from '../../src/nn/state-values';
import { DDP } from '../../src/sharding/ddp/distributed-data-parallel';
import { AdamW } from '../../src/sharding/optim/adamw';
import { parallelize } from '../../src/sharding/parallelize';
import { moeAutoWrapPolicy, rootOnly } from '../../src/sharding/wrap-policy';
import { onRanks } from '../support/on-ranks';
import type { RankArgs, TestRank } from '../support/rank-process';
import { fullyShardByPolicy } from './fsdp/shard-by-policy';

/** The sharding of the model. */
type MoeUnitsCase = 'DDP' | 'FULL_SHARD' | 'SHARD_GRAD_OP' | 'NO_SHARD' | 'Wan';

const STEPS = 6;

/** Results of one rank in one case. */
export interface MoeUnitsResult {
  readonly losses: readonly number[];
  /** Squared norm of this rank's share of all parameters at the end. */
  readonly squares: number;
  /** Rows that each expert of the first block got in the first step. */
  readonly routed: readonly number[];
}

/** As in the document: experts stay whole until backward, gates are whole on every rank. */
const WAN = parseTrainConfig({
  parallel: {
    wrap: 'moe',
    strategy: 'FULL_SHARD',
    unitStrategies: [
      { modules: 'blocks.*.moe.experts.*', strategy: 'SHARD_GRAD_OP' },
      { modules: 'blocks.*.moe.gate', strategy: 'NO_SHARD' },
    ],
  },
});

/** Trains a model with experts as units, on ranks. */
export const trainMoeUnits = onRanks(__filename, train);

function train(rank: TestRank<RankArgs>, name: MoeUnitsCase): MoeUnitsResult {
  const { engine, group } = rank;
  const model = moe({ layers: 2, dim: 8, heads: 2, vocab: 16, seq: 4, experts: 5, seed: 3 });
  const losses: number[] = [];
  const routed = new Array<number>(5).fill(0);
  [...(model.blocks.at(0)?.moe.experts ?? [])].forEach((expert, i) => {
    expert.wrap((inputs, next) => {
      const [rows] = tensorsIn(inputs);
      if (losses.length === 0) routed[i] = rows?.shape[0] ?? 0;
      return next(...inputs);
    });
  });
  if (name === 'DDP') {
    new DDP(model, rank, { policy: rootOnly });
  } else if (name === 'Wan') {
    parallelize(model, WAN, rank);
  } else {
    // FSDP() itself updates an expert that no rank used with zeros, and DDP does not update it.
    fullyShardByPolicy(model, moeAutoWrapPolicy, rank, { strategy: name });
  }
  const optimizer = new AdamW(engine, model, { lr: 1e-2 });
  for (let step = 0; step < STEPS; step++) {
    optimizer.zeroGrad();
    // Few tokens: some experts get none on some ranks.
    const ids = tf.tensor2d(
      [1, 2, 3, 4].map((i) => (i * (group.rank + 1) + step) % 16),
      [1, 4],
      'int32',
    );
    const targets = tf.tensor1d(
      [2, 3, 4, 5].map((i) => (i * (group.rank + 1) + step) % 16),
      'int32',
    );
    const pass = gradients(engine, () => model.apply(ids, targets));
    pass.backward();
    optimizer.step();
    losses.push(pass.loss.dataSync()[0] ?? Number.NaN);
    tf.dispose([ids, targets, pass.loss]);
  }
  let squares = 0;
  for (const state of model.states()) {
    const share = state.shardGroup === null ? group.size : 1;
    for (const value of readState(engine, state)) squares += value ** 2 / share;
  }
  optimizer.dispose();
  return { losses, squares, routed };
}
