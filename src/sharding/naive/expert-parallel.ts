import { ConfigError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import type { ExpertExchange, MixtureOfExperts, MoeGPT } from '../../nn';
import type { PieceList, ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';
import { splitParameter } from '../tensor/split-parameter';

/** Ranges of rows in a tensor: by rank, then by the rank's experts. */
type Rows = readonly (readonly { readonly begin: number; readonly length: number }[])[];

/**
 * Divides the experts of a GPT over the ranks in the simplest way: each rank has equally many consecutive experts of each
 * layer, and rows travel to their experts by all-to-all. Ranks have different batches; other parameters are whole on every
 * rank, and DDP averages their gradients, but not those of experts. Returns the same model, which is called as before.
 *
 * The real form (experts/, see [Note: rows of experts]) also places experts by their use, copies experts that many rows
 * choose, and lets several ranks have the same expert.
 * Source: Lepikhin et al. 2020 (GShard), section 3. Throws: CONFIG if the ranks do not divide the experts.
 */
export function naiveExpertParallel(model: MoeGPT, group: ProcessGroup): MoeGPT {
  const alone = group.alone(`${group.name} experts`);
  for (const { moe } of model.blocks) {
    keepOwnExperts(moe, group, alone);
    moe.exchange = exchangeRows(group, moe.experts.length / group.size);
  }
  return model;
}

/** Frees the experts of other ranks: their parameters get no elements. No other rank has this rank's experts. */
function keepOwnExperts({ experts, path }: MixtureOfExperts, group: ProcessGroup, alone: ProcessGroup): void {
  const perRank = experts.length / group.size;
  if (!Number.isInteger(perRank)) {
    throw new ConfigError(
      `naive expert parallelism: ${group.size} ranks do not divide the ${experts.length} experts of "${path}"; give a multiple of ${group.size} experts`,
    );
  }
  const owned = Array.from({ length: perRank }, (_, i) => group.rank * perRank + i);
  const over = { group, copies: 1, replicas: alone };
  for (const [index, expert] of [...experts].entries()) {
    for (const module of expert.modules()) {
      for (const [name, { shape: wholeShape }] of module.ownParameters) {
        const length = owned.includes(index) ? (wholeShape[0] ?? 1) : 0;
        const ranges = length === 0 ? [] : [{ begin: 0, end: length }];
        splitParameter(module, name, { split: { over, wholeShape, dim: 0, ranges }, length });
      }
    }
  }
  experts.owned = owned;
}

/** Returns the exchange of a layer. The router has already ordered this rank's rows by expert; `counts` are by expert. */
function exchangeRows(group: ProcessGroup, perRank: number): ExpertExchange {
  return (rows_AD, counts, apply, module) => {
    // 1. Each rank says how many rows it has for each expert. Shapes: [ranks, experts per rank].
    const sent = tf.tensor2d([...counts], [group.size, perRank], 'int32');
    const received = group.allToAll(sent, { cause: 'control', module }).wait();
    const arriving = received.arraySync() as number[][]; // it has two dims
    tf.dispose([sent, received]);

    // 2. Rows lie in the order of experts: on the sender, of all experts; on the receiver, of its own, then of the senders.
    const own = placeRows(counts.map((count) => [count])).flat();
    const mine = group.ranks.map((_, rank) => own.slice(rank * perRank, (rank + 1) * perRank));
    const byExpert = placeRows(transposed(arriving));
    const theirs = transposed(byExpert);

    // 3. Dispatch, compute, combine. A rank's loss is a mean over its own rows, and the model's loss is the mean over the ranks.
    const rowCounts = byExpert.map((ranges) => ranges.reduce((sum, { length }) => sum + length, 0));
    const local = travel(rows_AD, mine, theirs, { group, module, scale: group.size });
    const outputs = apply(local, rowCounts);
    return travel(outputs, theirs, mine, { group, module, scale: 1 / group.size });
  };
}

/** Sends rows; backward sends their gradients back, multiplied by `scale`. Shapes: [rows sent, d] → [rows received, d]. */
function travel(
  x: tf.Tensor,
  from: Rows,
  to: Rows,
  { group, module, scale }: { readonly group: ProcessGroup; readonly module: string; readonly scale: number },
): tf.Tensor {
  const dim = x.shape[1] ?? 1;
  const pieces = (tensor: tf.Tensor, rows: Rows): PieceList[] =>
    rows.map((ranges) =>
      ranges.map(({ begin, length }) => ({ tensor, offset: begin * dim, length: length * dim })),
    );
  const send = (tensor: tf.Tensor, source: Rows, target: Rows): tf.Tensor => {
    const received = tf.zeros([target.flat().reduce((sum, { length }) => sum + length, 0), dim]);
    group.allToAllPieces(pieces(tensor, source), pieces(received, target), exchangeOptions(module)).wait();
    return received;
  };
  return withGradients([x], () => ({
    value: send(x, from, to),
    gradients: (dy) => [tf.mul(send(dy, to, from), scale)],
  }));
}

/** Places rows one after another, in the order of the outer, then of the inner list of their numbers. */
function placeRows(lengths: readonly (readonly number[])[]): Rows {
  let end = 0;
  return lengths.map((inner) =>
    inner.map((length) => {
      end += length;
      return { begin: end - length, length };
    }),
  );
}

function transposed<T>(table: readonly (readonly T[])[]): T[][] {
  return (table[0] ?? []).map((_, column) => table.map((row) => row[column] as T)); // all rows have equal lengths
}
