import type { KernelCosts } from '../../backend/kernel-costs';
import type { CollectiveOp } from '../../core/events';
import type { Bytes, Seconds } from '../../core/units';
import { type Link, transferSeconds, type WireCost } from '../../transport/link';
import type { CollectiveCosts } from '../../transport/meta-plane';
import { ringCost } from '../../transport/ring-cost';
import { crowding, type HereMeasurements, keyOf, type MeasuredKernel, sizeOfWork } from './here-measurements';
import type { DryRunCosts } from './rank-run';

/** Where on this machine a run is predicted. */
export interface HerePlace {
  readonly world: number;
  /** The job's shaped wire. */
  readonly link?: Link | undefined;
  /** Threads of other programs that want a core meanwhile. Default 0. */
  readonly others?: number;
}

/**
 * What kernels and collectives take on ranks of this machine, from measurements at one world size.
 *
 * [Note: predictions of this machine's own runs] A kernel takes what it took at the same shapes, together with the library's
 * code before it; at others, what a line through the shapes of its name says. Every rank computes on one core, which holds for
 * matmuls too in jobs of a rank for each core or more: where ranks
 * and others' threads outnumber the cores, each takes its share of them, so that computing takes (ranks + others) / cores
 * times as long. Collectives take latency by the ring's steps and time by its bytes, in the same shares; on a shaped link what
 * the link takes, if that is longer. Left out: the core that a posted collective's thread takes from the rank's own, and
 * caches and memory channels that ranks share.
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

/** Time over size. */
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
 * The line of least relative errors, neither below nothing at no size nor falling; `other` where there are not two sizes,
 * through what there is.
 */
function lineThrough(points: readonly Pick<MeasuredKernel, 'size' | 'seconds'>[], other: Line): Line {
  const timed = points.filter(({ seconds }) => seconds > 0);
  const mean = (of: (point: (typeof timed)[number]) => number): number =>
    timed.reduce((sum, point) => sum + of(point), 0) / timed.length;
  if (timed.length === 0) return other;
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

/** A collective's time by the ring: for each of its steps, and for each byte that a rank receives. */
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
