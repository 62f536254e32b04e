import { copiesPerRank, type LayerPlacement } from '../../config';
import { total, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { awaitGradient, readValues } from '../../engine';
import { type ExpertExchange, scaleElements } from '../../nn';
import type { PieceList, ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';
import { requireEngine } from './require-engine';

/*
 * [Note: rows of experts] The router of a rank chooses an expert for each row, and the rank sorts its rows by expert. An
 * all-to-all of E numbers reports to every rank how many rows it gets. Then the rows travel (dispatch), each rank applies its
 * experts, and the outputs travel back (combine); backward sends the gradients along the same ways in the opposite direction. So
 * 4 all-to-alls send only rows that were routed to another rank. A rank may have any experts, in slots: first the experts whose
 * values it has, then copies. Rows are read in place and written in the order of slots, then of ranks; no permutation is needed.
 *
 * [Note: rows of copies] Each rank divides its rows of an expert equally over the ranks with the expert, in ranges; which of
 * these ranks get the remainder depends on the sender. Each rank gets all E numbers of all ranks, so that every rank knows
 * whether an expert has any rows.
 *
 * [Note: gradients of experts] A rank's loss is the mean over its own tokens, and the model's loss is the mean over all ranks.
 * Other parameters' gradients are averaged over all ranks. An expert's gradient is already the sum over the tokens of all `ep`
 * ranks, and is averaged only over the ranks with the same expert. So gradients are divided by the number of `ep` ranks when
 * they enter the experts, and multiplied by this number when they leave the experts. Source: Megatron-LM, which scales these
 * gradients in its gradient buffers. A rank whose own experts are frozen takes part in backward's combine if another rank's
 * experts train, even if its rows need no gradient.
 */

/** For each rank, the ranges of its rows in a tensor that is ordered by expert. */
type RowsByRank = readonly (readonly RowRange[])[];

interface RowRange {
  readonly begin: number;
  readonly length: number;
}

/** The ranges of rows that this rank sends to each rank, and of rows that it receives from each rank. */
interface Route {
  readonly group: ProcessGroup;
  readonly module: string;
  readonly sent: RowsByRank;
  readonly received: RowsByRank;
}

/**
 * Returns the exchange of a layer whose experts are placed over the ranks of a group. `trains`: whether an expert of the layer
 * trains, on any rank.
 */
export function expertExchange(
  group: ProcessGroup,
  placement: LayerPlacement,
  trains: () => boolean,
): ExpertExchange {
  const slots = placement.experts.map((own, rank) => [...own, ...(placement.copies[rank] ?? [])]);
  const owners = ownersOf(slots);
  const mine = slots[group.rank] ?? [];
  const hasCopies = copiesPerRank(placement) > 0;
  const sharesOf = (counts: readonly number[], from: number, to: number): RowRange[] =>
    (slots[to] ?? []).map((expert) =>
      shareOf(owners[expert] ?? [], { count: counts[expert] ?? 0, from, to }),
    );
  return (rows_AD, counts, apply, module) => {
    const shares = slots.map((_, to) => sharesOf(counts, group.rank, to));
    const starts = consecutive(counts.map((count) => [count])).flat();
    const sent = shares.map((ranges, to) =>
      ranges.map(({ begin, length }, slot) => {
        const start = starts[slots[to]?.[slot] ?? 0]?.begin ?? 0;
        return { begin: start + begin, length };
      }),
    );
    const known = exchangedCounts(hasCopies ? slots.map(() => counts) : shares.map(lengthsOf), group, module);
    const arriving = hasCopies ? known.map((all, from) => lengthsOf(sharesOf(all, from, group.rank))) : known;
    const received = byExpert(arriving);
    const there = { group, module, sent, received };
    const back = { group, module, sent: received, received: sent };
    const local = exchanged(rows_AD, there, { ...back, scale: group.size });
    const totalOf = (rows: readonly (readonly number[])[], at: number): number =>
      total(rows.map((each) => each[at] ?? 0));
    const here = mine.map((_, slot) => totalOf(arriving, slot));
    const everywhere = hasCopies ? mine.map((expert) => totalOf(known, expert)) : here;
    const outputs = exchanged(apply(local, here, everywhere), back, { ...there, scale: 1 / group.size });
    awaitGradient(outputs, trains, (dy) => travelled(dy, there));
    return outputs;
  };
}

/** Returns, per expert, the ranks that have the expert in a slot. */
function ownersOf(slots: readonly (readonly number[])[]): number[][] {
  const owners: number[][] = [];
  slots.forEach((experts, rank) => {
    for (const expert of experts) owners[expert] = [...(owners[expert] ?? []), rank];
  });
  return owners;
}

/** The number of rows that rank `from` has for one expert, and the rank `to`, which computes a part of these rows. */
interface Share {
  readonly count: number;
  readonly from: number;
  readonly to: number;
}

/**
 * Returns the part of a share's rows that rank `to` computes; `owners` are the ranks that have the expert in a slot. See [Note:
 * rows of copies].
 */
function shareOf(owners: readonly number[], { count, from, to }: Share): RowRange {
  const turn = (owners.indexOf(to) + from) % owners.length;
  const begin = Math.floor((count * turn) / owners.length);
  return { begin, length: Math.floor((count * (turn + 1)) / owners.length) - begin };
}

function lengthsOf(ranges: readonly RowRange[]): number[] {
  return ranges.map(({ length }) => length);
}

/** Sends row `rank` of the counts to each rank; returns the counts that this rank received, by rank. */
function exchangedCounts(
  byRank: readonly (readonly number[])[],
  group: ProcessGroup,
  module: string,
): number[][] {
  const own = byRank[0]?.length ?? 0;
  const sent = tf.tensor2d(byRank.flat(), [group.size, own], 'int32');
  const received = group.allToAll(sent, { cause: 'control', module }).wait();
  // A dry run assumes that all ranks send the same counts.
  const values = readValues(received, () =>
    Int32Array.from(group.ranks.flatMap(() => byRank[group.rank] ?? [])),
  );
  const counts = group.ranks.map((_, rank) => [...values.slice(rank * own, (rank + 1) * own)]);
  tf.dispose([sent, received]);
  return counts;
}

/**
 * Sends rows; backward sends their gradients back and multiplies them by `scale`. Shapes: [rows sent, d] → [rows received, d].
 */
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

/** Returns consecutive ranges of the given lengths, by rank. */
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
