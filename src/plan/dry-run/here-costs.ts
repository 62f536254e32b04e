import type { KernelCosts } from '../../backend/kernel-costs';
import type { CollectiveOp } from '../../core/events';
import type { Bytes, Seconds } from '../../core/units';
import { type Link, transferSeconds, type WireCost } from '../../transport/link';
import type { CollectiveCosts } from '../../transport/meta-plane';
import { ringCost } from '../../transport/ring-cost';
import { crowding, type HereMeasurements, keyOf, type MeasuredKernel, sizeOfWork } from './here-measurements';
import type { DryRunCosts } from './rank-run';

/** The conditions of a predicted run on this machine. */
export interface HerePlace {
  readonly world: number;
  /** The job's shaped wire. */
  readonly link?: Link | undefined;
  /** Number of threads of other programs that use a core at the same time. Default 0. */
  readonly others?: number;
}

/**
 * Returns the times of kernels and collectives on this machine's ranks, from measurements with one world size.
 *
 * [Note: predictions of this machine's own runs] A kernel's time, with the library's code before it, was measured for the same
 * shapes; for other shapes it is on a line through the measurements of this kernel. Every rank computes on one core (matmuls
 * too, if there are at least as many ranks as cores). If ranks and other programs' threads outnumber the cores, they share
 * them, and computing takes (ranks + others) / cores times as long. A collective's time is latency per step of the ring and
 * time per byte, with the same factor, or the time of a shaped link, if that is longer. Not included: the core that the thread
 * of an asynchronous collective takes from the rank, and caches and memory channels that ranks share.
 */
export function hereCosts(measured: HereMeasurements, place: HerePlace): DryRunCosts {
  const { world, others = 0 } = place;
  return {
    kernel: kernelCosts(measured.kernels, crowding(world + others, measured.cores)),
    collective: collectiveCosts(measured, place),
  };
}

function kernelCosts(kernels: readonly MeasuredKernel[], share: number): KernelCosts {
  const byKey = new Map(kernels.map(({ key, seconds }) => [key, seconds]));
  const ofUnit = { operations: linesOf(kernels, 'operations'), bytes: linesOf(kernels, 'bytes') };
  return (call) => {
    const known = byKey.get(keyOf(call));
    if (known !== undefined) return share * known;
    const { unit, size } = sizeOfWork(call);
    const { start, slope } = ofUnit[unit].byName.get(call.name) ?? ofUnit[unit].any;
    return share * (start + slope * size);
  };
}

/** Time as a linear function of size. */
interface Line {
  readonly start: Seconds;
  readonly slope: number;
}

function linesOf(kernels: readonly MeasuredKernel[], unit: MeasuredKernel['unit']) {
  const some = kernels.filter((kernel) => kernel.unit === unit);
  const any = lineThrough(some, { start: 0, slope: 0 });
  const byName = new Map<string, Line>();
  for (const { name } of some) {
    const same = some.filter((kernel) => kernel.name === name);
    if (!byName.has(name)) byName.set(name, lineThrough(same, any));
  }
  return { byName, any };
}

/**
 * Returns the line with the least squared relative errors, whose start and slope are not negative. With only one size, it
 * starts at 0; without points, it is `fallback`.
 */
function lineThrough(points: readonly Pick<MeasuredKernel, 'size' | 'seconds'>[], fallback: Line): Line {
  const timed = points.filter(({ seconds }) => seconds > 0);
  const mean = (of: (point: (typeof timed)[number]) => number): number =>
    timed.reduce((sum, point) => sum + of(point), 0) / timed.length;
  if (timed.length === 0) return fallback;
  // Minimises the sum of ((start + slope x size) / seconds - 1)^2.
  const [a, b] = [mean(({ seconds }) => seconds ** -2), mean(({ size, seconds }) => size * seconds ** -2)];
  const c = mean(({ size, seconds }) => (size / seconds) ** 2);
  const [d, e] = [mean(({ seconds }) => 1 / seconds), mean(({ size, seconds }) => size / seconds)];
  const spread = a * c - b * b;
  if (spread < 1e-9 * a * c) return { start: 0, slope: c > 0 ? e / c : 0 };
  const start = (c * d - b * e) / spread;
  const slope = (a * e - b * d) / spread;
  if (start < 0) return { start: 0, slope: e / c };
  return slope < 0 ? { start: d / a, slope: 0 } : { start, slope };
}

/** Returns the time of collectives as of a ring: a time per step, and a time per byte that a rank receives. */
function collectiveCosts(
  measured: HereMeasurements,
  { world, link, others = 0 }: HerePlace,
): CollectiveCosts {
  const quiet = crowding(measured.world + measured.others, measured.cores);
  const share = crowding(world + others, measured.cores) / quiet;
  const ops = [...new Set(measured.collectives.map(({ op }) => op))];
  const lineOf = (op: CollectiveOp): Line => {
    const rows = measured.collectives.filter((row) => row.op === op);
    const points = rows.map(({ bytes, seconds }) => {
      const wire = wireOf(op, bytes, measured.world);
      return { size: wire.bytes / wire.steps, seconds: seconds / wire.steps };
    });
    return lineThrough(points, { start: 0, slope: 0 });
  };
  const lines = new Map(ops.map((op) => [op, lineOf(op)]));
  const any = lines.get('allGather') ?? { start: 0, slope: 0 };
  return ({ op, bytes, ranks }) => {
    if (ranks.length === 1) return 0;
    const wire = wireOf(op, bytes, ranks.length);
    const { start, slope } = lines.get(op) ?? any;
    const own = share * (start * wire.steps + slope * wire.bytes);
    return link === undefined ? own : Math.max(own, transferSeconds(link, wire));
  };
}

function wireOf(op: CollectiveOp, bytes: Bytes, world: number): WireCost {
  const parts = Array.from({ length: world }, () => bytes / FLOAT_BYTES / world);
  return ringCost({ op, wireDType: 'float32', inputs: parts, outputs: parts }, 0, world);
}

const FLOAT_BYTES = 4;
