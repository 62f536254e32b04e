import * as tf from '../../../core/tf';
import type { Sgemm } from '../blas';
import { heapProduct, offsetOf, present, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';
import { FUSED, runFused, withScratch } from './fused-kernel';

/*
 * [Note: flash attention] At any time, the weights exist only for one block of queries and one block of keys. Forward stores
 * each query's largest score and the sum of its weights so far; if a later block has a larger score, forward corrects the
 * sum and the output. Backward computes a block's weights again from the saved log-sum-exp. So memory grows with the length,
 * not with its square. Source: Dao et al. 2022; Dao 2023, FlashAttention-2, algorithms 1 and 2.
 */

/** Registers attention in blocks: q [B, T, H, D], k and v [B, S, G, D] → out [B, T, H, D], log-sum-exp of scores [B, H, T]. */
export function registerFlashAttention(context: WasmContext): void {
  const { backend } = context;
  const makeLike = (info: tf.TensorInfo): tf.TensorInfo => backend.makeOutput(info.shape, 'float32');
  replaceKernel(FUSED.flashAttention, () => ({ q, k, v }, attrs) => {
    const pass = passOf(context, present(q), present(k), attrs);
    const { batch, heads, queries } = pass.sizes;
    const out = makeLike(present(q));
    const lse = backend.makeOutput([batch, heads, queries], 'float32');
    withScratch(context, flashScratchSize('forward', pass.sizes), (scratch) => {
      forward(context, pass, { q: present(q), k: present(k), v: present(v), out, lse, scratch });
    });
    return [out, lse];
  });
  replaceKernel(FUSED.flashAttentionGrad, () => (inputs, attrs) => {
    const [q, k, v] = [present(inputs.q), present(inputs.k), present(inputs.v)];
    const [out, lse] = [present(inputs.out), present(inputs.lse)];
    const pass = passOf(context, q, k, attrs);
    const [dq, dk, dv] = [makeLike(q), makeLike(k), makeLike(v)];
    withScratch(context, flashScratchSize('backward', pass.sizes), (scratch) => {
      const gradients = { dOut: present(inputs.dOut), dLse: present(inputs.dLse), dq, dk, dv };
      backward(context, pass, { q, k, v, out, lse, scratch, ...gradients });
    });
    return [dq, dk, dv];
  });
  tf.registerGradient({
    kernelName: FUSED.flashAttention,
    inputsToSave: ['q', 'k', 'v'],
    outputsToSave: [true, true],
    gradFunc: (dys, saved, attrs) => {
      const [q, k, v, out, lse] = saved.map(present) as [
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
      ];
      const [dOut, dLse] = dys as [tf.Tensor, tf.Tensor]; // one gradient per output
      const [dq, dk, dv] = runFused(
        FUSED.flashAttentionGrad,
        { q, k, v, out, lse, dOut, dLse },
        attrs as tf.NamedAttrMap,
      );
      return { q: () => present(dq), k: () => present(dk), v: () => present(dv) };
    },
  });
}

/** The arguments of forward and backward other than their tensors. */
interface Pass {
  readonly sizes: FlashSizes;
  readonly isCausal: boolean;
  readonly scale: number;
  /** A matmul whose operands are byte offsets on the heap. */
  readonly product: Sgemm;
}

interface ForwardTensors {
  readonly q: tf.TensorInfo;
  readonly k: tf.TensorInfo;
  readonly v: tf.TensorInfo;
  readonly out: tf.TensorInfo;
  readonly lse: tf.TensorInfo;
  readonly scratch: tf.TensorInfo;
}

interface BackwardTensors extends ForwardTensors {
  readonly dOut: tf.TensorInfo;
  readonly dLse: tf.TensorInfo;
  readonly dq: tf.TensorInfo;
  readonly dk: tf.TensorInfo;
  readonly dv: tf.TensorInfo;
}

function passOf(
  context: WasmContext,
  q: tf.TensorInfo,
  k: tf.TensorInfo,
  attrs: Readonly<Record<string, unknown>>,
): Pass {
  const { causal, scale } = attrs;
  const sizes = flashSizes(q, k);
  return { sizes, isCausal: causal === true, scale: Number(scale), product: heapProduct(context) };
}

/** Byte offsets of a head's first value in tensors of three shapes: q's, k's and lse's. */
interface Head {
  readonly q: number;
  readonly k: number;
  readonly lse: number;
}

function forEachHead(sizes: FlashSizes, work: (head: Head) => void): void {
  const { batch, queries, keys, heads, groups, headDim } = sizes;
  for (let b = 0; b < batch; b++) {
    for (let h = 0; h < heads; h++) {
      const group = Math.floor((h * groups) / heads);
      work({
        q: 4 * headDim * (b * queries * heads + h),
        k: 4 * headDim * (b * keys * groups + group),
        lse: 4 * queries * (b * heads + h),
      });
    }
  }
}

function forward(context: WasmContext, pass: Pass, tensors: ForwardTensors): void {
  const { sizes, isCausal, scale, product } = pass;
  const { heads, groups, headDim, queries, rows, columns } = sizes;
  const { kernels } = context;
  const at = (info: tf.TensorInfo): number => offsetOf(context, info);
  const [queryStride, keyStride] = [heads * headDim, groups * headDim];
  const scores = at(tensors.scratch);
  const sums = scores + 4 * rows * columns;
  forEachHead(sizes, (head) => {
    for (let row = 0; row < queries; row += rows) {
      const skip = head.q + 4 * row * queryStride;
      const [q, out] = [at(tensors.q) + skip, at(tensors.out) + skip];
      // Until the last block, the buffer of lse stores the largest score of each row.
      const tops = at(tensors.lse) + head.lse + 4 * row;
      const m = Math.min(rows, queries - row);
      for (const { column, columns: n, seen } of keyBlocks(sizes, row, isCausal)) {
        const key = head.k + 4 * column * keyStride;
        const isFirst = column === 0;
        product(false, true, m, n, headDim, q, queryStride, at(tensors.k) + key, keyStride, 0, scores, n);
        kernels.flashWeights(
          scores,
          tops,
          sums,
          out,
          m,
          n,
          seen,
          scale,
          Number(isFirst),
          headDim,
          queryStride,
        );
        const [v, beta] = [at(tensors.v) + key, isFirst ? 0 : 1];
        product(false, false, m, headDim, n, scores, n, v, keyStride, beta, out, queryStride);
      }
      kernels.flashEnd(tops, sums, out, tops, m, headDim, queryStride);
    }
  });
}

function backward(context: WasmContext, pass: Pass, tensors: BackwardTensors): void {
  const { sizes, isCausal, scale, product } = pass;
  const { heads, groups, headDim, queries, rows, columns } = sizes;
  const { kernels } = context;
  const at = (info: tf.TensorInfo): number => offsetOf(context, info);
  const [stride, keyStride] = [heads * headDim, groups * headDim];
  const p = at(tensors.scratch);
  const ds = p + 4 * rows * columns;
  const deltas = ds + 4 * rows * columns;
  for (const sum of [tensors.dk, tensors.dv]) kernels.fill(at(sum), 0, sizeOf(sum.shape));
  forEachHead(sizes, (head) => {
    for (let row = 0; row < queries; row += rows) {
      const skip = head.q + 4 * row * stride;
      const lse = head.lse + 4 * row;
      const [q, dq, dOut] = [at(tensors.q) + skip, at(tensors.dq) + skip, at(tensors.dOut) + skip];
      const m = Math.min(rows, queries - row);
      const out = at(tensors.out) + skip;
      kernels.flashDeltas(dOut, out, at(tensors.dLse) + lse, deltas, m, headDim, stride);
      for (const { column, columns: n, seen } of keyBlocks(sizes, row, isCausal)) {
        const key = head.k + 4 * column * keyStride;
        const [k, v] = [at(tensors.k) + key, at(tensors.v) + key];
        product(false, true, m, n, headDim, q, stride, k, keyStride, 0, p, n);
        kernels.flashWeightsAgain(p, at(tensors.lse) + lse, m, n, seen, scale);
        product(true, false, n, headDim, m, p, n, dOut, stride, 1, at(tensors.dv) + key, keyStride);
        product(false, true, m, n, headDim, dOut, stride, v, keyStride, 0, ds, n);
        kernels.flashScoreGrad(p, ds, deltas, m, n, scale);
        product(false, false, m, headDim, n, ds, n, k, keyStride, column === 0 ? 0 : 1, dq, stride);
        product(true, false, n, headDim, m, ds, n, q, stride, 1, at(tensors.dk) + key, keyStride);
      }
    }
  });
}

// B: sequences, T: queries, S: keys, H: query heads, G: heads of keys and values, D: values per head.

/** Largest numbers of queries and keys of a block: a block's weights (128 KiB) fit into the processor's L2 cache. */
const MOST_ROWS = 128;
const MOST_COLUMNS = 256;

/** The dimensions of the tensors of attention, and of a block. */
export interface FlashSizes {
  readonly batch: number;
  readonly queries: number;
  readonly keys: number;
  readonly heads: number;
  readonly groups: number;
  readonly headDim: number;
  /** Numbers of queries and keys of a block; the last block may be smaller. */
  readonly rows: number;
  readonly columns: number;
}

type HasShape = Pick<tf.TensorInfo, 'shape'>;

/** Returns the dimensions of the tensors and blocks. Shapes: q [B, T, H, D], k [B, S, G, D]. */
export function flashSizes(q: HasShape, k: HasShape): FlashSizes {
  const [batch = 0, queries = 0, heads = 0, headDim = 0] = q.shape;
  const [, keys = 0, groups = 1] = k.shape;
  const rows = Math.min(MOST_ROWS, queries);
  return { batch, queries, keys, heads, groups, headDim, rows, columns: Math.min(MOST_COLUMNS, keys) };
}

/**
 * Returns the number of elements of the temporary buffer; it does not grow with the sequence length. The buffer stores a
 * block's weights and one number per row; in backward also the gradient of the weights.
 */
export function flashScratchSize(pass: 'forward' | 'backward', { rows, columns }: FlashSizes): number {
  return (pass === 'forward' ? 1 : 2) * rows * columns + rows;
}

/** A block of keys to which at least one query of a block attends. */
export interface KeyBlock {
  readonly column: number;
  readonly columns: number;
  /** Number of the block's keys to which the first query attends; each following query attends to one key more. */
  readonly seen: number;
}

/** Yields the key blocks for the query block that starts at `row`. If causal, query i attends to keys 0 to i + S - T. */
export function* keyBlocks(sizes: FlashSizes, row: number, isCausal: boolean): Generator<KeyBlock> {
  const { queries, keys, rows } = sizes;
  const end = isCausal ? Math.min(row + rows, queries) + keys - queries : keys;
  for (let column = 0; column < end; column += sizes.columns) {
    const columns = Math.min(sizes.columns, end - column);
    yield { column, columns, seen: isCausal ? row + 1 + keys - queries - column : columns };
  }
}
