import { aliasOf, offsetOf, present, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';

/** An axis of the result: its length, and its stride in elements of the input. */
interface Axis {
  readonly length: number;
  readonly stride: number;
}

const MAX_AXES = 5;

/**
 * Replaces Transpose with a kernel that copies whole rows and transposes matrices in blocks. Above rank 3, tfjs's kernel copies
 * single elements.
 */
export function registerTranspose(context: WasmContext): void {
  replaceKernel('Transpose', (original) => ({ x }, attrs) => {
    const input = present(x);
    const perm = attrs.perm as number[];
    const shape = perm.map((axis) => input.shape[axis] ?? 1);
    // tfjs's kernel divides by lengths.
    if (sizeOf(shape) === 0) return context.backend.makeOutput(shape, input.dtype);
    const axes = mergeAxes(input.shape, perm);
    if (axes.length > MAX_AXES || (input.dtype !== 'float32' && input.dtype !== 'int32')) {
      return present(original)({ x: input }, attrs);
    }
    if (axes.length <= 1) return aliasOf(context, input, shape);
    const out = context.backend.makeOutput(shape, input.dtype);
    permute(context, offsetOf(context, input), offsetOf(context, out), axes);
    return out;
  });
}

/**
 * Returns the result's axes, outermost first, without axes of length 1. Axes that are neighbours in x and in the result are
 * merged.
 */
function mergeAxes(shape: readonly number[], perm: readonly number[]): Axis[] {
  const axes: Axis[] = [];
  for (const axis of perm) {
    const length = shape[axis] ?? 1;
    if (length === 1) continue;
    const stride = sizeOf(shape.slice(axis + 1));
    const last = axes.at(-1);
    if (last !== undefined && last.stride === length * stride) {
      axes[axes.length - 1] = { length: last.length * length, stride };
    } else {
      axes.push({ length, stride });
    }
  }
  return axes;
}

function permute({ kernels }: WasmContext, from: number, to: number, axes: readonly Axis[]): void {
  const [rows, columns] = axes.slice(-2) as [Axis, Axis]; // there are at least two axes
  const outer = [...Array<Axis>(MAX_AXES - axes.length).fill({ length: 1, stride: 0 }), ...axes.slice(0, -1)];
  const isMatrices = axes.length <= 3 && rows.stride === 1 && columns.stride === rows.length;
  if (isMatrices) {
    const batch = axes.length === 3 ? (axes[0] as Axis) : { length: 1, stride: 0 };
    for (let i = 0; i < batch.length; i++) {
      const out = to + 4 * i * rows.length * columns.length;
      kernels.transpose(from + 4 * i * batch.stride, out, columns.length, rows.length);
    }
    return;
  }
  const [a, b, c, d] = outer as [Axis, Axis, Axis, Axis]; // `outer` has four axes
  const pair = ({ length, stride }: Axis) => [length, stride] as const;
  kernels.permute(from, to, ...pair(a), ...pair(b), ...pair(c), ...pair(d), ...pair(columns));
}
