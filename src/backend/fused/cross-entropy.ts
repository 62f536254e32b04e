import * as tf from '../../core/tf';
import { given, offsetOf, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';
import { FUSED, outputLike, runForFirst } from './fused-kernel';

/**
 * Mean cross-entropy of softmax(logits [rows, classes]) against labels [rows]. Saves logits, labels and the rows'
 * norms; the gradient overwrites the logits if no other tensor uses them. In the in-place form, forward already
 * overwrites them.
 */
export function registerCrossEntropy(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = (info: tf.TensorInfo | undefined): number => offsetOf(context, given(info));
  replaceKernel(FUSED.crossEntropy, () => ({ logits, labels }) => {
    const [rows, classes] = sizesOf(given(logits));
    const norms = backend.makeOutput([rows], 'float32');
    const losses = backend.makeOutput([rows], 'float32');
    kernels.crossEntropy(at(logits), at(labels), at(losses), at(norms), rows, classes);
    return [meanOf(context, losses), norms];
  });
  replaceKernel(FUSED.crossEntropyGrad, () => ({ logits, labels, norms, dy }) => {
    const [rows, classes] = sizesOf(given(logits));
    const out = outputLike(context, given(logits));
    const scale = numberIn(context, given(dy)) / rows;
    kernels.crossEntropyGrad(at(logits), at(labels), at(norms), out.offset, rows, classes, scale);
    return out.info;
  });
  tf.registerGradient({
    kernelName: FUSED.crossEntropy,
    inputsToSave: ['logits', 'labels'],
    outputsToSave: [false, true],
    gradFunc: (dys, saved) => {
      const [logits, labels, norms] = [given(saved[0]), given(saved[1]), given(saved[2])];
      const dy = given((dys as tf.Tensor[])[0]);
      return { logits: () => runForFirst(FUSED.crossEntropyGrad, { logits, labels, norms, dy }) };
    },
  });
  registerInPlace(context);
}

function registerInPlace(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = (info: tf.TensorInfo | undefined): number => offsetOf(context, given(info));
  replaceKernel(FUSED.crossEntropyInPlace, () => ({ logits, labels }) => {
    const [rows, classes] = sizesOf(given(logits));
    const losses = backend.makeOutput([rows], 'float32');
    kernels.crossEntropyInPlace(at(logits), at(labels), at(losses), rows, classes, 1 / rows);
    return meanOf(context, losses);
  });
  replaceKernel(FUSED.scaledGrad, () => ({ x, dy }) => {
    const scale = numberIn(context, given(dy));
    const out = outputLike(context, given(x));
    if (out.offset !== at(x))
      backend.wasm.HEAPU8.copyWithin(out.offset, at(x), at(x) + 4 * sizeOf(given(x).shape));
    if (scale !== 1) kernels.scale(out.offset, scale, sizeOf(given(x).shape));
    return out.info;
  });
  tf.registerGradient({
    kernelName: FUSED.crossEntropyInPlace,
    inputsToSave: ['logits'],
    gradFunc: (dy, saved) => ({
      logits: () => runForFirst(FUSED.scaledGrad, { x: given(saved[0]), dy: dy as tf.Tensor }),
    }),
  });
}

function sizesOf(logits: tf.TensorInfo): [number, number] {
  const classes = logits.shape.at(-1) ?? 1;
  return [sizeOf(logits.shape) / classes, classes];
}

function numberIn(context: WasmContext, scalar: tf.TensorInfo): number {
  return context.backend.typedArrayFromHeap(scalar)[0] ?? Number.NaN;
}

/** The mean of `losses`, summed in float64; frees them. */
function meanOf(context: WasmContext, losses: tf.TensorInfo): tf.TensorInfo {
  const values = context.backend.typedArrayFromHeap(losses);
  let sum = 0;
  for (const value of values) sum += value;
  const mean = sum / values.length;
  context.backend.disposeData(losses.dataId);
  const out = context.backend.makeOutput([], 'float32');
  context.backend.typedArrayFromHeap(out)[0] = mean;
  return out;
}
