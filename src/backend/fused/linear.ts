import * as tf from '../../core/tf';
import { given, replaceKernel, runKernel, type WasmContext } from '../wasm-context';
import { FUSED } from './fused-kernel';

/**
 * y = x Wᵀ + b in one matmul that starts from the bias. Shapes: x [rows, in], weight [out, in], bias [out]. Saves x and
 * weight.
 */
export function registerLinear(_context: WasmContext): void {
  replaceKernel(FUSED.linear, () => ({ x, weight, bias }) => {
    const attrs = { transposeA: false, transposeB: true };
    return runKernel('_FusedMatMul', { a: given(x), b: given(weight), bias: given(bias) }, attrs);
  });
  tf.registerGradient({
    kernelName: FUSED.linear,
    inputsToSave: ['x', 'weight'],
    gradFunc: (dy, saved) => {
      const [gradient, x, weight] = [dy as tf.Tensor2D, given(saved[0]), given(saved[1])];
      return {
        x: () => tf.matMul(gradient, weight),
        weight: () => tf.matMul(gradient, x, true, false),
        bias: () => tf.sum(gradient, 0),
      };
    },
  });
}
