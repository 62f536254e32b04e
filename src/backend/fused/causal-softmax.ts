import * as tf from '../../core/tf';
import { given, offsetOf, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';
import { FUSED, outputLike, runForFirst } from './fused-kernel';

/** Softmax of scaled scores over positions up to the row's own. Saves its output. */
export function registerCausalSoftmax(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = (info: tf.TensorInfo | undefined): number => offsetOf(context, given(info));
  replaceKernel(FUSED.causalSoftmax, () => ({ scores }, attrs) => {
    const { shape } = given(scores);
    const [rows = 1, columns = 1] = shape.slice(-2);
    const p = backend.makeOutput(shape, 'float32');
    kernels.causalSoftmax(at(scores), at(p), sizeOf(shape.slice(0, -2)), rows, columns, Number(attrs.scale));
    return p;
  });
  replaceKernel(FUSED.softmaxGrad, () => ({ p, dp }, attrs) => {
    const { shape } = given(p);
    const columns = shape.at(-1) ?? 1;
    const out = outputLike(context, given(dp));
    kernels.softmaxGrad(at(p), at(dp), out.offset, sizeOf(shape) / columns, columns, Number(attrs.scale));
    return out.info;
  });
  tf.registerGradient({
    kernelName: FUSED.causalSoftmax,
    outputsToSave: [true],
    gradFunc: (dp, saved, attrs) => ({
      scores: () => runForFirst(FUSED.softmaxGrad, { p: given(saved[0]), dp: dp as tf.Tensor }, attrs),
    }),
  });
}
