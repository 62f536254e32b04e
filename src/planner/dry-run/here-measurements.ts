import type { TrainConfig } from '../../config';
import { mean, median, type Seconds, ShardlabError } from '../../core';
import type { KernelCall } from '../../engine';
import type { TimedStep } from '../../training';
import type { CollectiveCall } from '../../wire';
import { flopsOf, workOf } from './kernel-work';
import { runRank } from './rank-run';

/** The time of a kernel at one size; the time of the library's code before the kernel is included. */
export interface MeasuredKernel {
  readonly name: string;
  /** Where the kernel runs, its name, shapes and transposes: calls with the same key do the same work. */
  readonly key: string;
  readonly unit: 'operations' | 'bytes';
  readonly size: number;
  readonly seconds: Seconds;
}

export interface MeasuredCollective extends Pick<CollectiveCall, 'op' | 'bytes'> {
  readonly seconds: Seconds;
}

/** Measurements on this machine with one world size. */
export interface HereMeasurements {
  readonly world: number;
  readonly cores: number;
  /** Number of threads of other programs that used a core during the measurement. */
  readonly others: number;
  readonly kernels: readonly MeasuredKernel[];
  readonly collectives: readonly MeasuredCollective[];
  /** Processor time of the library's code around a call; see `overheadOfCalls`. */
  readonly callOverhead: Seconds;
}

export function keyOf({ name, inputs, attrs, place }: KernelCall): string {
  const shapes = inputs.map(({ shape }) => shape.join('x')).join(' ');
  return `${place} ${name} ${shapes} ${attrs.transposeA === true} ${attrs.transposeB === true}`;
}

/** Returns the quantity with which a kernel's time grows: operations or bytes. */
export function sizeOfWork(call: KernelCall): Pick<MeasuredKernel, 'unit' | 'size'> {
  const work = workOf(call);
  return work.kind === 'traffic'
    ? { unit: 'bytes', size: work.bytes }
    : { unit: 'operations', size: flopsOf(work) };
}

/**
 * Returns the time of each kernel key, from the measured times of rank 0 of `world` ranks. A dry run of the same config says
 * which kernels were called. A call's time is the median over steps; a key's time is the mean over its calls. A call's time
 * includes the library's code before the kernel. But code that follows a collective is part of `callOverhead`. Throws: INTERNAL
 * if the dry run and the rank called different kernels.
 */
export function measuredKernels(
  config: TrainConfig,
  steps: readonly TimedStep[],
  world = 1,
): MeasuredKernel[] {
  const planned = callsOfStep(config, world);
  const calls = planned.map(({ call }) => call);
  const own = steps.map((step) =>
    world === 1 ? step : { calls: step.calls.filter(({ name }) => !OF_GROUPS.has(name)) },
  );
  for (const step of own) requireSame(calls, step);
  const byKey = new Map<string, { readonly call: KernelCall; readonly seconds: Seconds[] }>();
  calls.forEach((call, index) => {
    const at = own.map(({ calls: timed }) => timed[index]);
    const before = planned[index]?.followsCall === true ? 0 : median(at.map((timed) => timed?.before ?? 0));
    const seconds = median(at.map((timed) => timed?.seconds ?? 0)) + before;
    const key = keyOf(call);
    const entry = byKey.get(key) ?? { call, seconds: [] };
    entry.seconds.push(seconds);
    byKey.set(key, entry);
  });
  return [...byKey].map(([key, { call, seconds }]) => ({
    name: call.name,
    key,
    ...sizeOfWork(call),
    seconds: mean(seconds),
  }));
}

/** Kernels that a process group runs too. A rank's profile does not see the group's calls, so these kernels are not matched. */
const OF_GROUPS: ReadonlySet<string> = new Set(['copyInto', 'addInto', 'scale']);

interface PlannedKernel {
  readonly call: KernelCall;
  /** Whether a collective was begun or awaited between the previous kernel and this one. */
  readonly followsCall: boolean;
}

/** Returns the kernel calls of rank 0 in a step after the first. */
function callsOfStep(config: TrainConfig, world: number): readonly PlannedKernel[] {
  const upTo = (steps: number): PlannedKernel[] => {
    const planned: PlannedKernel[] = [];
    let followsCall = false;
    const kernel = (call: KernelCall): Seconds => {
      if (OF_GROUPS.has(call.name) && world > 1) return 0;
      planned.push({ call, followsCall });
      followsCall = false;
      return 0;
    };
    const follow = (): void => {
      followsCall = true;
    };
    const costs = { kernel, collective: () => 0, watch: { began: follow, awaited: follow } };
    runRank({ config, world, rank: 0, steps, curve: false, costs });
    return planned;
  };
  return upTo(3).slice(upTo(2).length);
}

function requireSame(calls: readonly KernelCall[], { calls: timed }: TimedStep): void {
  const length = Math.max(calls.length, timed.length);
  for (let place = 0; place < length; place++) {
    const [planned, ran] = [calls[place]?.name, timed[place]?.name];
    if (planned === ran) continue;
    throw new ShardlabError(
      'INTERNAL',
      `kernel call ${place + 1} of a step is ${planned ?? 'missing'} in the dry run, but ${ran ?? 'missing'} on the rank`,
    );
  }
}

/** Returns the factor by which computation takes longer if `threads` threads share `cores` cores. */
export function crowding(threads: number, cores: number): number {
  return Math.max(1, threads / cores);
}
