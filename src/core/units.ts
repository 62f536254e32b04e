/** A number of bytes. */
export type Bytes = number;

/** A time or a duration in seconds. Times are on a monotonic clock that all processes of a machine share. */
export type Seconds = number;

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
