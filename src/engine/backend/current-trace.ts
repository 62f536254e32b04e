import * as tf from '../../core/tf';

/** A call of tfjs's engine: its kernel, inputs, attributes and outputs. */
export interface TracedKernel {
  readonly name: string;
  readonly inputs: Readonly<Record<string, tf.Tensor>>;
  readonly attrs: Readonly<Record<string, unknown>>;
  readonly outputs: readonly tf.Tensor[];
}

/**
 * What notes the operations and modules of a forward, so that the forward can be written in another language. Library code
 * calls it at places where kernels alone do not say what is computed.
 */
export interface Trace {
  /** Runs a module's forward, and notes it as a call. */
  module(module: object, inputs: readonly unknown[], run: () => unknown): unknown;
  /** Runs `work`, and notes it as one operation in place of its kernels. */
  operation(name: string, call: Omit<TracedKernel, 'name' | 'outputs'>, work: () => tf.Tensor): tf.Tensor;
  /** Runs `read`, which reads values of tensors on the host only for checks. */
  checking<T>(read: () => T): T;
  /** Notes that a forward changes a buffer of a module. */
  changesBuffer(name: string): void;
}

const TRACE = Symbol('the trace on a tfjs backend');

interface Marked {
  [TRACE]?: Trace | null;
}

/** Returns the trace that notes what runs now; null if nothing is traced. */
export function currentTrace(): Trace | null {
  return (tf.backend() as Marked)[TRACE] ?? null; // a backend is an object, which may have further members
}

/** Runs `work` under a trace. */
export function tracing<T>(trace: Trace, work: () => T): T {
  const backend = tf.backend() as Marked;
  backend[TRACE] = trace;
  try {
    return work();
  } finally {
    backend[TRACE] = null;
  }
}
