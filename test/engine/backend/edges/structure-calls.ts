import * as tf from '../../../../src/core/tf';

/** The arguments of rows of operations that move elements. */
export interface StructureArguments {
  readonly equation: string;
  readonly stride: number | [number, number];
  readonly dilation: [number, number];
  readonly pad: 'valid' | 'same';
  readonly size: number | [number, number] | number[];
  readonly corners: boolean;
  readonly amounts: [number, number];
  readonly mode: 'reflect' | 'symmetric';
  readonly value: number;
  readonly index: never;
  readonly shape: number[];
  readonly axis: number;
  readonly perm: number[];
  readonly reps: number[];
  readonly begin: number[];
  readonly end: number[];
  readonly step: number[];
  readonly k: number;
  readonly depth: number;
  readonly block: number;
  readonly sizes: number[];
  readonly count: number;
  readonly reduction: 'mean' | 'sum' | 'none';
  readonly smoothing: number;
  readonly causal: boolean;
  readonly padding: [number, number];
  readonly groups: number;
  readonly heads: number;
  readonly rate: number;
}

export type Structural = (inputs: tf.Tensor[], args: StructureArguments) => tf.Tensor | readonly tf.Tensor[];

/** Returns a call of an operation whose inputs have certain ranks in tfjs's types; rows give it tensors of these ranks. */
export function ofRanks<A extends readonly tf.Tensor[]>(
  call: (args: StructureArguments, ...inputs: A) => tf.Tensor | readonly tf.Tensor[],
): Structural {
  return (inputs, args) => call(args, ...(inputs as unknown as A));
}

type Pair = [number, number];
const image = tf.image;

/** This engine's counterparts of the operations of structure.py. */
export const STRUCTURE_CALLS: Readonly<Record<string, Structural>> = {
  matMul: ofRanks((_, a: tf.Tensor, b: tf.Tensor) => tf.matMul(a, b)),
  einsum: (inputs, { equation }) => tf.einsum(equation, ...inputs),
  conv2d: ofRanks((a, x: tf.Tensor4D, w: tf.Tensor4D) =>
    tf.conv2d(x, w, a.stride as Pair, a.pad, 'NHWC', a.dilation),
  ),
  depthwiseConv2d: ofRanks((a, x: tf.Tensor4D, w: tf.Tensor4D) =>
    tf.depthwiseConv2d(x, w, a.stride as Pair, a.pad, 'NHWC', a.dilation),
  ),
  conv3d: ofRanks((a, x: tf.Tensor5D, w: tf.Tensor5D) => tf.conv3d(x, w, a.stride as number, a.pad)),
  conv2dTranspose: ofRanks((a, x: tf.Tensor4D, w: tf.Tensor4D) => {
    const stride = a.stride as number;
    const [n, h, width] = x.shape;
    const shape: [number, number, number, number] = [
      n,
      (h - 1) * stride + w.shape[0],
      (width - 1) * stride + w.shape[1],
      w.shape[2],
    ];
    return tf.conv2dTranspose(x, w, shape, stride, 'valid');
  }),
  maxPool: ofRanks((a, x: tf.Tensor4D) => tf.maxPool(x, a.size as Pair, a.stride as Pair, a.pad)),
  avgPool: ofRanks((a, x: tf.Tensor4D) => tf.avgPool(x, a.size as Pair, a.stride as Pair, a.pad)),
  maxPool3d: ofRanks((a, x: tf.Tensor5D) => tf.maxPool3d(x, a.size as number, a.stride as number, 'valid')),
  avgPool3d: ofRanks((a, x: tf.Tensor5D) => tf.avgPool3d(x, a.size as number, a.stride as number, 'valid')),
  resizeBilinear: ofRanks((a, x: tf.Tensor4D) =>
    image.resizeBilinear(x, a.size as Pair, a.corners, !a.corners),
  ),
  resizeNearest: ofRanks((a, x: tf.Tensor4D) => image.resizeNearestNeighbor(x, a.size as Pair, false, true)),
  mirrorPad: ofRanks((a, x: tf.Tensor) => tf.mirrorPad(x, [[0, 0], a.amounts], a.mode)),
  pad: ofRanks((a, x: tf.Tensor) => tf.pad(x, [a.amounts], a.value)),
  gather: ofRanks((a, x: tf.Tensor, ids: tf.Tensor1D) => tf.gather(x, ids, a.axis)),
  gatherND: ofRanks((_, x: tf.Tensor, ids: tf.Tensor) => tf.gatherND(x, ids)),
  scatterND: ofRanks((a, updates: tf.Tensor, ids: tf.Tensor) => tf.scatterND(ids, updates, a.shape)),
  concat: (inputs, { axis }) => tf.concat(inputs, axis),
  stack: (inputs, { axis }) => tf.stack(inputs, axis),
  transpose: ofRanks((a, x: tf.Tensor) => tf.transpose(x, a.perm)),
  tile: ofRanks((a, x: tf.Tensor) => tf.tile(x, a.reps)),
  reverse: ofRanks((a, x: tf.Tensor) => tf.reverse(x, a.axis)),
  slice: ofRanks((a, x: tf.Tensor) => tf.slice(x, a.begin, a.size as number[])),
  stridedSlice: ofRanks((a, x: tf.Tensor) => tf.stridedSlice(x, a.begin, a.end, a.step)),
  topk: ofRanks((a, x: tf.Tensor) => {
    const { values, indices } = tf.topk(x, a.k);
    return [values, indices];
  }),
  oneHot: ofRanks((a, x: tf.Tensor) => tf.oneHot(x, a.depth)),
  depthToSpace: ofRanks((a, x: tf.Tensor4D) => tf.depthToSpace(x, a.block)),
  split: ofRanks((a, x: tf.Tensor) => tf.split(x, a.sizes, a.axis)),
  unstack: ofRanks((a, x: tf.Tensor) => tf.unstack(x, a.axis)),
  segmentSum: ofRanks((a, x: tf.Tensor, ids: tf.Tensor1D) => tf.unsortedSegmentSum(x, ids, a.count)),
  searchSorted: ofRanks((_, x: tf.Tensor, values: tf.Tensor) => tf.searchSorted(x, values)),
  bincount: ofRanks((a, x: tf.Tensor1D) => tf.bincount(x, tf.ones([x.size]), a.size as number)),
  unique: ofRanks((_, x: tf.Tensor) => tf.unique(x).values),
  squeeze: ofRanks((_, x: tf.Tensor) => tf.squeeze(x)),
  expandDims: ofRanks((a, x: tf.Tensor) => tf.expandDims(x, a.axis)),
  reshape: ofRanks((a, x: tf.Tensor) => tf.reshape(x, a.shape)),
  broadcastTo: ofRanks((a, x: tf.Tensor) => tf.broadcastTo(x, a.shape)),
  diag: ofRanks((_, x: tf.Tensor) => tf.diag(x)),
  addN: (inputs) => tf.addN(inputs),
  lrn: ofRanks((_, x: tf.Tensor4D) => tf.localResponseNormalization(x, 2, 1, 1, 0.5)),
};
