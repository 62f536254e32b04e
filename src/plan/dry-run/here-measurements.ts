import type { KernelCall } from '../../backend/kernel-costs';
import type { TrainConfig } from '../../config/train-config';
import { ShardlabError } from '../../core/errors';
import type { Seconds } from '../../core/units';
import type { TimedStep } from '../../train/kernel-profile';
import type { CollectiveCall } from '../../transport/meta-plane';
import { dryRun } from './dry-run';
import { flopsOf, workOf } from './kernel-work';

/** A kernel at one size: its own time, and the library's code before it. */
export interface MeasuredKernel {
  readonly name: string;
  /** Name and shapes: calls of one key do the same. */
  readonly key: string;
  readonly unit: 'operations' | 'bytes';
  readonly size: number;
  readonly seconds: Seconds;
}

export interface MeasuredCollective extends Pick<CollectiveCall, 'op' | 'bytes'> {
  readonly seconds: Seconds;
}

/** What was measured on this machine at one world size. */
export interface HereMeasurements {
  readonly world: number;
  readonly cores: number;
  /** Threads of other programs that wanted a core meanwhile. */
  readonly others: number;
  readonly kernels: readonly MeasuredKernel[];
  readonly collectives: readonly MeasuredCollective[];
}

export function keyOf({ name, inputs, attrs, place }: KernelCall): string {
  const shapes = inputs.map(({ shape }) => shape.join('x')).join(' ');
  return `${place} ${name} ${shapes} ${attrs.transposeA === true} ${attrs.transposeB === true}`;
}

/** What a kernel's time grows with. */
export function sizeOfWork(call: KernelCall): Pick<MeasuredKernel, 'unit' | 'size'> {
  const work = workOf(call);
  return work.kind === 'traffic'
    ? { unit: 'bytes', size: work.bytes }
    : { unit: 'operations', size: flopsOf(work) };
}

/**
 * Puts the times of a rank that trained alone beside the calls that a dry run of the same config reports: medians over steps, means over the calls of one key.
 * Throws: INTERNAL where the two are not call for call the same.
 */
export function measuredKernels(config: TrainConfig, steps: readonly TimedStep[]): MeasuredKernel[] {
  const calls = callsOfStep(config);
  for (const step of steps) requireSame(calls, step);
  const byKey = new Map<string, { readonly call: KernelCall; readonly seconds: Seconds[] }>();
  calls.forEach((call, place) => {
    const at = steps.map(({ calls: timed }) => timed[place]);
    const seconds = median(at.map((one) => one?.seconds ?? 0)) + median(at.map((one) => one?.before ?? 0));
    const key = keyOf(call);
    const entry = byKey.get(key) ?? { call, seconds: [] };
    entry.seconds.push(seconds);
    byKey.set(key, entry);
  });
  return [...byKey].map(([key, { call, seconds }]) => ({
    name: call.name,
    key,
    ...sizeOfWork(call),
    seconds: seconds.reduce((sum, each) => sum + each, 0) / seconds.length,
  }));
}

/** What a step after the first calls on one rank alone. */
function callsOfStep(config: TrainConfig): readonly KernelCall[] {
  const upTo = (steps: number): KernelCall[] => {
    const calls: KernelCall[] = [];
    const kernel = (call: KernelCall): Seconds => {
      calls.push(call);
      return 0;
    };
    dryRun(config, { world: 1, steps, curve: false, costs: { kernel } });
    return calls;
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
      `call ${place + 1} of a step is ${planned ?? 'none'} in the dry run and ${ran ?? 'none'} on a rank`,
    );
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [low = 0, high = 0] = [sorted[(sorted.length - 1) >> 1], sorted[middle]];
  return (low + high) / 2;
}

/** The factor on a thread's computing time when this number of threads want a core. */
export function crowding(threads: number, cores: number): number {
  return Math.max(1, threads / cores);
}
