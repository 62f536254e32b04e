import { type RankArgs, runAsRank } from '../../support/rank-process';
import type { AttentionCase } from './attention-cases';
import { type AttentionResult, compareAttention } from './attention-rank';
import { type TrainingCase, type TrainingResult, trainBoth } from './training-rank';

/** The cases of one launch. */
export interface ContextArgs extends RankArgs {
  readonly attention: readonly AttentionCase[];
  readonly training: readonly TrainingCase[];
}

/** The results of one rank, in the order of the cases. */
export interface ContextResult {
  readonly attention: readonly AttentionResult[];
  readonly training: readonly TrainingResult[];
}

void runAsRank<ContextArgs>(
  (rank): ContextResult => ({
    attention: rank.args.attention.map((one) => compareAttention(rank, one)),
    training: rank.args.training.map((one) => trainBoth(rank, one)),
  }),
);
