import { IGNORED_LABEL } from '../../../core';
import * as tf from '../../../core/tf';
import { sizeOf } from '../wasm-context';
import { type CheckedCall, computed, type KernelCheck, typeAndShape } from './checked-call';

/**
 * Checks of kernels whose inputs contain indices. An index outside of the bounds is always an error, even in kernels in which
 * TensorFlow ignores it.
 */
export const INDEX_CHECKS: Readonly<Record<string, KernelCheck>> = {
  GatherV2: (call) => {
    const [x, indices] = [call.input('x'), call.input('indices')];
    const axis = call.axis('axis', call.attrs.axis ?? 0, x.shape.length);
    call.whole('batchDims', call.attrs.batchDims ?? 0, -indices.shape.length, indices.shape.length);
    // tfjs's function reads only the shapes of `data` and `at`.
    const [data, at] = [x as tf.Tensor, indices as tf.Tensor];
    const batchDims = Number(call.attrs.batchDims ?? 0);
    computed(call, () => tf.backend_util.segment_util.collectGatherOpShapeInfo(data, at, axis, batchDims));
    call.indices('indices', x.shape[axis] ?? 0, `axis ${axis} of x ${typeAndShape(x)}`);
  },
  GatherNd: (call) => {
    const [params, indices] = [call.input('params'), call.input('indices')];
    computed(call, () => tf.gather_util.prepareAndValidate(params as tf.Tensor, indices as tf.Tensor));
    requireRows(call, 'indices', indices.shape.at(-1) ?? 1, params.shape, `params ${typeAndShape(params)}`);
  },
  ScatterNd: (call) => scattered(call, shapeOf(call, 'shape')),
  TensorScatterUpdate: (call) => {
    call.typed(call.input('tensor').dtype, 'updates');
    scattered(call, call.input('tensor').shape);
  },
  SparseToDense: (call) => {
    call.typed(call.input('defaultValue').dtype, 'sparseValues');
    call.sizes(1, 'defaultValue');
    const [values, indices] = [call.input('sparseValues'), call.input('sparseIndices')];
    const count = indices.shape.length === 0 ? 1 : (indices.shape[0] ?? 1);
    if (values.shape.length > 0) call.sizes(count, 'sparseValues');
    const shape = shapeOf(call, 'outputShape');
    const columns = indices.shape.length < 2 ? 1 : (indices.shape[1] ?? 1);
    if (columns !== shape.length)
      call.refuse(`sparseIndices ${typeAndShape(indices)} must have a column for each axis of [${shape}].`);
    call.indices('sparseIndices', shape, `a tensor of shape [${shape}]`);
  },
  UnsortedSegmentSum: (call) => {
    const [x, ids] = [call.input('x'), call.input('segmentIds')];
    const numSegments = call.whole('numSegments', call.attrs.numSegments, 0);
    call.typed('float32', 'x');
    if (x.shape.slice(0, ids.shape.length).join() !== ids.shape.join())
      call.refuse(`x ${typeAndShape(x)} must begin with the shape of segmentIds ${typeAndShape(ids)}.`);
    call.indices('segmentIds', numSegments, `${numSegments} segments`);
  },
  SparseSegmentSum: sparseSegments,
  SparseSegmentMean: sparseSegments,
  SparseFillEmptyRows: (call) => {
    const indices = call.ranked('indices', 2);
    call.typed(call.input('values').dtype, 'defaultValue');
    call.sizes(indices.shape[0] ?? 0, 'values');
    call.sizes(indices.shape[1] ?? 0, 'denseShape');
    call.sizes(1, 'defaultValue');
    call.typed('int32', 'denseShape');
    const shape = Array.from(call.values('denseShape'));
    shape.forEach((length, i) => void call.whole(`denseShape[${i}]`, length, 0));
    if (shape.length > 0) call.indices('indices', shape, `denseShape [${shape}]`);
  },
  SparseReshape: (call) => {
    const indices = call.ranked('inputIndices', 2);
    call.sizes(indices.shape[1] ?? 0, 'inputShape');
    call.typed('int32', 'inputShape', 'newShape');
    const shape = Array.from(call.values('inputShape'));
    if (shape.length > 0) call.indices('inputIndices', shape, `inputShape [${shape}]`);
  },
  Bincount: bincount,
  DenseBincount: bincount,
  OneHot: (call) => {
    const depth = call.whole('depth', call.attrs.depth, 0);
    call.indices('indices', depth, `${depth} classes`);
  },
  CropAndResize: (call) => {
    const image = call.ranked('image', 4);
    const boxes = call.ranked('boxes', 2);
    const count = boxes.shape[0] ?? 0;
    call.sizes(4 * count, 'boxes');
    call.sizes(count, 'boxInd');
    call.typed('float32', 'boxes');
    call.finiteValues('boxes');
    call.wholes('cropSize', call.attrs.cropSize, 2, 1);
    call.indices('boxInd', image.shape[0] ?? 0, `the images ${typeAndShape(image)}`);
  },
  NonMaxSuppressionV3: boxesAndScores,
  NonMaxSuppressionV4: boxesAndScores,
  NonMaxSuppressionV5: boxesAndScores,
  SearchSorted: (call) => {
    const sorted = call.ranked('sortedSequence', 2);
    const values = call.ranked('values', 2);
    if (sorted.shape[0] !== values.shape[0])
      call.refuse(
        `values ${typeAndShape(values)} must have as many rows as sortedSequence ${typeAndShape(sorted)}.`,
      );
  },
  ShardlabEmbedding: (call) => {
    const table = call.ranked('table', 2);
    call.typed('float32', 'table');
    call.indices('ids', table.shape[0] ?? 0, `the table's ${table.shape[0]} rows`);
  },
  ShardlabEmbeddingGrad: (call) => {
    const rows = call.whole('rows', call.attrs.rows, 0);
    call.typed('float32', 'dy');
    const { shape } = call.input('dy');
    call.sizes(sizeOf(shape.slice(0, -1)), 'ids');
    call.indices('ids', rows, `the table's ${rows} rows`);
    const { paddingIndex } = call.attrs;
    if (paddingIndex !== undefined) call.whole('paddingIndex', paddingIndex, 0, rows - 1);
  },
  ShardlabCrossEntropy: crossEntropy,
  ShardlabCrossEntropyInPlace: crossEntropy,
  ShardlabCrossEntropyGrad: (call) => {
    crossEntropy(call);
    const { shape } = call.input('logits');
    call.sizes(sizeOf(shape.slice(0, -1)), 'norms');
    call.sizes(1, 'dy');
    call.typed('float32', 'norms', 'dy');
  },
};

