import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import { Parameter } from '../../../src/nn/parameter';
import { ContextParallel } from '../../../src/sharding/context/context-parallel';
import { type RankArgs, runAsRank, type TestRank } from '../../support/rank-process';
import type { AttentionCase } from './attention-cases';
import { type AttentionResult, compareAttention } from './attention-rank';
import { peaksOf, type TrainingCase, type TrainingResult, trainBoth } from './training-rank';

/** The cases of one launch. */
export interface ContextArgs extends RankArgs {
  readonly attention: readonly AttentionCase[];
  readonly training: readonly TrainingCase[];
}

/** The results of one rank, in the order of the cases. */
export interface ContextResult {
  readonly attention: readonly AttentionResult[];
  readonly training: readonly TrainingResult[];
  readonly peaks: readonly ReturnType<typeof peaksOf>[];
  /** A gathered range of positions, the rank's own positions, and their gradient. */
  readonly gathered: Readonly<Record<'whole' | 'own' | 'grad', readonly number[]>>;
}

runAsRank<ContextArgs>(
  (rank): ContextResult => ({
    attention: rank.args.attention.map((one) => compareAttention(rank, one)),
    training: rank.args.training.map((one) => trainBoth(rank, one)),
    peaks: rank.args.training.map((one) => peaksOf(rank, one)),
    gathered: gatherOnce(rank),
  }),
);

/** Gathers a sequence in zigzag order; the loss of rank r is r + 1 times the sum of the position's index times its value. */
function gatherOnce({ engine, group }: TestRank<ContextArgs>): ContextResult['gathered'] {
  const context = new ContextParallel(group, { kind: 'ring' });
  const length = 4 * group.size;
  const positions = tf.range(0, length);
  const own = new Parameter(context.cut(positions, 0));
  let whole: number[] = [];
  gradients(engine, () => {
    const all = context.gather(own.tensor, 0);
    whole = [...all.dataSync()];
    return tf.sum(tf.mul(all, tf.mul(positions, group.rank + 1)));
  }).backward();
  return { whole, own: [...own.tensor.dataSync()], grad: [...(own.grad?.dataSync() ?? [])] };
}
