import * as tf from '../../../core/tf';
import { offsetOf, present, replaceKernel, sizeOf, type WasmContext } from '../wasm-context';
import { type WindowAttributes, windowNumbers } from '../window-sizes';
import { FUSED, runForFirst } from './fused-kernel';

/**
 * Registers max pooling: the largest value of each window over images [N, C, H, W]. The second output has the index of each
 * largest value in its plane; the gradient uses this index.
 */
export function registerMaxPool(context: WasmContext): void {
  const { kernels, backend } = context;
  const at = (info: tf.TensorInfo | undefined): number => offsetOf(context, present(info));
  replaceKernel(FUSED.maxPool2d, () => ({ x }, attrs) => {
    const [images = 0, channels = 0, ...image] = present(x).shape;
    const window = attrs as unknown as WindowAttributes & { readonly kernel: readonly number[] }; // attrs were checked
    const numbers = windowNumbers(image, window.kernel, window);
    const shape = [images, channels, numbers[10], numbers[11]];
    const [y, places] = [backend.makeOutput(shape, 'float32'), backend.makeOutput(shape, 'int32')];
    kernels.maxPool(at(x), at(y), at(places), images * channels, ...numbers);
    return [y, places];
  });
  replaceKernel(FUSED.maxPool2dGrad, () => ({ dy, places }, attrs) => {
    const inputShape = attrs.inputShape as number[]; // attrs were checked
    const planes = sizeOf(inputShape.slice(0, 2));
    const dx = backend.makeOutput(inputShape, 'float32');
    const [size, count] = [sizeOf(inputShape.slice(2)), sizeOf(present(dy).shape.slice(2))];
    kernels.maxPoolGrad(at(dy), at(places), at(dx), planes, size, count);
    return dx;
  });
  tf.registerGradient({
    kernelName: FUSED.maxPool2d,
    inputsToSave: [],
    outputsToSave: [false, true],
    gradFunc: (dys, [places], attrs) => ({
      x: () =>
        runForFirst(
          FUSED.maxPool2dGrad,
          { dy: present([dys].flat()[0]), places: present(places) },
          { inputShape: (attrs as { inputShape: number[] }).inputShape },
        ),
    }),
  });
}
