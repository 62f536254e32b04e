import type { Seconds } from './units';

/** Returns the CPU time of the calling thread, which does not advance while the thread waits. */
export type ThreadCpuClock = () => Seconds;

/** CLOCK_THREAD_CPUTIME_ID. Source: Linux, uapi/linux/time.h; macOS, sys/_types/_clock_id.h. */
const CLOCK_ID: Readonly<Partial<Record<NodeJS.Platform, number>>> = { linux: 3, darwin: 16 };
const LIBRARIES: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  linux: ['libc.so.6', 'libc.musl-x86_64.so.1', 'libc.musl-aarch64.so.1'],
  darwin: ['libSystem.B.dylib'],
};

/**
 * Returns a clock of this thread's CPU time (a read takes about a microsecond), or undefined if the system has no such clock or
 * koffi cannot be loaded. If the machine's clock advances but this clock does not, the thread waits for an event or for a core.
 */
export function openThreadCpuClock(): ThreadCpuClock | undefined {
  const id = CLOCK_ID[process.platform];
  for (const name of LIBRARIES[process.platform] ?? []) {
    try {
      // koffi is loaded on first use; koffi's declarations describe the result of require.
      const koffi = require('koffi') as typeof import('koffi');
      const read = koffi.load(name).func('int clock_gettime(int, void*)');
      const spec = Buffer.alloc(16);
      if (read(id, spec) !== 0) return undefined;
      return () => {
        read(id, spec);
        return Number(spec.readBigInt64LE(0)) + Number(spec.readBigInt64LE(8)) / 1e9;
      };
    } catch {
      // The next library is tried; if none works, waits for a core are not recognised.
    }
  }
  return undefined;
}
