import * as tf from '../../../core/tf';
import { type Attributes, type Kernel, present, replaceKernel, type WasmContext } from '../wasm-context';

/** Replaces the gradients of convolutions of volumes, which read outside of their tensors in tfjs. */
export function registerConv3dGradients(context: WasmContext): void {
  replaceKernel('Conv3DBackpropInputV2', () => gradientOf(context, 'input'));
  replaceKernel('Conv3DBackpropFilterV2', () => gradientOf(context, 'filter'));
}

/** Returns the kernel of the gradient of `target`: a sum of products of dy and the other operand (x or filter). */
function gradientOf({ backend, hasValues }: WasmContext, target: 'filter' | 'input'): Kernel {
  return ({ x, filter, dy }, attrs) => {
    const operand = present(target === 'filter' ? x : filter);
    const shape = attrs[`${target}Shape`] as number[]; // an attribute of tfjs's kernel
    const [inputShape, filterShape] = target === 'filter' ? [operand.shape, shape] : [shape, operand.shape];
    const out = backend.makeOutput(shape, 'float32');
    if (!hasValues) return out;
    const result = backend.typedArrayFromHeap(out).fill(0);
    const [factors, gradients] = [operand, present(dy)].map((info) => backend.typedArrayFromHeap(info)) as [
      Float32Array,
      Float32Array,
    ];
    const { 3: inputs = 1, 4: outputs = 1 } = filterShape;
    forEachTap(inputShape, filterShape, attrs, (pixel, tap, position) => {
      for (let i = 0; i < inputs; i++) {
        for (let o = 0; o < outputs; o++) {
          const at = { input: pixel * inputs + i, filter: (tap * inputs + i) * outputs + o };
          const factor = factors[at[target === 'filter' ? 'input' : 'filter']] as number;
          const to = at[target];
          result[to] = (result[to] as number) + factor * (gradients[position * outputs + o] as number);
        }
      }
    });
    return out;
  };
}

type Shape5 = [number, number, number, number, number];

/** Calls `visit` for each tap of each window that is inside of the volume, with the indices of pixel, tap and result. */
function forEachTap(
  inputShape: readonly number[],
  filterShape: readonly number[],
  { strides, dilations, pad }: Attributes,
  visit: (pixel: number, tap: number, position: number) => void,
): void {
  const info = tf.backend_util.computeConv3DInfo(
    inputShape as Shape5, // the kernel's check has tested the ranks
    filterShape as Shape5,
    strides as number,
    (dilations ?? 1) as number,
    pad as 'same',
  );
  const { padInfo } = info;
  const axis = (
    length: number,
    out: number,
    size: number,
    stride: number,
    dilation: number,
    before: number,
  ) =>
    Array.from({ length: out }, (_, place) =>
      Array.from(
        { length: size },
        (_, tap) => [tap, place * stride + tap * dilation - before] as const,
      ).filter(([, at]) => at >= 0 && at < length),
    );
  const depths = axis(
    info.inDepth,
    info.outDepth,
    info.filterDepth,
    info.strideDepth,
    info.dilationDepth,
    padInfo.front,
  );
  const rows = axis(
    info.inHeight,
    info.outHeight,
    info.filterHeight,
    info.strideHeight,
    info.dilationHeight,
    padInfo.top,
  );
  const columns = axis(
    info.inWidth,
    info.outWidth,
    info.filterWidth,
    info.strideWidth,
    info.dilationWidth,
    padInfo.left,
  );
  let position = 0;
  for (let image = 0; image < info.batchSize; image++) {
    for (const depth of depths) {
      for (const row of rows) {
        for (const column of columns) {
          for (const [tapZ, z] of depth) {
            for (const [tapY, y] of row) {
              for (const [tapX, x] of column) {
                const pixel = ((image * info.inDepth + z) * info.inHeight + y) * info.inWidth + x;
                const tap = (tapZ * info.filterHeight + tapY) * info.filterWidth + tapX;
                visit(pixel, tap, position);
              }
            }
          }
          position++;
        }
      }
    }
  }
}
