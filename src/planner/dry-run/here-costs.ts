import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from '../../config';
import { type Bytes, type Seconds, sumOf } from '../../core';
import type { KernelCosts } from '../../engine';
import {
  type CallOp,
  type Link,
  ringCost,
  transferSeconds,
  type WatchedCall,
  type WireCost,
} from '../../wire';
import { crowding, type HereMeasurements, keyOf, type MeasuredKernel, sizeOfWork } from './here-measurements';
import { ActionLog } from './rank-actions';
import { runRank } from './rank-run';
import { secondsTogether } from './shared-cores';

/**
 * Returns the times of kernels and collectives on this machine's ranks, computed from measurements with one world size. The times
 * are those of threads that each have their own core.
 *
 * [Note: predictions of this machine's own runs] A kernel's time includes the library's code before the kernel. If the kernel was
 * measured with the same shapes, its time is the measured time. For other shapes, its time is on a line through the measurements
 * of this kernel. Every rank computes on one core; only matmuls use more cores, if there are fewer ranks than cores. A collective
 * takes a time per call, and a time per byte that a rank copies into or out of the shared memory. Before and after a call, the
 * main thread runs the library's code (hooks, buffers, tickets). Steps of sharded and of divided models need more time than
 * their kernels and collectives: `overheadOfCalls` divides the difference by the number of calls. The result is the time of the
 * library's code per call. `predictHere` then lets all ranks run at once ([Note: ranks that share cores]). Caches and memory
 * channels that ranks share are not included.
 */
export function hereCosts(measured: HereMeasurements) {
  return { kernel: kernelCosts(measured.kernels), collective: collectiveCosts(measured) };
}

/** The conditions of a predicted run on this machine. */
export interface HerePlace {
  readonly world: number;
  /** The slow link that the job simulates between its ranks. */
  readonly link?: Link | undefined;
  /** Number of threads of other programs that use a core at the same time. Default 0. */
  readonly others?: number;
}

/** Makes a dry run of each rank of a config, and predicts the time of a step in which the ranks share this machine's cores. */
export function predictHere(config: TrainConfigInput, measured: HereMeasurements, place: HerePlace) {
  const { world, link, others = 0 } = place;
  const { collective } = hereCosts(measured);
  const full = parseTrainConfig(config);
  const ranks = Array.from({ length: world }, (_, rank) => runHere(full, measured, { world, rank }));
  const stepSeconds = secondsTogether(
    ranks.map(({ actions }) => actions),
    {
      cores: measured.cores,
      others,
      callOverhead: measured.callOverhead,
      call: collective,
      carried: ({ op, bytes, ranks: { length } }) =>
        link === undefined ? 0 : transferSeconds(link, wireOf(op, bytes, length)),
    },
  );
  return { stepSeconds, lastStep: ranks.flatMap(({ lastStep }) => lastStep) };
}

/** Makes a dry run of one rank. Returns what the rank's main thread does in the last step, and the record of this step. */
function runHere(
  config: TrainConfig,
  measured: HereMeasurements,
  { world, rank }: { readonly world: number; readonly rank: number },
) {
  const { kernel, collective } = hereCosts(measured);
  const log = new ActionLog(kernel, { collective });
  const { records } = runRank({ config, world, rank, costs: log.costs, curve: false });
  return { actions: log.take(), lastStep: records.slice(-1) };
}

/** The processor time of rank 0 in a step of a config on `measured.world` ranks. */
export interface MeasuredStep {
  readonly config: TrainConfig;
  readonly seconds: Seconds;
}

/** Returns the time per call that these steps took beyond their kernels and collectives; at least 0. */
export function overheadOfCalls(
  steps: readonly MeasuredStep[],
  measured: Omit<HereMeasurements, 'callOverhead'>,
): Seconds {
  const known: HereMeasurements = { ...measured, callOverhead: 0 };
  const { collective } = hereCosts(known);
  let beyond: Seconds = 0;
  let numCalls = 0;
  for (const { config, seconds } of steps) {
    beyond += seconds;
    for (const action of runHere(config, known, { world: measured.world, rank: 0 }).actions) {
      if (action.kind === 'compute') beyond -= action.seconds;
      if (action.kind !== 'call') continue;
      beyond -= collective(action.call);
      numCalls++;
    }
  }
  return numCalls === 0 ? 0 : Math.max(0, beyond / numCalls);
}

function kernelCosts(kernels: readonly MeasuredKernel[]): KernelCosts {
  const byKey = new Map(kernels.map(({ key, seconds }) => [key, seconds]));
  const ofUnit = { operations: linesOf(kernels, 'operations'), bytes: linesOf(kernels, 'bytes') };
  return (call) => {
    const known = byKey.get(keyOf(call));
    if (known !== undefined) return known;
    const { unit, size } = sizeOfWork(call);
    const { start, slope } = ofUnit[unit].byName.get(call.name) ?? ofUnit[unit].any;
    return start + slope * size;
  };
}

/** The time of a call as a linear function of its size: start + slope x size. */
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
 * Returns the line with the smallest sum of squared relative errors. Its start and slope are not negative. If all points have one
 * size, the line starts at 0. Without points, the line is `fallback`.
 */
function lineThrough(points: readonly Pick<MeasuredKernel, 'size' | 'seconds'>[], fallback: Line): Line {
  const timed = points.filter(({ seconds }) => seconds > 0);
  const mean = (of: (point: (typeof timed)[number]) => number): number => sumOf(timed, of) / timed.length;
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

type AnyCall = Pick<WatchedCall, 'op' | 'bytes' | 'ranks'>;

/** Returns the time that a thread with its own core needs for a call. */
function collectiveCosts(measured: HereMeasurements): (call: AnyCall) => Seconds {
  const quiet = crowding(measured.world + measured.others, measured.cores);
  const lineOf = (rows: HereMeasurements['collectives']): Line => {
    const points = rows.map(({ op, bytes, seconds }) => {
      return { size: copiedBytes(op, bytes, measured.world), seconds: seconds / quiet };
    });
    return lineThrough(points, { start: 0, slope: 0 });
  };
  const ops = [...new Set(measured.collectives.map(({ op }) => op))];
  const lines = new Map<CallOp, Line>(
    ops.map((op) => [op, lineOf(measured.collectives.filter((row) => row.op === op))]),
  );
  const any = lines.get('allGather') ?? { start: 0, slope: 0 };
  return ({ op, bytes, ranks: { length } }) => {
    if (length === 1) return 0;
    const { start, slope } = lines.get(op) ?? any;
    return start + slope * copiedBytes(op, bytes, length);
  };
}

/** Returns the number of bytes that one rank copies into slots and reads from slots. Source: transport/collectives.ts. */
function copiedBytes(op: CallOp, bytes: Bytes, world: number): Bytes {
  switch (op) {
    case 'allReduce':
      return 3 * bytes;
    case 'reduceScatter':
    case 'allToAll':
      return 2 * bytes;
    case 'allGather':
      return bytes + bytes / world;
    default:
      return bytes;
  }
}

function wireOf(op: CallOp, bytes: Bytes, world: number): WireCost {
  const parts = Array.from({ length: world }, () => bytes / FLOAT_BYTES / world);
  return ringCost({ op, wireDType: 'float32', inputs: parts, outputs: parts }, 0, world);
}

const FLOAT_BYTES = 4;
