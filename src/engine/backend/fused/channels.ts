import type * as tf from '../../../core/tf';
import { offsetOf, present, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';
import { FUSED } from './fused-kernel';

/**
 * Registers the kernels of batch norm and group norm: statistics and updates per channel of x [N, C, …]. These kernels have
 * no gradients of their own.
 */
export function registerChannels(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = (info: tf.TensorInfo | undefined): number => offsetOf(context, present(info));
  const perChannel = (x: tf.TensorInfo | undefined): tf.TensorInfo =>
    backend.makeOutput([present(x).shape[1] ?? 1], 'float32');
  replaceKernel(FUSED.channelMoments, () => ({ x }) => {
    const [mean, variance] = [perChannel(x), perChannel(x)];
    kernels.channelMoments(at(x), at(mean), at(variance), ...sizesOf(present(x)));
    return [mean, variance];
  });
  replaceKernel(FUSED.channelSums, () => ({ x }) => {
    const sums = perChannel(x);
    kernels.channelSums(at(x), at(sums), ...sizesOf(present(x)));
    return sums;
  });
  replaceKernel(FUSED.channelProducts, () => ({ x, dy, mean }) => {
    const products = perChannel(x);
    kernels.channelProducts(at(x), at(dy), at(mean), at(products), ...sizesOf(present(x)));
    return products;
  });
  replaceKernel(FUSED.channelAffine, () => ({ x, scale, shift }) => {
    const y = backend.makeOutput(present(x).shape, 'float32');
    kernels.channelAffine(at(x), at(scale), at(shift), at(y), ...sizesOf(present(x)));
    return y;
  });
  replaceKernel(FUSED.channelGrad, () => ({ x, dy, mean, scale, offset, slope }) => {
    const dx = backend.makeOutput(present(x).shape, 'float32');
    const factors = [at(mean), at(scale), at(offset), at(slope)] as const;
    kernels.channelGrad(at(x), at(dy), ...factors, at(dx), ...sizesOf(present(x)));
    return dx;
  });
}

/** Returns the numbers of images, channels and pixels of x [N, C, …]. */
function sizesOf({ shape }: tf.TensorInfo): [number, number, number] {
  const [images = 0, channels = 1, ...pixels] = shape;
  return [images, channels, sizeOf(pixels)];
}
