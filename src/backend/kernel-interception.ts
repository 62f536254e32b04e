import * as tf from '../core/tf';
import { tfjsState } from './tfjs-state';

/** Gives a kernel's outputs without running it, or undefined to let it run. */
export type KernelStandIn = (
  kernelName: string,
  inputs: tf.NamedTensorMap,
  attrs: tf.NamedAttrMap | undefined,
) => tf.Tensor | tf.Tensor[] | undefined;

/**
 * From now on offers kernels that operations call (not those that other kernels call) to a stand-in. The returned
 * function ends this.
 */
export function interceptKernels(standIn: KernelStandIn): () => void {
  const engine = tf.engine();
  const before = Object.getOwnPropertyDescriptor(engine, 'runKernel');
  const run = engine.runKernel;
  const runKernel = (name: string, inputs: tf.NamedTensorMap, attrs?: tf.NamedAttrMap): unknown => {
    const outputs = tfjsState().kernelDepth === 0 ? standIn(name, inputs, attrs) : undefined;
    return outputs ?? run.call(engine, name, inputs, attrs);
  };
  Object.defineProperty(engine, 'runKernel', { value: runKernel, configurable: true });
  return () => {
    if (Object.getOwnPropertyDescriptor(engine, 'runKernel')?.value !== runKernel) return;
    if (before === undefined) Reflect.deleteProperty(engine, 'runKernel');
    else Object.defineProperty(engine, 'runKernel', before);
  };
}
