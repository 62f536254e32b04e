import { type Bytes, ShardlabError } from '../../core';
import { type AbortReason, CONTROL_BYTES, ControlBlock } from './control-block';
import { loadNative, type Native } from './native';

/** The page size of WebAssembly memories. */
export const PAGE_BYTES = 65536;

/**
 * Default size of a segment. A segment is address space: a page takes memory only after its first use. The size limits the
 * number of groups that exist at one time ([Note: released groups]): a group of 2 ranks takes 51 MiB, a group of 4 ranks 90 MiB,
 * a group of 64 ranks 1.6 GiB.
 */
export const SEGMENT_BYTES: Bytes = 64 * 2 ** 30;

/** The segment as the launcher uses it: the memory that all ranks of a job share. */
export interface Segment {
  /** The file descriptor that ranks inherit. */
  readonly fd: number;
  readonly bytes: Bytes;
  /**
   * Makes every waiting rank throw an error with the reason's code within 100 ms. Returns false if a reason was given earlier.
   */
  abort(reason: AbortReason): boolean;
  /** Begins a new epoch after an interrupt or a mismatch, so that groups can be used again. No rank may be in a collective. */
  reset(): void;
  close(): void;
}

/** Makes the segment. Throws: TRANSPORT if koffi or Linux is missing, or the system refuses the memory file. */
export function createSegment(bytes: Bytes = SEGMENT_BYTES): Segment {
  const native = loadNative();
  const fd = native.createMemoryFile('shardlab', bytes);
  const { control } = openSegment(fd, bytes, native);
  return {
    fd,
    bytes,
    abort: (reason) => control.abort(reason),
    reset: () => control.reset(),
    close: () => native.closeFile(fd),
  };
}

/**
 * A part of the segment, mapped over the end of a WebAssembly memory, so that wasm kernels use the shared bytes without a copy.
 */
export interface MappedSegment {
  readonly memory: WebAssembly.Memory;
  /** The memory's address in this process. */
  readonly base: number;
}

/** The segment as a rank uses it. */
export interface OpenSegment {
  readonly native: Native;
  readonly bytes: Bytes;
  readonly control: ControlBlock;
  readonly controlBuffer: SharedArrayBuffer;
  /**
   * Makes a memory of `privateBytes` ordinary bytes, followed by bytes [offset, offset + bytes) of the segment. Throws:
   * TRANSPORT.
   */
  region(offset: Bytes, bytes: Bytes, privateBytes: Bytes): MappedSegment;
}

/** Opens an inherited segment. Throws: TRANSPORT. */
export function openSegment(fd: number, bytes = SEGMENT_BYTES, native = loadNative()): OpenSegment {
  const { memory } = mapRegion(native, fd, 0, CONTROL_BYTES, 0);
  const controlBuffer = sharedBuffer(memory);
  return {
    native,
    bytes,
    control: new ControlBlock(controlBuffer),
    controlBuffer,
    region(offset, length, privateBytes) {
      if (offset + length > bytes) {
        throw new ShardlabError(
          'TRANSPORT',
          `the job's shared segment has ${bytes} bytes, but ${offset + length} are needed for one more group; ` +
            'launch fewer ranks',
          { details: { bytes, needed: offset + length } },
        );
      }
      return mapRegion(native, fd, offset, length, privateBytes);
    },
  };
}

function mapRegion(
  native: Native,
  fd: number,
  offset: Bytes,
  bytes: Bytes,
  privateBytes: Bytes,
): MappedSegment {
  const pages = Math.ceil((privateBytes + bytes) / PAGE_BYTES);
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  const base = native.addressOf(new Uint8Array(memory.buffer));
  native.mapOver(base + privateBytes, bytes, fd, offset);
  return { memory, base };
}

/** Returns the buffer of a shared WebAssembly memory. */
export function sharedBuffer(memory: WebAssembly.Memory): SharedArrayBuffer {
  // The buffer of a shared WebAssembly memory is always a SharedArrayBuffer.
  return memory.buffer as ArrayBufferLike as SharedArrayBuffer;
}
