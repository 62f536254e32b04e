import { crc32 } from 'node:zlib';
import type { ChecksumRun } from './checksums';

/** Number of hexadecimal digits of one checksum. */
const DIGITS = 8;

/** Returns the CRC-32 of some bytes as hexadecimal digits. */
export function checksumOf(bytes: Uint8Array): string {
  return crc32(bytes).toString(16).padStart(DIGITS, '0');
}

/** Returns the checksum of the n-th block in a range of elements (`run`). */
export function blockChecksum(run: ChecksumRun, n: number): string {
  return run.crc32.slice(DIGITS * n, DIGITS * (n + 1));
}
