import { currentEngine } from '../../backend/current-engine';
import type { Engine } from '../../backend/engine';
import { readValues } from '../../backend/meta-backend';
import { withGradients } from '../../core/custom-gradient';
import { ShardlabError } from '../../core/errors';
import * as tf from '../../core/tf';
import type { PieceList, ProcessGroup } from '../../dist/types';
import type { ExpertExchange } from '../../nn/moe/mixture-of-experts';
import { scaleElements } from '../../nn/spans';
import { exchangeOptions } from '../exchange-options';

/*
 * [Note: rows of experts] A rank orders the rows that its router chose by expert, so the rows for one rank's experts are
 * consecutive. An all-to-all of E numbers tells every rank how many rows it gets. Then the rows travel (dispatch), each rank applies its
 * experts, and the outputs travel back (combine); backward sends the gradients along the same ways. So 4 all-to-alls send only rows
 * that were routed to another rank. Received rows are written in the order of experts, then of ranks; no permutation is needed.
 *
 * [Note: gradients of experts] A rank's loss is the mean over its own tokens, and the model's is the mean over all ranks. Other parameters'
 * gradients are averaged over all ranks. An expert has the sum of the gradients of all ranks' tokens already, over the `ep` ranks, and is
 * averaged over the ranks with the same expert only. So gradients are divided by the number of `ep` ranks where they enter the
 * experts, and multiplied by it where they leave them. Source: Megatron scales these gradients in its buffers.
 */

/** Where rows are in a tensor that is ordered by expert: one list per rank. */
type RowsByRank = readonly (readonly RowRange[])[];

interface RowRange {
  readonly begin: number;
  readonly length: number;
}

/** The rows that ranks exchange, as this rank has them before and after. */
interface Route {
  readonly group: ProcessGroup;
  readonly module: string;
  readonly sent: RowsByRank;
  readonly received: RowsByRank;
}

/** Returns the exchange of a layer whose experts are divided over a group: rank r has the r-th of equal consecutive parts. */
export function expertExchange(group: ProcessGroup): ExpertExchange {
  return (rows_AD, counts, apply, module) => {
    const own = counts.length / group.size;
    const byRank = group.ranks.map((_, rank) => counts.slice(rank * own, (rank + 1) * own));
    const arriving = exchangedCounts(byRank, group, module);
    const sent = consecutive(byRank.map((each) => [total(each)]));
    const received = byExpert(arriving);
    const there = { group, module, sent, received };
    const back = { group, module, sent: received, received: sent };
    const local = exchanged(rows_AD, there, { ...back, scale: group.size });
    const totals = Array.from({ length: own }, (_, expert) =>
      total(arriving.map((each) => each[expert] ?? 0)),
    );
    return exchanged(apply(local, totals), back, { ...there, scale: 1 / group.size });
  };
}

/** Sends row `rank` of the counts to each rank; returns the counts for this rank's experts by rank. */
function exchangedCounts(
  byRank: readonly (readonly number[])[],
  group: ProcessGroup,
  module: string,
): number[][] {
  const own = byRank[0]?.length ?? 0;
  const sent = tf.tensor2d(byRank.flat(), [group.size, own], 'int32');
  const received = group.allToAll(sent, { cause: 'control', module }).wait();
  // A dry run assumes that all ranks send the same.
  const values = readValues(received, () =>
    Int32Array.from(group.ranks.flatMap(() => byRank[group.rank] ?? [])),
  );
  const counts = group.ranks.map((_, rank) => [...values.slice(rank * own, (rank + 1) * own)]);
  tf.dispose([sent, received]);
  return counts;
}

/** Sends rows; backward sends their gradients back and multiplies them by `scale`. Shapes: [rows sent, d] → [rows received, d]. */
function exchanged(x: tf.Tensor, there: Route, back: Route & { readonly scale: number }): tf.Tensor {
  return withGradients([x], () => ({
    value: travelled(x, there),
    gradients: (dy) => {
      const dx = travelled(dy, back);
      if (dx.size > 0) scaleElements(requireEngine(), { tensor: dx, offset: 0 }, back.scale, dx.size);
      return [dx];
    },
  }));
}

function travelled(x: tf.Tensor, { group, module, sent, received }: Route): tf.Tensor {
  const engine = requireEngine();
  const dim = x.shape[1] ?? 1;
  const rows = total(received.flat().map(({ length }) => length));
  const y = engine.allocate([rows, dim], 'float32', engine.currentTag);
  const piecesOf = (tensor: tf.Tensor, ranges: readonly RowRange[]): PieceList =>
    ranges
      .filter(({ length }) => length > 0)
      .map(({ begin, length }) => ({ tensor, offset: begin * dim, length: length * dim }));
  group
    .allToAllPieces(
      sent.map((ranges) => piecesOf(x, ranges)),
      received.map((ranges) => piecesOf(y, ranges)),
      exchangeOptions(module),
    )
    .wait();
  return y;
}

/** Returns ranges that follow one another, of lengths by rank. */
function consecutive(lengths: readonly (readonly number[])[]): RowsByRank {
  let end = 0;
  return lengths.map((each) =>
    each.map((length) => {
      end += length;
      return { begin: end - length, length };
    }),
  );
}

/** Returns ranges in the order of experts, then of ranks; `counts` are by rank, then by expert. */
function byExpert(counts: readonly (readonly number[])[]): RowsByRank {
  const experts = counts[0]?.length ?? 0;
  const ordered = Array.from({ length: experts }, (_, expert) => counts.map((each) => each[expert] ?? 0));
  const ranges = consecutive(ordered);
  return counts.map((_, rank) => ranges.flatMap((ofExpert) => ofExpert[rank] ?? []));
}

function total(lengths: readonly number[]): number {
  return lengths.reduce((sum, length) => sum + length, 0);
}

function requireEngine(): Engine {
  const engine = currentEngine();
  if (engine !== null) return engine;
  throw new ShardlabError('ENGINE', 'expert parallelism runs in a rank; launch a job and use a %%ranks cell');
}
