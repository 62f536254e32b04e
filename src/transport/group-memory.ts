import type { ThreadCpuClock } from '../core/thread-cpu';
import type { ControlBlock } from './control-block';
import { instantiateKernels, type ReductionKernels } from './kernels/load';
import { RegionLayout } from './layout';
import type { LinkClock } from './link-clock';
import type { GroupIdentity } from './mismatch';
import type { Native } from './native';
import { sharedBuffer } from './segment';

/** A group's memory and this rank's index in it: plain data, which can be sent to other threads of the process. */
export interface GroupAttachment {
  readonly identity: GroupIdentity;
  readonly memory: WebAssembly.Memory;
  readonly base: number;
}

/** A group's memory as one thread uses it. */
export interface GroupMemory {
  readonly identity: GroupIdentity;
  readonly rank: number;
  readonly size: number;
  readonly buffer: SharedArrayBuffer;
  readonly words: Int32Array;
  /** Native address of the memory's first byte in this process. */
  readonly base: number;
  readonly layout: RegionLayout;
  readonly native: Native;
  readonly control: ControlBlock;
  readonly kernels: ReductionKernels;
  /** undefined if links are not slowed down. */
  readonly link: LinkClock | undefined;
  /** The thread's CPU clock; undefined if it cannot be read. */
  readonly cpu: ThreadCpuClock | undefined;
}

/** Shared by all groups of a thread. */
export interface ThreadTools {
  readonly native: Native;
  readonly control: ControlBlock;
  readonly kernelModule: WebAssembly.Module;
  readonly link: LinkClock | undefined;
  /** The thread's CPU clock; undefined if it cannot be read. */
  readonly cpu: ThreadCpuClock | undefined;
}

export function attach(attachment: GroupAttachment, tools: ThreadTools): GroupMemory {
  const { identity, memory, base } = attachment;
  const buffer = sharedBuffer(memory);
  return {
    identity,
    rank: identity.rank,
    size: identity.ranks.length,
    buffer,
    words: new Int32Array(buffer),
    base,
    layout: new RegionLayout(identity.ranks.length),
    native: tools.native,
    control: tools.control,
    kernels: instantiateKernels(tools.kernelModule, memory),
    link: tools.link,
    cpu: tools.cpu,
  };
}
