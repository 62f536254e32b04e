/** A number of bytes. */
export type Bytes = number;

/** A time or a duration in seconds. Times are on a monotonic clock that all processes of a machine share. */
export type Seconds = number;

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

const STEPS = [
  [1e12, 'TB'],
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
] as const;

/** Writes bytes with a decimal unit and three significant digits: 7_400_000 → "7.40 MB". */
export function formatBytes(bytes: Bytes): string {
  for (const [size, unit] of STEPS) {
    if (Math.abs(bytes) >= size) return `${(bytes / size).toPrecision(3)} ${unit}`;
  }
  return `${bytes} B`;
}

/** Writes a duration in s, ms or µs with three significant digits: 0.0123 → "12.3 ms". */
export function formatSeconds(seconds: Seconds): string {
  const size = Math.abs(seconds);
  if (size >= 1) return `${seconds.toPrecision(3)} s`;
  if (size >= 1e-3) return `${(seconds * 1e3).toPrecision(3)} ms`;
  return `${(seconds * 1e6).toPrecision(3)} µs`;
}
