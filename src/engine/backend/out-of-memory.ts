import { type Bytes, formatBytes, ShardlabError, type Tag } from '../../core';
import type { BufferTable, Holding } from './buffer-table';

/** The largest end of a wasm heap, because addresses have 32 bits. */
export const HEAP_END: Bytes = 2 ** 32;

/**
 * The limit that a request exceeds: the user's memoryLimit, the largest wasm heap, the heap of host arrays, or a machine on
 * which the heap cannot grow further.
 */
export type Boundary = keyof typeof BOUNDARIES;

const BOUNDARIES = {
  memoryLimit: { end: 'the memoryLimit is', advice: 'raise memoryLimit' },
  heap: { end: "the wasm engine's heap ends at", advice: 'use FULL_SHARD' },
  hostHeap: {
    end: "the host's heap grows no further than",
    advice: 'offload less to the host (setting offload)',
  },
  host: {
    end: "this machine or container lets the wasm engine's heap grow no further than",
    advice: 'raise the limit (ulimit -v, the limit of the container)',
  },
} as const;

/** The request that the engine's memory could not satisfy. */
export interface FailedRequest {
  readonly bytes: Bytes;
  readonly shape: readonly number[];
  readonly dtype: string;
  /** The limit that the request exceeds, as a key of `BOUNDARIES`. */
  readonly boundary: Boundary;
  readonly limit: Bytes;
  /** The tag of the buffer. Default: the table's current tag. */
  readonly tag?: Tag;
}

/** The fields `boundary` and `limit` of a request that failed because the engine's heap is full. */
export const FULL_HEAP = { boundary: 'heap', limit: HEAP_END } as const;

const MAX_LISTED = 12;

/** Returns the error for a buffer that does not fit: it names the request, the held bytes by tag, and what to change. */
export function outOfMemory(table: BufferTable, request: FailedRequest): ShardlabError {
  const { bytes, shape, dtype, boundary, limit, tag = table.currentTag } = request;
  const space = boundary === 'hostHeap' ? 'host' : 'device';
  const [held, holdings] = [table.bytesIn(space), table.holdingsIn(space)];
  const listed = holdings.slice(0, MAX_LISTED).map(describe);
  const others = holdings.length - listed.length;
  if (others > 0) listed.push(`${others} more`);
  const { end, advice } = BOUNDARIES[boundary];
  return new ShardlabError(
    'OUT_OF_MEMORY',
    `${formatBytes(bytes)} for ${nameOf(tag)} (${dtype} [${shape.join(', ')}]) do not fit: ` +
      `${formatBytes(held)} are held and ${end} ${formatBytes(limit)}. Held: ${listed.join('; ') || 'nothing'}. ` +
      `Make the batch, the sequence or the model smaller, shard over more ranks, or ${advice}.`,
    { details: { asked: bytes, shape, dtype, tag, boundary, limit, held, holdings } },
  );
}

function describe(holding: Holding): string {
  return `${nameOf(holding)} ${formatBytes(holding.bytes)}`;
}

function nameOf(tag: Tag): string {
  return tag.module === '' ? tag.cause : `${tag.cause} of ${tag.module}`;
}