/** Returns the checked attribute `name`, which is a shape. */
export function shapeOf(call: CheckedCall, name: string): number[] {
  return call.wholes(name, call.attrs[name], undefined, 0);
}

/** Checks indices: each row is the position of an element in the first `columns` axes of a shape. */
function requireRows(
  call: CheckedCall,
  name: string,
  columns: number,
  shape: readonly number[],
  of: string,
): void {
  if (columns > shape.length)
    call.refuse(`${name} ${typeAndShape(call.input(name))} has more columns than ${of} has axes.`);
  if (columns > 0) call.indices(name, shape.slice(0, columns), of);
}

function scattered(call: CheckedCall, shape: readonly number[]): void {
  const [indices, updates] = [call.input('indices'), call.input('updates')];
  const isFlat = indices.shape.length < 2;
  const columns = isFlat ? 1 : (indices.shape.at(-1) ?? 1);
  requireRows(call, 'indices', columns, shape, `a tensor of shape [${shape}]`);
  const fits = [...(isFlat ? indices.shape : indices.shape.slice(0, -1)), ...shape.slice(columns)];
  if (updates.shape.join() !== fits.join())
    call.refuse(`updates is ${typeAndShape(updates)}, but its shape must be [${fits}].`);
}

function sparseSegments(call: CheckedCall): void {
  const data = call.input('data');
  call.sizes(sizeOf(call.input('indices').shape), 'segmentIds');
  call.typed('int32', 'segmentIds');
  call.indices('indices', data.shape[0] ?? 0, `the rows of data ${typeAndShape(data)}`);
  const ids = call.values('segmentIds');
  for (let i = 0; i < ids.length; i++) {
    const least = i === 0 ? 0 : (ids[i - 1] ?? 0);
    call.whole(`segmentIds[${i}]`, ids[i], least);
  }
}

function bincount(call: CheckedCall): void {
  const x = call.input('x');
  if (x.shape.length > (call.kernel === 'Bincount' ? 1 : 2))
    call.refuse(`x is ${typeAndShape(x)}; it has too many axes.`);
  const size = call.whole('size', call.attrs.size, 0);
  const weights = call.input('weights');
  if (sizeOf(weights.shape) > 0) call.sameShape('weights', x.shape);
  call.indices('x', size, `${size} bins`);
}

function boxesAndScores(call: CheckedCall): void {
  const boxes = call.ranked('boxes', 2);
  call.sizes(4 * (boxes.shape[0] ?? 0), 'boxes');
  call.sizes(boxes.shape[0] ?? 0, 'scores');
  call.typed('float32', 'boxes', 'scores');
  call.whole('maxOutputSize', call.attrs.maxOutputSize, 0);
}

function crossEntropy(call: CheckedCall): void {
  const logits = call.input('logits');
  const classes = logits.shape.at(-1) ?? 1;
  call.typed('float32', 'logits');
  call.sizes(sizeOf(logits.shape) / classes, 'labels');
  call.indices('labels', classes, `${classes} classes`, IGNORED_LABEL);
}
