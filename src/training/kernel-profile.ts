import type { TrainConfig } from '../config';
import { type Seconds, SILENT } from '../core';
import * as tf from '../core/tf';
import { type Engine, isView } from '../engine';
import type { ProcessGroup } from '../wire';
import { createTrainer } from './trainer';

/** One call of a kernel or of an in-place update in a step. A call within another call is not reported. */
export interface TimedCall {
  readonly name: string;
  /** Processor time of the call. Time in which the thread is preempted does not count. */
  readonly seconds: Seconds;
  /** Processor time between the previous call and this call, in which the library's own code runs. */
  readonly before: Seconds;
}

export interface TimedStep {
  readonly calls: readonly TimedCall[];
}

/** The config to profile, and the number of rounds. */
export interface ProfileOptions {
  readonly engine: Engine;
  /** A profile of kernels needs a group that has only this rank, because waits would count as the library's own time. */
  readonly group: ProcessGroup;
  readonly config: TrainConfig;
  readonly warmUp: number;
  readonly rounds: number;
}

/**
 * Trains a config and times every kernel and update of each step after the warm-up. Until this function returns, the
 * kernels of the process's engine are wrapped.
 */
export function profileSteps({ engine, group, config, warmUp, rounds }: ProfileOptions): TimedStep[] {
  const timer = new CallTimer();
  const restore = timeKernels(timer);
  try {
    const trainer = createTrainer({ config, engine: timedEngine(engine, timer), group, observer: SILENT });
    try {
      for (let step = 0; step < warmUp; step++) trainer.step();
      timer.take();
      return Array.from({ length: rounds }, () => {
        trainer.step();
        return { calls: timer.take() };
      });
    } finally {
      trainer.dispose();
    }
  } finally {
    restore();
  }
}

/** Trains a config on the group's ranks; returns the processor time of all threads in each step after the warm-up. */
export function timeSteps({ engine, group, config, warmUp, rounds }: ProfileOptions): Seconds[] {
  const trainer = createTrainer({ config, engine, group, observer: SILENT });
  try {
    for (let step = 0; step < warmUp; step++) trainer.step();
    return Array.from({ length: rounds }, () => {
      const start = processorSeconds();
      trainer.step();
      return processorSeconds() - start;
    });
  } finally {
    trainer.dispose();
  }
}

/** Returns the processor time of the whole process. While a rank trains alone, the other threads of its process sleep. */
function processorSeconds(): Seconds {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

class CallTimer {
  #calls: TimedCall[] = [];
  #lastEnd = processorSeconds();
  #depth = 0;

  /**
   * Runs a call and times it if `isReported(result)` is true; otherwise the call's time is part of `before` of the next
   * call.
   */
  time<T>(name: string, work: () => T, isReported: (result: T) => boolean): T {
    if (this.#depth > 0) return work();
    this.#depth++;
    const start = processorSeconds();
    let result: T;
    try {
      result = work();
    } finally {
      this.#depth--;
    }
    if (isReported(result)) {
      const end = processorSeconds();
      this.#calls.push({ name, seconds: end - start, before: start - this.#lastEnd });
      this.#lastEnd = end;
    }
    return result;
  }

  /** Returns the calls since the last `take`. */
  take(): readonly TimedCall[] {
    const calls = this.#calls;
    this.#calls = [];
    return calls;
  }
}

function timeKernels(timer: CallTimer): () => void {
  const configs = tf.getKernelsForBackend(tf.getBackend());
  const register = (config: tf.KernelConfig): void => {
    tf.unregisterKernel(config.kernelName, config.backendName);
    tf.registerKernel(config);
  };
  for (const config of configs) {
    const { kernelName, kernelFunc } = config;
    register({
      ...config,
      kernelFunc: (call) =>
        timer.time(
          kernelName,
          () => kernelFunc(call),
          (made) => {
            const [input] = Object.values(call.inputs) as (tf.TensorInfo | undefined)[]; // a kernel that gets a list of tensors, such as Concat, makes no view
            return !isView(kernelName, input, Array.isArray(made) ? made : [made]);
          },
        ),
    });
  }
  return () => {
    for (const config of configs) register(config);
  };
}

/** The in-place updates that a dry run reports under the same names. */
const UPDATES: ReadonlySet<PropertyKey> = new Set<keyof Engine>([
  'addInto',
  'adamW',
  'adamW8bit',
  'copyInto',
  'fill',
  'lion',
  'round',
  'scale',
  'sgd',
  'sumOfSquares',
]);

/** Returns an engine whose updates are timed. */
function timedEngine(engine: Engine, timer: CallTimer): Engine {
  return new Proxy(engine, {
    get(target, key) {
      const member: unknown = Reflect.get(target, key, target);
      if (typeof member !== 'function') return member;
      const run = (...args: readonly unknown[]): unknown => Reflect.apply(member, target, args);
      if (!UPDATES.has(key)) return run;
      return (...args: readonly unknown[]) =>
        timer.time(
          String(key),
          () => run(...args),
          // A dry run reports a fill only if the tensor is float32.
          () => key !== 'fill' || (args[0] as tf.Tensor).dtype === 'float32',
        );
    },
  });
}
