import type * as tf from '../../../core/tf';
import { type Kernel, present, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';

/** The kernel of the gradient of Cumprod. */
export const CUMPROD_GRAD = 'ShardlabCumprodGrad';

/** Registers the gradient of cumprod, which tfjs lacks. */
export function registerScans(context: WasmContext): void {
  replaceKernel(CUMPROD_GRAD, () => cumprodGrad(context));
}

/**
 * Returns the gradient of y = cumprod(x). Along a line, y[j] = x[0] ⋯ x[j], so dx[i] = x[0] ⋯ x[i-1] · s[i], where
 * s[i] = dy[i] + x[i+1] · s[i+1]; no division, so zeros are no special case. An exclusive product lacks its own factor, so
 * s[i] = dy[i+1] + x[i+1] · s[i+1]. A reverse product runs from the end.
 */
function cumprodGrad({ backend, hasValues }: WasmContext): Kernel {
  return ({ x, dy }, { axis, exclusive, reverse }) => {
    const { shape } = present(x);
    const dx = backend.makeOutput(shape, 'float32');
    if (!hasValues) return dx;
    const [from, by, to] = [x, dy, dx].map((info) => backend.typedArrayFromHeap(info as tf.TensorInfo)) as [
      Float32Array,
      Float32Array,
      Float32Array,
    ];
    const length = shape[Number(axis)] ?? 1;
    const inner = sizeOf(shape.slice(Number(axis) + 1));
    const own = exclusive === true ? 1 : 0;
    for (let line = 0; line < sizeOf(shape) / Math.max(1, length); line++) {
      const start = Math.floor(line / inner) * length * inner + (line % inner);
      const at = (i: number): number => start + (reverse === true ? length - 1 - i : i) * inner;
      let before = 1;
      for (let i = 0; i < length; i++) {
        to[at(i)] = before;
        before *= from[at(i)] ?? 0;
      }
      let after = 0;
      for (let i = length - 1; i >= 0; i--) {
        const next = i + 1 < length ? (from[at(i + 1)] ?? 0) * after : 0;
        after = next + (i + own < length ? (by[at(i + own)] ?? 0) : 0);
        to[at(i)] = (to[at(i)] ?? 0) * after;
      }
    }
    return dx;
  };
}
