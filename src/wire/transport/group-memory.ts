import type { ThreadCpuClock } from '../../core';
import type { ControlBlock } from './control-block';
import { instantiateKernels, type ReductionKernels } from './kernels/load';
import { RegionLayout } from './layout';
import type { GroupLinks, Links } from './links';
import type { GroupIdentity } from './mismatch';
import type { Native } from './native';
import { sharedBuffer } from './segment';

/** A group's identity and memory as plain data, so that it can be sent to other threads of the process. */
export interface GroupAttachment {
  readonly identity: GroupIdentity;
  readonly memory: WebAssembly.Memory;
  readonly base: number;
}

/** Objects that all groups of a thread share. */
export interface ThreadTools {
  readonly native: Native;
  readonly control: ControlBlock;
  readonly kernelModule: WebAssembly.Module;
  /** The rank's shaped links; undefined if links are not shaped. */
  readonly links: Links | undefined;
  /** The thread's CPU clock; undefined if the system gives no access to it. */
  readonly cpu: ThreadCpuClock | undefined;
}

/** A group's memory, with the objects by which one thread uses it. */
export interface GroupMemory extends ThreadTools {
  readonly identity: GroupIdentity;
  readonly rank: number;
  readonly size: number;
  readonly buffer: SharedArrayBuffer;
  readonly words: Int32Array;
  /** Native address of the memory's first byte in this process. */
  readonly base: number;
  readonly layout: RegionLayout;
  readonly kernels: ReductionKernels;
  /** The shaped links of the group's calls; undefined if they are as fast as the transport. */
  readonly link: GroupLinks | undefined;
}

export function attach({ identity, memory, base }: GroupAttachment, tools: ThreadTools): GroupMemory {
  const buffer = sharedBuffer(memory);
  const size = identity.ranks.length;
  return {
    ...tools,
    identity,
    rank: identity.rank,
    size,
    buffer,
    words: new Int32Array(buffer),
    base,
    layout: new RegionLayout(size),
    kernels: instantiateKernels(tools.kernelModule, memory),
    link: tools.links?.ofGroup(identity),
  };
}

/**
 * Sleeps while `holds(word)` is true. A sleeper adds itself to the count of sleepers before it reads the word, so
 * either the waking rank sees the count, or the sleeper sees the word's new value.
 */
export function sleepOn(
  { words, native, base }: GroupMemory,
  at: { readonly word: number; readonly sleepers: number },
  holds: (value: number) => boolean,
  milliseconds: number,
): void {
  Atomics.add(words, at.sleepers, 1);
  try {
    const value = Atomics.load(words, at.word);
    if (holds(value)) native.waitWord(base + at.word * 4, value, milliseconds);
  } finally {
    Atomics.sub(words, at.sleepers, 1);
  }
}
