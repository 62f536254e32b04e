import { fields, flagSchema, parseOptions, requireKind, type ShapeOf } from '../../config';
import type { Warn } from '../../core';
import * as tf from '../../core/tf';
import { embedding } from '../../engine';
import { Embedding, type EmbeddingOptions } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { reduceFromTensorParallelRegion, reduceScatterToSequenceParallelRegion } from './mappings';
import { type OwnRows, ownRowsOf, readRows, requireRows } from './own-rows';
import { evenCut, splitParameter, type Ties } from './split-parameter';
import { type GroupOptions, groupOf, groupSchema, warnOfPadding } from './tensor-context';

/** Options of `VocabParallelEmbedding`. */
export interface VocabularyOptions extends GroupOptions {
  /** Whether the output is this rank's part of the sequence. Default false: every rank gets the whole output. */
  readonly sequenceParallel?: boolean | undefined;
}

const OPTIONS = { group: groupSchema(), sequenceParallel: flagSchema } satisfies ShapeOf<VocabularyOptions>;

/** The state of an embedding whose rows are split. */
interface VocabularyState {
  readonly group: ProcessGroup;
  readonly own: OwnRows;
  /** The number of rows of all ranks, without padding. */
  readonly rows: number;
  readonly isSequence: boolean;
}

/**
 * Returns the weight's row for each id, where each rank has a part of the rows. Forward adds up the ranks' results, since only
 * one rank has the row of an id; backward communicates nothing. Initial values are as in an `nn.Embedding` with the same seed
 * and name. If the ranks do not divide the rows, the last parts are padded with zeros. Shapes: ids int32 […] → […, dim].
 * Source: megatron.core.tensor_parallel.VocabParallelEmbedding. Throws: SHAPE for an id without a row.
 */
export class VocabParallelEmbedding extends Embedding {
  declare readonly vocabulary: VocabularyState;

  constructor(
    rows: number,
    dim: number,
    options: VocabularyOptions & EmbeddingOptions = {},
    warn: Warn = () => undefined,
  ) {
    requireKind('VocabParallelEmbedding', 'the options', options, fields);
    const { paddingIdx, init, ...own } = options;
    super(rows, dim, {
      ...(paddingIdx === undefined ? {} : { paddingIdx }),
      ...(init === undefined ? {} : { init }),
    });
    splitRows(this, parseOptions('VocabParallelEmbedding(rows, dim, { … })', own, OPTIONS), warn);
  }

  override forward(ids: tf.Tensor): tf.Tensor {
    const { group, own, rows, isSequence } = this.vocabulary;
    requireRows(ids, rows, `VocabParallelEmbedding "${this.path}"`);
    const { local, isOwn } = readRows(ids, own);
    const padding = this.paddingIdx === undefined ? undefined : this.paddingIdx - own.begin;
    const isHere = padding !== undefined && padding >= 0 && padding < own.count;
    const vectors = embedding(this.weight.tensor, local, isHere ? padding : undefined);
    const part = tf.mul(vectors, tf.expandDims(isOwn, -1));
    const reduce = isSequence ? reduceScatterToSequenceParallelRegion : reduceFromTensorParallelRegion;
    return reduce(part, group, this.path);
  }
}

/** Makes an `Embedding` a `VocabParallelEmbedding`, in place. */
export function toVocabParallel(table: Embedding, options: VocabularyOptions, warn: Warn, ties: Ties): void {
  splitRows(table, options, warn, ties);
  // The object stays the same, because a new object would have to replace it in fields and containers.
  Object.setPrototypeOf(table, VocabParallelEmbedding.prototype);
}

function splitRows(table: Embedding, options: VocabularyOptions, warn: Warn, ties?: Ties): void {
  const group = groupOf('VocabParallelEmbedding', options);
  const { shape: wholeShape } = table.weight;
  const rows = wholeShape[0] ?? 0;
  const { sequenceParallel: isSequence = false } = options;
  const { ranges, length } = evenCut(rows, { ranks: group.size, rank: group.rank });
  warnOfPadding(warn, { dimName: 'rows', length: rows, ranks: group.size });
  const split = { over: { group, copies: 1 }, wholeShape, dim: 0, ranges };
  splitParameter(table, 'weight', { split, length }, ties);
  const vocabulary: VocabularyState = { group, own: ownRowsOf(rows, group), rows, isSequence };
  Object.assign(table, { vocabulary });
}
