import { type ReductionErrorOptions, reductionError } from '../../../src/sharding/precision/reduction-error';
import { type RankArgs, runAsRank } from '../../support/rank-process';

interface ReductionArgs extends RankArgs {
  readonly options: ReductionErrorOptions;
}

runAsRank<ReductionArgs>(({ engine, group, args }) => reductionError(engine, group, args.options));
