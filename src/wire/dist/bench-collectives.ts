import { type Bytes, median, now, type Seconds, type Tag } from '../../core';
import type { Engine } from '../../engine';
import { type Link, transferSeconds } from '../transport/link';
import { ringCost } from '../transport/ring-cost';
import type { PieceList, ProcessGroup } from './types';

const BENCH_OPS = ['allReduce', 'reduceScatter', 'allGather', 'allToAll'] as const;
export type BenchOp = (typeof BENCH_OPS)[number];

/** Sizes of the whole tensor in bytes. For allGather the whole tensor is the result. */
export const BENCH_SIZES: readonly Bytes[] = [4096, 65_536, 1 << 20, 16 << 20, 64 << 20];

/** Number of runs that are timed together, because one run of a small size is too short for the clock's resolution. */
const REPEATS: Readonly<Record<Bytes, number>> = { 4096: 100, 65536: 50, [1 << 20]: 20, [16 << 20]: 4 };
const NUM_SAMPLES = 5;
const TAG: Tag = { cause: 'comm', module: '' };

export interface BenchRow {
  readonly op: BenchOp;
  readonly bytes: Bytes;
  /** Median time of one collective. */
  readonly seconds: Seconds;
  /** Bus bandwidth, which can be compared between worlds of different sizes. Source: nccl-tests, PERFORMANCE.md. */
  readonly bytesPerSecond: number;
}

/**
 * Returns bytes / seconds times a factor: the share of the bytes that each link carries. The factor is 2(N-1)/N for allReduce,
 * and (N-1)/N for the other collectives.
 */
export function busBandwidth(op: BenchOp, bytes: Bytes, seconds: Seconds, world: number): number {
  const factor = ((op === 'allReduce' ? 2 : 1) * (world - 1)) / world;
  return (bytes / seconds) * factor;
}

/** Returns how long a collective takes on a shaped link, according to the link's model. */
export function modelSeconds(link: Link, op: BenchOp, bytes: Bytes, world: number): Seconds {
  const length = bytes / 4;
  const lists = listsOf(op, length, Math.floor(length / world), world);
  return transferSeconds(link, ringCost({ op, wireDType: 'float32', ...lists }, 0, world));
}

function listsOf(op: BenchOp, length: number, part: number, world: number) {
  const parts = Array.from({ length: world }, () => part);
  switch (op) {
    case 'allReduce':
      return { inputs: [length], outputs: [length] };
    case 'reduceScatter':
      return { inputs: parts, outputs: [part] };
    case 'allGather':
      return { inputs: [part], outputs: parts };
    case 'allToAll':
      return { inputs: parts, outputs: parts };
    default:
      return op satisfies never;
  }
}

/** Measures float32 collectives; all ranks of the group must call this function together. */
export function benchCollectives(
  group: ProcessGroup,
  engine: Engine,
  sizes: readonly Bytes[] = BENCH_SIZES,
): BenchRow[] {
  return sizes.flatMap((bytes) => benchSize(group, engine, bytes));
}

function benchSize(group: ProcessGroup, engine: Engine, bytes: Bytes): BenchRow[] {
  const length = bytes / 4;
  const part = Math.floor(length / group.size);
  const whole = engine.allocate([length], 'float32', TAG);
  const received = engine.allocate([length], 'float32', TAG);
  const share = engine.allocate([part], 'float32', TAG);
  for (const tensor of [whole, received, share]) engine.fill(tensor, 0);
  const partsOf = (tensor: typeof whole): PieceList[] =>
    group.ranks.map((_, rank) => [{ tensor, offset: rank * part, length: part }]);
  const [wholeParts, otherParts] = [partsOf(whole), partsOf(received)];
  const own: PieceList = [{ tensor: share, offset: 0, length: part }];
  const run: Record<BenchOp, () => unknown> = {
    allReduce: () => group.allReduce(whole),
    reduceScatter: () => group.reduceScatterPieces(wholeParts, own),
    allGather: () => group.allGatherPieces(own, otherParts),
    allToAll: () => group.allToAllPieces(wholeParts, otherParts),
  };
  try {
    return BENCH_OPS.map((op) => {
      const seconds = medianTime(group, run[op], REPEATS[bytes] ?? 2);
      return { op, bytes, seconds, bytesPerSecond: busBandwidth(op, bytes, seconds, group.size) };
    });
  } finally {
    for (const tensor of [whole, received, share]) tensor.dispose();
  }
}

function medianTime(group: ProcessGroup, run: () => unknown, repeats: number): Seconds {
  run();
  const samples = Array.from({ length: NUM_SAMPLES }, () => {
    group.barrier();
    const from = now();
    for (let i = 0; i < repeats; i++) run();
    return (now() - from) / repeats;
  });
  return median(samples);
}
