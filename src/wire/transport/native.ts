import { constants } from 'node:os';
import type * as Koffi from 'koffi';
import { type Bytes, ShardlabError } from '../../core';

/** Functions of libc that the shared memory plane needs; koffi calls them. */
export interface Native {
  /** Makes an anonymous file in memory. A child process inherits the file only as one of its stdio files. Throws: TRANSPORT. */
  createMemoryFile(name: string, bytes: Bytes): number;
  closeFile(fd: number): void;
  /** Maps [offset, offset + bytes) of the file over the memory at `address`. Throws: TRANSPORT. */
  mapOver(address: number, bytes: Bytes, fd: number, offset: Bytes): void;
  /** Gives the pages of a file that is mapped at `address` back to the system; the file has zeros there then. */
  discard(address: number, bytes: Bytes): void;
  addressOf(array: Uint8Array): number;
  copy(target: number, source: number, bytes: Bytes): void;
  clear(target: number, bytes: Bytes): void;
  /** Sleeps while the word at `address` is `expected`, at most `milliseconds`; the sleep may end earlier without a reason. */
  waitWord(address: number, expected: number, milliseconds: number): void;
  /** Wakes all processes and threads that sleep on the word at `address`. */
  wakeWord(address: number): void;
}

/** Number of the futex system call. Source: Linux, arch/x86/entry/syscalls/syscall_64.tbl and asm-generic/unistd.h. */
const FUTEX = { x64: 202, arm64: 98 } as const;
const FUTEX_WAIT = 0;
const FUTEX_WAKE = 1;
const MFD_CLOEXEC = 1;
const PROT_READ_WRITE = 3;
const MAP_SHARED_FIXED = 0x11;
const MADV_REMOVE = 9;
const EVERYONE = 0x7fffffff;

/**
 * Loads koffi and libc. In this folder, only this file loads koffi, so a machine without koffi can use another plane.
 * Throws: TRANSPORT if koffi, Linux or the processor's futex number is missing.
 */
export function loadNative(): Native {
  const futex = futexFor(process.platform, process.arch);
  const koffi = loadKoffi();
  const libc = loadLibc(koffi);
  const memfdCreate = libc.func('int memfd_create(const char*, unsigned int)');
  const ftruncate = libc.func('int ftruncate(int, int64_t)');
  const close = libc.func('int close(int)');
  const mmap = libc.func('intptr_t mmap(uint64_t, size_t, int, int, int, int64_t)');
  const madvise = libc.func('int madvise(uint64_t, size_t, int)');
  const memcpy = libc.func('intptr_t memcpy(uint64_t, uint64_t, size_t)');
  const memset = libc.func('intptr_t memset(uint64_t, int, size_t)');
  const syscall = libc.func('long syscall(long, uint64_t, int, uint32_t, void*, void*, uint32_t)');
  const timespec = Buffer.alloc(16);
  const fail = (call: string): never => {
    throw new ShardlabError('TRANSPORT', `${call} failed with errno ${koffi.errno()}`);
  };
  return {
    createMemoryFile(name, bytes) {
      const fd = Number(memfdCreate(name, MFD_CLOEXEC));
      if (fd < 0) return fail('memfd_create');
      if (Number(ftruncate(fd, bytes)) !== 0) {
        close(fd);
        return fail(`ftruncate to ${bytes} bytes`);
      }
      return fd;
    },
    closeFile: (fd) => void close(fd),
    mapOver(address, bytes, fd, offset) {
      const at = Number(mmap(address, bytes, PROT_READ_WRITE, MAP_SHARED_FIXED, fd, offset));
      if (at !== address) fail(`mmap of ${bytes} bytes at offset ${offset} of descriptor ${fd}`);
    },
    discard(address, bytes) {
      if (Number(madvise(address, bytes, MADV_REMOVE)) !== 0) memset(address, 0, bytes);
    },
    addressOf: (array) => Number(koffi.address(array)),
    copy: (target, source, bytes) => void memcpy(target, source, bytes),
    clear: (target, bytes) => void memset(target, 0, bytes),
    waitWord(address, expected, milliseconds) {
      timespec.writeBigInt64LE(BigInt(Math.floor(milliseconds / 1e3)), 0);
      timespec.writeBigInt64LE(BigInt(Math.round((milliseconds % 1e3) * 1e6)), 8);
      syscall(futex, address, FUTEX_WAIT, expected >>> 0, timespec, null, 0);
    },
    wakeWord: (address) => void syscall(futex, address, FUTEX_WAKE, EVERYONE, null, null, 0),
  };
}

