import type { Seconds } from '../../core';

/** The time of one pass through one layer for one microbatch on one rank; seconds. */
export interface PassTime {
  readonly products: Seconds;
  readonly attention: Seconds;
  readonly elementwise: Seconds;
  /** Collectives of tensor and context parallelism that the compute waits for. */
  readonly comm: Seconds;
  /** The time of the CPU to launch the kernels. */
  readonly host: Seconds;
}

export const NO_PASS: PassTime = { products: 0, attention: 0, elementwise: 0, comm: 0, host: 0 };

/** Returns the time of a pass: GPU and CPU run at the same time, so the slower one decides. */
export function passSeconds(pass: PassTime): Seconds {
  return Math.max(deviceSeconds(pass), pass.host);
}

export function deviceSeconds({ products, attention, elementwise, comm }: PassTime): Seconds {
  return products + attention + elementwise + comm;
}

export function addPasses(a: PassTime, b: PassTime): PassTime {
  return eachCause((cause) => a[cause] + b[cause]);
}

export function scaledPass(pass: PassTime, times: number): PassTime {
  return eachCause((cause) => pass[cause] * times);
}

function eachCause(seconds: (cause: keyof PassTime) => Seconds): PassTime {
  return {
    products: seconds('products'),
    attention: seconds('attention'),
    elementwise: seconds('elementwise'),
    comm: seconds('comm'),
    host: seconds('host'),
  };
}
