import type { CellError } from '../cell/cell-error';
import { ShardlabError } from '../core/errors';
import type { RankError } from './messages';

/** An error of a rank's code as data: shardlab's own keep their code, others are RANK_FAILED. */
export function rankError(thrown: unknown, described: CellError = describe(thrown)): RankError {
  if (!(thrown instanceof ShardlabError)) return { ...described, code: 'RANK_FAILED' };
  return { ...described, code: thrown.code, details: thrown.details };
}

function describe(thrown: unknown): CellError {
  if (!(thrown instanceof Error))
    return { ename: 'Thrown', evalue: String(thrown), traceback: [String(thrown)] };
  const { name: ename, message: evalue, stack } = thrown;
  return { ename, evalue, traceback: (stack ?? `${ename}: ${evalue}`).split('\n') };
}
