import * as tf from '../../../core/tf';
import { present, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';
import { FUSED, runForFirst } from './fused-kernel';

/**
 * The windows along one axis: the pixels [begin, end) of each window, and the number by which the sum of these pixels is
 * divided.
 */
export type Windows = readonly { readonly begin: number; readonly end: number; readonly count: number }[];

/** The attributes of both kernels. */
interface PoolAttributes {
  readonly inputShape: number[];
  readonly rows: Windows;
  readonly columns: Windows;
}

/** Registers means of windows over images [N, C, H, W]. A mean depends only on the pixels of its window. */
export function registerAveragePool(context: WasmContext): void {
  const { backend } = context;
  replaceKernel(FUSED.averagePool2d, () => ({ x }, attrs) => {
    const { inputShape, rows, columns } = attrs as unknown as PoolAttributes; // attrs were checked
    const y = backend.makeOutput([...inputShape.slice(0, 2), rows.length, columns.length], 'float32');
    if (!context.hasValues) return y;
    const [from, to] = [backend.typedArrayFromHeap(present(x)), backend.typedArrayFromHeap(y)];
    forEachWindow(inputShape, rows, columns, (begin, end, width, height, share, out) => {
      let sum = 0;
      for (let line = 0; line < height; line++)
        for (let i = begin + line * width; i < end + line * width; i++) sum += from[i] as number;
      to[out] = sum * share;
    });
    return y;
  });
  replaceKernel(FUSED.averagePool2dGrad, () => ({ dy }, attrs) => {
    const { inputShape, rows, columns } = attrs as unknown as PoolAttributes; // attrs were checked
    const dx = backend.makeOutput(inputShape, 'float32');
    if (!context.hasValues) return dx;
    const [from, to] = [backend.typedArrayFromHeap(present(dy)), backend.typedArrayFromHeap(dx).fill(0)];
    forEachWindow(inputShape, rows, columns, (begin, end, width, height, share, out) => {
      const each = (from[out] as number) * share;
      for (let line = 0; line < height; line++)
        for (let i = begin + line * width; i < end + line * width; i++) to[i] = (to[i] as number) + each;
    });
    return dx;
  });
  tf.registerGradient({
    kernelName: FUSED.averagePool2d,
    inputsToSave: [],
    gradFunc: (dy, _, attrs) => ({
      x: () => runForFirst(FUSED.averagePool2dGrad, { dy: dy as tf.Tensor }, attrs as tf.NamedAttrMap),
    }),
  });
}

/** Calls `visit` for each window: the indices of its first line, its width and height, its pixels' share, and its result's index. */
function forEachWindow(
  shape: readonly number[],
  rows: Windows,
  columns: Windows,
  visit: (begin: number, end: number, width: number, height: number, share: number, out: number) => void,
): void {
  const [height = 0, width = 0] = shape.slice(2);
  let out = 0;
  for (let plane = 0; plane < sizeOf(shape.slice(0, 2)); plane++) {
    for (const row of rows) {
      const line = (plane * height + row.begin) * width;
      for (const column of columns) {
        const share = 1 / (row.count * column.count);
        visit(line + column.begin, line + column.end, width, row.end - row.begin, share, out++);
      }
    }
  }
}
