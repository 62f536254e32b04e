import * as tf from '../../../core/tf';
import type { Sgemm } from '../blas';
import { offsetOf, present, replaceKernel, type WasmContext } from '../wasm-context';
import { differentiateBy, FUSED } from './fused-kernel';

/** Numbers of sequences, positions, heads, and values per head. */
interface Sizes {
  readonly batch: number;
  readonly seq: number;
  readonly heads: number;
  readonly headDim: number;
}

/**
 * Registers causal attention on concatenated queries, keys and values: qkv [B, T, 3d] → [B, T, d]. The BLAS reads each head
 * in place by its row stride, so no head is copied. The kernel saves qkv and the weights, and needs a BLAS.
 */
export function registerCausalAttention(context: WasmContext): void {
  const { backend, sgemm } = context;
  if (sgemm === null) {
    for (const name of [FUSED.causalAttention, FUSED.causalAttentionGrad]) {
      // An earlier engine of this process may have had a BLAS and registered the kernel.
      const backendName = tf.getBackend();
      if (tf.getKernel(name, backendName) as tf.KernelConfig | undefined)
        tf.unregisterKernel(name, backendName);
    }
    return;
  }
  replaceKernel(FUSED.causalAttention, () => ({ qkv }, attrs) => {
    const sizes = sizesOf(present(qkv), Number(attrs.heads));
    const { batch, seq, heads, headDim } = sizes;
    const y = backend.makeOutput([batch, seq, heads * headDim], 'float32');
    const p = backend.makeOutput([batch, heads, seq, seq], 'float32');
    forward(context, sgemm, sizes, present(qkv), y, p);
    return [y, p];
  });
  replaceKernel(FUSED.causalAttentionGrad, () => ({ qkv, p, dy }, attrs) => {
    const sizes = sizesOf(present(qkv), Number(attrs.heads));
    const dQkv = backend.makeOutput(present(qkv).shape, 'float32');
    const scratch = backend.makeOutput([sizes.seq, sizes.seq], 'float32');
    backward(context, sgemm, sizes, { qkv: present(qkv), p: present(p), dy: present(dy), dQkv, scratch });
    backend.disposeData(scratch.dataId);
    return dQkv;
  });
  differentiateBy(FUSED.causalAttention, FUSED.causalAttentionGrad, ['qkv'], {
    inputs: ['qkv'],
    outputs: [null, 'p'],
  });
}

function sizesOf(qkv: tf.TensorInfo, heads: number): Sizes {
  const [batch = 1, seq = 1, width = 3] = qkv.shape;
  return { batch, seq, heads, headDim: width / 3 / heads };
}

function forward(
  context: WasmContext,
  sgemm: Sgemm,
  sizes: Sizes,
  qkv: tf.TensorInfo,
  y: tf.TensorInfo,
  p: tf.TensorInfo,
): void {
  const { seq, headDim, heads } = sizes;
  const dim = heads * headDim;
  const base = context.baseAddress;
  const [from, to, weights] = [offsetOf(context, qkv), offsetOf(context, y), offsetOf(context, p)];
  forEachHead(sizes, (b, h, head) => {
    const q = from + 4 * (b * seq * 3 * dim + h * headDim);
    const out = to + 4 * (b * seq * dim + h * headDim);
    const own = weights + 4 * head * seq * seq;
    sgemm(false, true, seq, seq, headDim, base + q, 3 * dim, base + q + 4 * dim, 3 * dim, 0, base + own, seq);
    context.kernels.causalSoftmax(own, own, 1, seq, seq, 1 / Math.sqrt(headDim));
    sgemm(false, false, seq, headDim, seq, base + own, seq, base + q + 8 * dim, 3 * dim, 0, base + out, dim);
  });
}

interface BackwardTensors {
  readonly qkv: tf.TensorInfo;
  readonly p: tf.TensorInfo;
  readonly dy: tf.TensorInfo;
  readonly dQkv: tf.TensorInfo;
  /** Scratch [T, T]: first the gradient of a head's weights, then the gradient of the head's scores. */
  readonly scratch: tf.TensorInfo;
}

function backward(context: WasmContext, sgemm: Sgemm, sizes: Sizes, tensors: BackwardTensors): void {
  const { seq, headDim, heads } = sizes;
  const dim = heads * headDim;
  const row = 3 * dim;
  const base = context.baseAddress;
  const at = (info: tf.TensorInfo): number => offsetOf(context, info);
  const ds = at(tensors.scratch);
  const scale = 1 / Math.sqrt(headDim);
  forEachHead(sizes, (b, h, head) => {
    const skip = 4 * (b * seq * row + h * headDim);
    const q = base + at(tensors.qkv) + skip;
    const dq = base + at(tensors.dQkv) + skip;
    const dy = base + at(tensors.dy) + 4 * (b * seq * dim + h * headDim);
    const p = at(tensors.p) + 4 * head * seq * seq;
    sgemm(true, false, seq, headDim, seq, base + p, seq, dy, dim, 0, dq + 8 * dim, row);
    sgemm(false, true, seq, seq, headDim, dy, dim, q + 8 * dim, row, 0, base + ds, seq);
    context.kernels.softmaxGrad(p, ds, ds, seq, seq, scale);
    sgemm(false, false, seq, headDim, seq, base + ds, seq, q + 4 * dim, row, 0, dq, row);
    sgemm(true, false, seq, headDim, seq, base + ds, seq, q, row, 0, dq + 4 * dim, row);
  });
}

function forEachHead({ batch, heads }: Sizes, work: (b: number, h: number, head: number) => void): void {
  for (let b = 0; b < batch; b++) for (let h = 0; h < heads; h++) work(b, h, b * heads + h);
}
