import { type Bytes, itemBytes } from '../../core';
import { FUSED, type KernelCall, type KernelTensor } from '../../engine';
import type { AttentionCore } from '../cost/attention';
import type { Matmul } from '../cost/gemm';

/** The work of a kernel, on any device. */
export type KernelWork = {
  /** Bytes read and written, in the declared types. */
  readonly bytes: Bytes;
} & (CoreWork | { readonly kind: 'product'; readonly product: Matmul } | { readonly kind: 'traffic' });

/** The work of a kernel that computes the core of attention. */
interface CoreWork extends Omit<AttentionCore, 'kernel' | 'dropout'> {
  readonly kind: 'attention';
  readonly isBackward: boolean;
  /** Whether the matrix of attention weights is never stored as a whole. */
  readonly isFlash: boolean;
}

/** Returns a kernel's work, from its name, shapes and attributes. */
export function workOf(call: KernelCall): KernelWork {
  const bytes = trafficBytes(call);
  const core = attentionOf(call);
  if (core !== undefined) return { ...core, bytes };
  const product = productOf(call);
  return product === undefined ? { kind: 'traffic', bytes } : { kind: 'product', product, bytes };
}

/**
 * Returns the floating point operations of a kernel's matmuls; 0 if it has none. Causal flash attention computes half of the
 * scores.
 */
export function flopsOf(work: KernelWork): number {
  switch (work.kind) {
    case 'product': {
      const { m, n, k, batch = 1 } = work.product;
      return 2 * m * n * k * batch;
    }
    case 'attention': {
      const { batch, queries, keys, headDim, isBackward, isFlash, causal } = work;
      // Matmuls: 2 in forward (scores, sums); 4 in backward, and one more for scores that were not stored.
      const products = isBackward ? (isFlash ? 5 : 4) : 2;
      return 2 * products * batch * queries * keys * headDim * (isFlash && causal ? 0.5 : 1);
    }
    case 'traffic':
      return 0;
    default:
      return work satisfies never;
  }
}

function attentionOf({ name, inputs, attrs }: KernelCall): CoreWork | undefined {
  const isFlash = name === FUSED.flashAttention || name === FUSED.flashAttentionGrad;
  const isBackward = name === FUSED.flashAttentionGrad || name === FUSED.causalAttentionGrad;
  const shared = { kind: 'attention', isBackward, isFlash } as const;
  const [first, second] = inputs;
  if (isFlash) {
    // q [B, T, H, D] and k [B, S, G, D].
    const [batch = 1, queries = 1, heads = 1, headDim = 1] = first?.shape ?? [];
    const keys = second?.shape[1] ?? queries;
    return { ...shared, batch: batch * heads, queries, keys, headDim, causal: attrs.causal === true };
  }
  if (name !== FUSED.causalAttention && name !== FUSED.causalAttentionGrad) return undefined;
  // qkv [B, T, 3d].
  const [batch = 1, seq = 1, width = 3] = first?.shape ?? [];
  const heads = Number(attrs.heads);
  const headDim = width / 3 / heads;
  return { ...shared, batch: batch * heads, queries: seq, keys: seq, headDim, causal: true };
}

function productOf({ name, inputs, outputs, attrs }: KernelCall): Matmul | undefined {
  const [a, b] = inputs.map(({ shape }) => shape);
  const out = outputs[0]?.shape;
  if (a === undefined || b === undefined || out === undefined) return undefined;
  const size = sizeOf(out);
  const last = out.at(-1) ?? 1;
  switch (name) {
    case FUSED.linear:
      return { m: size / last, n: last, k: a.at(-1) ?? 1 };
    case 'BatchMatMul':
    case '_FusedMatMul': {
      const m = out.at(-2) ?? 1;
      return { m, n: last, k: a.at(attrs.transposeA === true ? -2 : -1) ?? 1, batch: size / (m * last) };
    }
    case 'Conv2D':
    case 'FusedConv2D':
      // Filter [height, width, in, out]: a matmul over the window of each output position.
      return { m: size / last, n: last, k: sizeOf(b) / last };
    case 'Conv2DBackpropInput':
      // The inputs are dy [..., out] and the filter; afterwards each position of the input adds up the windows that contain it.
      return { m: sizeOf(a) / (a.at(-1) ?? 1), n: sizeOf(b) / (a.at(-1) ?? 1), k: a.at(-1) ?? 1 };
    case 'Conv2DBackpropFilter':
      // The inputs are x and dy; the transposed matrix of x's windows is multiplied by dy.
      return { m: size / last, n: last, k: sizeOf(b) / last };
    case FUSED.conv2d:
    case FUSED.conv2dInputGrad:
    case FUSED.conv2dFilterGrad:
      return convolutionOf(name, a, b, out, Number(attrs.groups));
    default:
      return undefined;
  }
}

/** Returns the matmul of a convolution of images [N, C, H, W], or of one of its gradients. */
function convolutionOf(
  name: string,
  a: readonly number[],
  b: readonly number[],
  out: readonly number[],
  groups: number,
): Matmul {
  const filter = name === FUSED.conv2dFilterGrad ? out : b;
  const images = name === FUSED.conv2d ? out : name === FUSED.conv2dInputGrad ? a : b;
  // filter [outputs, C / groups, height, width], images [N, outputs, H, W].
  const [outputs = 1] = filter;
  const [positions, depth] = [sizeOf(images) / outputs, sizeOf(filter) / outputs];
  const perGroup = outputs / groups;
  if (name === FUSED.conv2d) return { m: positions, n: perGroup, k: depth, batch: groups };
  if (name === FUSED.conv2dInputGrad) return { m: positions, n: depth, k: perGroup, batch: groups };
  return { m: perGroup, n: depth, k: positions, batch: groups };
}

/** Kernels that read only some rows of a table; they read as many rows as they write. */
const ROW_READERS: ReadonlySet<string> = new Set([FUSED.embedding, 'GatherV2']);
/** Kernels that also write a result over their first input. */
const OVERWRITERS: ReadonlySet<string> = new Set([FUSED.crossEntropyInPlace]);

/** Returns the bytes that a kernel reads and writes, in the declared types. */
function trafficBytes({ name, inputs, outputs }: KernelCall): Bytes {
  const [table, ...others] = inputs;
  const written = bytesOf(outputs) + (OVERWRITERS.has(name) ? bytesOf(inputs.slice(0, 1)) : 0);
  if (table !== undefined && ROW_READERS.has(name)) return 2 * written + bytesOf(others);
  return bytesOf(inputs) + written;
}

function bytesOf(tensors: readonly KernelTensor[]): Bytes {
  return tensors.reduce(
    (sum, { shape, dtype, declared }) => sum + sizeOf(shape) * itemBytes(declared ?? dtype),
    0,
  );
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((size, length) => size * length, 1);
}
