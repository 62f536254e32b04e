import type * as tf from '../../core/tf';
import type { ProcessGroup } from '../../dist/types';
import { type RowMask, type RowTable, touchedByAny } from '../sparse/row-masks';
import { type Range, touchedRanges } from '../sparse/row-pieces';
import type { ShardedParameter, ShardLayout } from './shard-layout';
import type { UnitSpec } from './unit-placement';

/**
 * The elements of every rank's share that some rank of the groups touched, as ranges of the share, by rank. Blocks for
 * one small reduction per group.
 */
export function touchedShares(
  { engine, module, tables }: UnitSpec,
  layout: ShardLayout,
  grads: readonly (tf.Tensor | null)[],
  groups: readonly ProcessGroup[],
): Range[][] {
  const gradOf = (table: RowTable): tf.Tensor | null =>
    grads[layout.entries.findIndex(({ parameter }) => parameter === table.parameter)] ?? null;
  const touched = touchedByAny(engine, groups, tables, gradOf, module);
  const masks = new Map(touched.map((mask, i) => [tables[i]?.parameter, mask]));
  return Array.from({ length: layout.numRanks }, (_, rank) =>
    layout.entries.flatMap((entry) => rangesOf(entry, masks.get(entry.parameter), rank)),
  );
}

function rangesOf(entry: ShardedParameter, mask: RowMask | undefined, rank: number): Range[] {
  const { offset, chunk, parameter } = entry;
  // A parameter of an expert has one flag for all its rows.
  if (mask === undefined || mask.length === 1) {
    return mask?.[0] === 0 || chunk === 0 ? [] : [{ start: offset, length: chunk }];
  }
  const width = parameter.size / mask.length;
  const from = Math.min(mask.length, (rank * chunk) / width);
  const to = Math.min(mask.length, from + chunk / width);
  return touchedRanges(mask, width, from, to).map(({ start, length }) => ({ start: offset + start, length }));
}
