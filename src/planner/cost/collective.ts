import type { Bytes, Seconds } from '../../core';
import type { Calibration } from '../calibration';
import type { Hardware } from '../hardware';

/** Where the ranks of a group are: how many there are, and how many of them share a node. */
export interface GroupPlace {
  readonly size: number;
  readonly perNode: number;
}

/** Returns the place of `size` ranks whose indices are `stride` apart, as on a mesh axis whose inner axes have `stride` ranks. */
export function groupPlaceOf(size: number, stride: number, gpusPerNode: number): GroupPlace {
  return { size, perNode: Math.max(1, Math.min(size, Math.floor(gpusPerNode / stride))) };
}

/** Returns the bandwidth that one GPU gets on the slowest link of the group, bytes per second. */
export function bandwidthOf({ size, perNode }: GroupPlace, hardware: Hardware, cal: Calibration): number {
  const link = hardware.linkGBps * 1e9 * cal.linkEfficiency;
  if (size <= perNode) return link;
  // Each channel's ring enters a node once, so the network cards of all members in the node share the traffic.
  const cards = (perNode * hardware.nicGbit * 1e9 * cal.nicEfficiency) / 8;
  return Math.min(link, cards);
}

/** Returns the latency of all hops of a ring. A hop between nodes takes 14 µs (source: NCCL's graph/tuning.cc, ring, Simple). */
export function passLatency({ size, perNode }: GroupPlace, cal: Calibration): Seconds {
  if (size <= perNode) return (size - 1) * cal.hopSeconds;
  const nodes = size / perNode;
  return (size - nodes) * NVLINK_HOP_SECONDS + (nodes - 1) * NETWORK_HOP_SECONDS;
}

const NVLINK_HOP_SECONDS = 3.4e-6;
const NETWORK_HOP_SECONDS = 14e-6;

/**
 * Bus bandwidth divided by algorithm bandwidth: how often the payload passes the slowest link. Source: NCCL tests'
 * PERFORMANCE.md.
 */
export const BUS_FACTOR = {
  allReduce: (n: number): number => (2 * (n - 1)) / n,
  allGather: (n: number): number => (n - 1) / n,
  reduceScatter: (n: number): number => (n - 1) / n,
  allToAll: (n: number): number => (n - 1) / n,
  broadcast: (): number => 1,
  reduce: (): number => 1,
  gather: (n: number): number => (n - 1) / n,
  scatter: (n: number): number => (n - 1) / n,
  send: (): number => 1,
} as const;

export type GroupOperation = keyof typeof BUS_FACTOR;

/**
 * Returns the time in which a GPU sends bytes directly to other ranks: `inside` over the links of its node, and `outside` over its
 * own network card. Source: NCCL's all-to-all (grouped sends and receives, one hop each), one card per GPU.
 */
export function exchangeSeconds(
  { inside, outside }: { readonly inside: Bytes; readonly outside: Bytes },
  hardware: Hardware,
  cal: Calibration,
): Seconds {
  const link = hardware.linkGBps * 1e9 * cal.linkEfficiency;
  const card = (hardware.nicGbit * 1e9 * cal.nicEfficiency) / 8;
  return cal.collectiveSeconds + cal.hopSeconds + Math.max(inside / link, outside / card);
}

/**
 * Returns the time of a collective (alpha-beta model); `bytes` is the size of the whole tensor (for an all-gather, of the
 * result).
 */
export function collectiveSeconds(
  op: GroupOperation,
  bytes: Bytes,
  place: GroupPlace,
  hardware: Hardware,
  cal: Calibration,
): Seconds {
  if (place.size <= 1) return 0;
  const passes = op === 'allReduce' ? 2 : 1;
  const latency = cal.collectiveSeconds + passes * passLatency(place, cal);
  return latency + (bytes * BUS_FACTOR[op](place.size)) / bandwidthOf(place, hardware, cal);
}
