import type { Bytes, Seconds } from '../../core/units';
import type { Calibration } from '../calibration';
import type { Hardware } from '../hardware';

/** Where the ranks of a group are: how many there are, and how many of them share a node. */
export interface GroupPlace {
  readonly size: number;
  readonly perNode: number;
}

/** Ranks that lie `stride` apart, `size` of them: a mesh axis with `stride` ranks inside of it. */
export function placeOf(size: number, stride: number, gpusPerNode: number): GroupPlace {
  return { size, perNode: Math.max(1, Math.min(size, Math.floor(gpusPerNode / stride))) };
}

/** One GPU's share of the bandwidth across the slowest cut, bytes per second. */
export function bandwidthOf({ size, perNode }: GroupPlace, hardware: Hardware, cal: Calibration): number {
  const link = hardware.linkGBps * 1e9 * cal.linkEfficiency;
  if (size <= perNode) return link;
  // A ring over nodes enters each node once a channel: the members' cards together carry it.
  const cards = (perNode * hardware.nicGbit * 1e9 * cal.nicEfficiency) / 8;
  return Math.min(link, cards);
}

/** Latency of a ring's pass. Source of the hops between nodes: NCCL's tuning table (graph/tuning.cc): ring, Simple, 14 µs. */
export function passLatency({ size, perNode }: GroupPlace, cal: Calibration): Seconds {
  if (size <= perNode) return (size - 1) * cal.hopSeconds;
  const nodes = size / perNode;
  return (size - nodes) * NVLINK_HOP_SECONDS + (nodes - 1) * NETWORK_HOP_SECONDS;
}

const NVLINK_HOP_SECONDS = 3.4e-6;
const NETWORK_HOP_SECONDS = 14e-6;

/**
 * Bus bandwidth over algorithm bandwidth: how often the payload passes the slowest link. Source: NCCL tests' PERFORMANCE.md.
 */
export const BUS_FACTOR = {
  allReduce: (n: number): number => (2 * (n - 1)) / n,
  allGather: (n: number): number => (n - 1) / n,
  reduceScatter: (n: number): number => (n - 1) / n,
  allToAll: (n: number): number => (n - 1) / n,
  broadcast: (): number => 1,
  reduce: (): number => 1,
  send: (): number => 1,
} as const;

export type GroupOperation = keyof typeof BUS_FACTOR;

/** Time of one collective by the alpha-beta model; `bytes` is the whole tensor (all-gather: of all ranks together). */
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
