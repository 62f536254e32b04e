import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KernelCall } from '../../src/backend/kernel-costs';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { ShardlabError } from '../../src/core/errors';
import { dryRun } from '../../src/plan/dry-run/dry-run';
import { hereCosts } from '../../src/plan/dry-run/here-costs';
import {
  type HereMeasurements,
  keyOf,
  measuredKernels,
  sizeOfWork,
} from '../../src/plan/dry-run/here-measurements';
import type { TimedCall } from '../../src/train/kernel-profile';
import { linkOf } from '../../src/transport/link';

const CONFIG: TrainConfigInput = {
  model: { kind: 'gpt', layers: 2, dim: 32, heads: 4, vocab: 256, seq: 16 },
  data: 'synthetic',
  batch: 2,
};

function added(elements: number): KernelCall {
  const tensor = { shape: [elements], dtype: 'float32', declared: undefined } as const;
  const call = { name: 'Add', inputs: [tensor, tensor], outputs: [tensor], attrs: {} };
  return { ...call, declared: undefined, module: '', place: 'device' };
}

function measuredAt(elements: number, seconds: number) {
  return { name: 'Add', key: keyOf(added(elements)), ...sizeOfWork(added(elements)), seconds };
}

/** A quiet machine of two cores: 1 µs and 1 ns per element; a collective takes 10 µs per step and 1 ns per byte. */
const MEASURED: HereMeasurements = {
  world: 2,
  cores: 2,
  others: 0,
  kernels: [measuredAt(1000, 2e-6), measuredAt(9000, 10e-6)],
  collectives: [
    // In the ring of two ranks each rank receives as many bytes as the all-reduce has.
    { op: 'allReduce', bytes: 1000, seconds: 2 * 10e-6 + 1e-6 },
    { op: 'allReduce', bytes: 1e6, seconds: 2 * 10e-6 + 1e-3 },
  ],
};

function near(actual: number | undefined, expected: number, message?: string): void {
  assert.ok(Math.abs((actual ?? Number.NaN) / expected - 1) < 1e-6, `${message ?? ''} ${actual} ${expected}`);
}

test('a kernel takes its measured time, and at other sizes the time of the line fitted for its name', () => {
  const { kernel } = hereCosts(MEASURED, { world: 1 });
  near(kernel?.(added(1000)), 2e-6);
  near(kernel?.(added(5000)), 6e-6);
  near(kernel?.({ ...added(5000), name: 'Multiply' }), 6e-6, 'a name that was not measured');
});

test('computing and communicating ranks and threads share the cores', () => {
  const at = (world: number, others = 0) => hereCosts(MEASURED, { world, others });
  near(at(2).kernel?.(added(1000)), 2e-6);
  near(at(4).kernel?.(added(1000)), 4e-6);
  near(at(4, 2).kernel?.(added(1000)), 6e-6);
  const call = { op: 'allReduce', bytes: 1e6, ranks: [0, 1, 2, 3], group: 'world' } as const;
  // Six steps, and 2 x 3/4 of the bytes.
  near(at(4).collective?.(call), 2 * (6 * 10e-6 + 1.5e-3));
  assert.equal(at(1).collective?.({ ...call, ranks: [0] }), 0);
});

test("on a shaped link a collective takes the link's time, unless this machine is slower", () => {
  const call = { op: 'allReduce', bytes: 1e6, ranks: [0, 1], group: 'world' } as const;
  const on = (gbit: number) =>
    hereCosts(MEASURED, { world: 2, link: linkOf({ gbit, latencyUs: 50 }) }).collective?.(call);
  near(on(1), 2 * 50e-6 + 8e-3);
  near(on(100), 2 * 10e-6 + 1e-3);
});

test("a rank's times match a dry run's calls one by one, and predict a step of the same config", () => {
  const config = parseTrainConfig(CONFIG);
  const seconds: number[] = [];
  const names: string[] = [];
  const kernel = ({ name }: KernelCall) => {
    names.push(name);
    return 0;
  };
  dryRun(config, { world: 1, steps: 3, costs: { kernel } });
  const built = names.length;
  names.length = 0;
  dryRun(config, { world: 1, steps: 4, costs: { kernel } });
  const calls: TimedCall[] = names.slice(built).map((name, i) => {
    const own = 1e-6 * (1 + (i % 5));
    seconds.push(own + 1e-6);
    return { name, seconds: own, before: 1e-6 };
  });
  const kernels = measuredKernels(config, [{ calls }, { calls }]);
  const { stepSeconds } = dryRun(config, {
    world: 1,
    costs: hereCosts({ ...MEASURED, kernels }, { world: 1 }),
  });
  near(
    stepSeconds,
    seconds.reduce((sum, each) => sum + each, 0),
  );
  assert.throws(
    () => measuredKernels(config, [{ calls: calls.slice(1) }]),
    (error) =>
      error instanceof ShardlabError && error.code === 'INTERNAL' && /call 1 of a step/.test(error.message),
  );
});
