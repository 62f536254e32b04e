import * as tf from '../../core/tf';
import { given, offsetOf, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';
import { FUSED, outputLike, runForFirst } from './fused-kernel';

/** GELU in its tanh form. Saves x. */
export function registerGelu(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = (info: tf.TensorInfo | undefined): number => offsetOf(context, given(info));
  replaceKernel(FUSED.gelu, () => ({ x }) => {
    const y = backend.makeOutput(given(x).shape, 'float32');
    kernels.gelu(at(x), at(y), sizeOf(y.shape));
    return y;
  });
  replaceKernel(FUSED.geluGrad, () => ({ x, dy }) => {
    const dx = outputLike(context, given(dy));
    kernels.geluGrad(at(x), at(dy), dx.offset, sizeOf(given(x).shape));
    return dx.info;
  });
  tf.registerGradient({
    kernelName: FUSED.gelu,
    inputsToSave: ['x'],
    gradFunc: (dy, saved) => ({
      x: () => runForFirst(FUSED.geluGrad, { x: given(saved[0]), dy: dy as tf.Tensor }),
    }),
  });
}
