import type { Seconds } from './units';

/** CPU time of the calling thread; it does not advance while the thread waits, for whatever reason. */
export type ThreadCpuClock = () => Seconds;

/** CLOCK_THREAD_CPUTIME_ID. Source: Linux, uapi/linux/time.h; macOS, sys/_types/_clock_id.h. */
const CLOCK_ID: Readonly<Partial<Record<NodeJS.Platform, number>>> = { linux: 3, darwin: 16 };
const LIBRARIES: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  linux: ['libc.so.6', 'libc.musl-x86_64.so.1', 'libc.musl-aarch64.so.1'],
  darwin: ['libSystem.B.dylib'],
};

/**
 * The clock of this thread's CPU time (a read takes about a microsecond); undefined if the system or koffi has none.
 * Time that passes on the host's clock but not on this clock was spent waiting: for an event, or for a core.
 */
export function openThreadCpuClock(): ThreadCpuClock | undefined {
  const id = CLOCK_ID[process.platform];
  for (const name of LIBRARIES[process.platform] ?? []) {
    try {
      // Loaded on first use; koffi's declarations describe the result of require.
      const koffi = require('koffi') as typeof import('koffi');
      const read = koffi.load(name).func('int clock_gettime(int, void*)');
      const spec = Buffer.alloc(16);
      if (read(id, spec) !== 0) return undefined;
      return () => {
        read(id, spec);
        return Number(spec.readBigInt64LE(0)) + Number(spec.readBigInt64LE(8)) / 1e9;
      };
    } catch {
      // Tries the next library; without any, waits for a core are not recognised.
    }
  }
  return undefined;
}