function futexFor(platform: string, arch: string): number {
  if (platform !== 'linux') {
    throw new ShardlabError('TRANSPORT', `shared memory between ranks needs Linux; this is ${platform}`);
  }
  if (arch !== 'x64' && arch !== 'arm64') {
    throw new ShardlabError('TRANSPORT', `shared memory between ranks needs x64 or arm64; this is ${arch}`);
  }
  return FUTEX[arch];
}

function loadKoffi(): typeof Koffi {
  try {
    // koffi loads on first use; koffi's type declarations describe the result of `require`.
    return require('koffi') as typeof Koffi;
  } catch (cause) {
    throw new ShardlabError('TRANSPORT', `koffi does not load: ${String(cause)}`, { cause });
  }
}

/** The option of prctl that chooses the signal that Linux sends to this process when its parent ends. Source: prctl(2). */
const PR_SET_PDEATHSIG = 1;

/**
 * Makes Linux continue this process when its parent ends: a process that SIGSTOP has stopped cannot notice the parent's end, and
 * would never end. Has no effect on other systems, and without koffi.
 */
export function continueAtParentsEnd(): void {
  if (process.platform !== 'linux') return;
  try {
    const prctl = loadLibc(loadKoffi()).func('int prctl(int, ulong)');
    prctl(PR_SET_PDEATHSIG, constants.signals.SIGCONT);
  } catch (error) {
    if (!(error instanceof ShardlabError)) throw error;
  }
}

function loadLibc(koffi: typeof Koffi): Koffi.LibraryHandle {
  const failures: string[] = [];
  for (const name of ['libc.so.6', 'libc.so', 'libc.musl-x86_64.so.1', 'libc.musl-aarch64.so.1']) {
    try {
      return koffi.load(name);
    } catch (cause) {
      failures.push(`${name}: ${String(cause)}`);
    }
  }
  throw new ShardlabError('TRANSPORT', `no libc could be loaded (${failures.join('; ')})`);
}

const PROBE_BYTES = 65536;

export type SharedMemoryProbe = { readonly ok: true } | { readonly ok: false; readonly reason: string };

/**
 * Tests whether ranks can share memory here: loads koffi, makes a memory file of `bytes` (ulimit -f may refuse a large
 * one), and maps it over a WebAssembly memory.
 */
export function probeSharedMemory(bytes: Bytes = PROBE_BYTES): SharedMemoryProbe {
  try {
    const native = loadNative();
    const fd = native.createMemoryFile('shardlab-probe', bytes);
    try {
      probeMapping(native, fd);
    } finally {
      native.closeFile(fd);
    }
    return { ok: true };
  } catch (error) {
    return { ok: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

function probeMapping(native: Native, fd: number): void {
  const views = [0, 1].map(() => {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
    const bytes = new Uint8Array(memory.buffer);
    native.mapOver(native.addressOf(bytes), PROBE_BYTES, fd, 0);
    return bytes;
  });
  const [first, second] = views;
  if (first === undefined || second === undefined) return;
  first[4095] = 7;
  if (second[4095] !== 7) {
    throw new ShardlabError('TRANSPORT', 'two mappings of one memory file do not show the same bytes');
  }
}
