import * as tf from '../../core/tf';
import { type Engine, readValues } from '../../engine';
import { Embedding, MixtureOfExperts, type Module, type Parameter } from '../../nn';
import type { CollectiveOptions, ProcessGroup } from '../../wire';

/** A parameter whose gradient is nonzero only in some rows. */
export interface RowTable {
  readonly parameter: Parameter;
  /** The number of rows; 1 for a parameter of an expert, because a batch uses all rows of an expert or none. */
  readonly rows: number;
}

/**
 * Returns the parameters for which only the touched rows of the gradient are sent: the weights of Embeddings, and all
 * parameters of experts. An embedding that is tied to the output head has a gradient in every row, so all its rows are sent.
 */
export function rowTables(model: Module): RowTable[] {
  const tables = new Map<Parameter, RowTable>();
  for (const module of model.modules()) {
    if (module instanceof Embedding) {
      const { weight } = module;
      tables.set(weight, { parameter: weight, rows: weight.shape[0] ?? 1 });
    }
    // Experts that are divided over ranks are left out, because their gradients are reduced over the ranks with the same
    // experts.
    if (!(module instanceof MixtureOfExperts) || module.experts.owned !== null) continue;
    for (const expert of module.experts) {
      for (const parameter of expert.parameters()) tables.set(parameter, { parameter, rows: 1 });
    }
  }
  return [...tables.values()].filter(({ parameter }) => parameter.requiresGrad);
}

/** One flag per row: 1 if the row is touched. */
export type RowMask = Uint8Array;

/** Finds the rows of a gradient [rows, …] that are not all zero; a missing gradient has no touched rows. */
export function touchedRows(engine: Engine, grad: tf.Tensor | null, rows: number): RowMask {
  const mask = new Uint8Array(rows);
  if (grad === null) return mask;
  // See [Note: values in a dry run].
  if (!engine.hasValues) return mask.fill(1);
  const bytes = engine.storage(grad).view();
  // A float32 zero has only zero bits. A negative zero counts as touched; its row is then sent, with the same result.
  const values = new Int32Array(bytes.buffer, bytes.byteOffset, grad.size);
  const width = grad.size / rows;
  for (let row = 0; row < rows; row++) {
    let i = row * width;
    const end = i + width;
    while (i < end && values[i] === 0) i++;
    if (i < end) mask[row] = 1;
  }
  return mask;
}

/** Returns the number of 32-bit words that hold `rows` counters; each counter can count up to `world`. */
export function maskWords(rows: number, world: number): number {
  return Math.ceil(rows / rowsPerWord(world));
}

/**
 * Returns the rows that at least one rank of the group touched, and waits for the result. Each flag is sent as a counter of a
 * few bits; several counters share a word, and the words are summed over ranks. No counter can overflow into the next counter.
 */
export function unionOfRows(
  engine: Engine,
  group: ProcessGroup,
  mask: RowMask,
  options: Pick<CollectiveOptions, 'module'> = {},
): RowMask {
  if (group.size === 1 || mask.length === 0) return mask;
  const perWord = rowsPerWord(group.size);
  const bits = bitsPerRow(group.size);
  const words = new Int32Array(maskWords(mask.length, group.size));
  mask.forEach((flag, row) => {
    if (flag !== 0)
      words[Math.floor(row / perWord)] =
        (words[Math.floor(row / perWord)] ?? 0) | (1 << ((row % perWord) * bits));
  });
  const summed = sumOverRanks(engine, group, words, options);
  const union = new Uint8Array(mask.length);
  for (let row = 0; row < mask.length; row++) {
    const count = ((summed[Math.floor(row / perWord)] ?? 0) >>> ((row % perWord) * bits)) & (2 ** bits - 1);
    union[row] = count > 0 ? 1 : 0;
  }
  return union;
}

/** Returns the rows of each table that at least one rank of the groups touched. Waits for one small reduction per group. */
export function touchedByAny(
  engine: Engine,
  groups: readonly ProcessGroup[],
  tables: readonly RowTable[],
  gradOf: (table: RowTable) => tf.Tensor | null,
  module: string,
): RowMask[] {
  const own = tables.map((table) => touchedRows(engine, gradOf(table), table.rows));
  const all = new Uint8Array(own.reduce((sum, { length }) => sum + length, 0));
  let end = 0;
  const starts = own.map((mask) => {
    all.set(mask, end);
    end += mask.length;
    return end - mask.length;
  });
  let union: RowMask = all;
  for (const group of groups) union = unionOfRows(engine, group, union, { module });
  return own.map(({ length }, i) => union.subarray(starts[i], (starts[i] ?? 0) + length));
}

function sumOverRanks(
  engine: Engine,
  group: ProcessGroup,
  words: Int32Array,
  { module = '' }: Pick<CollectiveOptions, 'module'>,
): Int32Array {
  const tensor = engine.tagged({ cause: 'comm', module }, () => tf.tensor1d(words, 'int32'));
  try {
    group.allReduce(tensor, 'sum', { cause: 'grad', module }).wait();
    // A dry run assumes that the other ranks touched the same rows as this rank.
    return Int32Array.from(readValues(tensor, () => words));
  } finally {
    tensor.dispose();
  }
}

/** Usable bits of an int32 word, without the sign bit. */
const WORD_BITS = 31;

function bitsPerRow(world: number): number {
  return Math.ceil(Math.log2(world + 1));
}

function rowsPerWord(world: number): number {
  return Math.floor(WORD_BITS / bitsPerRow(world));
}
