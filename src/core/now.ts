import type { Seconds } from './units';

const originSeconds = Math.min(...Array.from({ length: 5 }, readOrigin));

/**
 * Reads the origin of performance.now. The first read is half a millisecond too late, so the least of several reads is used.
 */
function readOrigin(): Seconds {
  const since = performance.now();
  return Number(process.hrtime.bigint()) / 1e9 - since / 1e3;
}

/** Returns the time of the machine's monotonic clock. It is comparable between the machine's processes, but is no time of day. */
export function now(): Seconds {
  return originSeconds + performance.now() / 1e3;
}
