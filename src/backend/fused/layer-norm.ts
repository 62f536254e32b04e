import * as tf from '../../core/tf';
import { given, offsetOf, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';
import { FUSED, outputLike, runFused } from './fused-kernel';

/** Layer norm over the last axis. Saves x, weight, and mean and 1/deviation of each row. */
export function registerLayerNorm(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = (info: tf.TensorInfo | undefined): number => offsetOf(context, given(info));
  replaceKernel(FUSED.layerNorm, () => ({ x, weight, bias }, attrs) => {
    const { shape } = given(x);
    const width = shape.at(-1) ?? 1;
    const rows = sizeOf(shape) / width;
    const y = backend.makeOutput(shape, 'float32');
    const stats = backend.makeOutput([rows, 2], 'float32');
    kernels.layerNorm(at(x), at(weight), at(bias), at(y), at(stats), rows, width, Number(attrs.eps));
    return [y, stats];
  });
  replaceKernel(FUSED.layerNormGrad, () => ({ x, weight, stats, dy }) => {
    const width = given(weight).shape[0] ?? 1;
    const dWeight = backend.makeOutput([width], 'float32');
    const dBias = backend.makeOutput([width], 'float32');
    const dx = outputLike(context, given(dy));
    const rows = sizeOf(given(x).shape) / width;
    kernels.layerNormGrad(
      at(x),
      at(weight),
      at(stats),
      at(dy),
      dx.offset,
      at(dWeight),
      at(dBias),
      rows,
      width,
    );
    return [dx.info, dWeight, dBias];
  });
  tf.registerGradient({
    kernelName: FUSED.layerNorm,
    inputsToSave: ['x', 'weight'],
    outputsToSave: [false, true],
    gradFunc: (dys, saved) => {
      const [x, weight, stats] = [given(saved[0]), given(saved[1]), given(saved[2])];
      const dy = given((dys as tf.Tensor[])[0]);
      const [dx, dWeight, dBias] = runFused(FUSED.layerNormGrad, { x, weight, stats, dy });
      return { x: () => given(dx), weight: () => given(dWeight), bias: () => given(dBias) };
    },
  });
}
