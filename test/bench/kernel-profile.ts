import * as tf from '../../src/core/tf';

/** Time in one kernel alone, without the kernels that it called. */
export interface KernelTime {
  readonly kernel: string;
  calls: number;
  milliseconds: number;
}

/** Times every kernel of the wasm backend from now on. */
export function profileKernels(): { readonly times: () => KernelTime[]; readonly reset: () => void } {
  const times = new Map<string, KernelTime>();
  const inner: number[] = [];
  for (const config of tf.getKernelsForBackend('wasm')) {
    const { kernelName, kernelFunc } = config;
    tf.unregisterKernel(kernelName, 'wasm');
    const timed: tf.KernelFunc = (call) => {
      const start = performance.now();
      inner.push(0);
      try {
        return kernelFunc(call);
      } finally {
        const whole = performance.now() - start;
        const own = whole - (inner.pop() ?? 0);
        if (inner.length > 0) inner[inner.length - 1] = (inner.at(-1) ?? 0) + whole;
        const entry = times.get(kernelName) ?? { kernel: kernelName, calls: 0, milliseconds: 0 };
        entry.calls++;
        entry.milliseconds += own;
        times.set(kernelName, entry);
      }
    };
    tf.registerKernel({ ...config, kernelFunc: timed });
  }
  return {
    times: () => [...times.values()].sort((a, b) => b.milliseconds - a.milliseconds),
    reset: () => times.clear(),
  };
}
