import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { ShardlabError } from '../../src/core/errors';
import type { KernelCall } from '../../src/engine/backend/kernel-costs';
import { dryRun } from '../../src/planner/dry-run/dry-run';
import { hereCosts, overheadOfCalls, predictHere } from '../../src/planner/dry-run/here-costs';
import {
  type HereMeasurements,
  keyOf,
  measuredKernels,
  sizeOfWork,
} from '../../src/planner/dry-run/here-measurements';
import type { RankAction } from '../../src/planner/dry-run/rank-actions';
import { secondsTogether } from '../../src/planner/dry-run/shared-cores';
import type { TimedCall } from '../../src/training/kernel-profile';
import type { WatchedCall } from '../../src/wire/transport/meta-plane';

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
  callOverhead: 0,
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
  const { kernel } = hereCosts(MEASURED);
  near(kernel?.(added(1000)), 2e-6);
  near(kernel?.(added(5000)), 6e-6);
  near(kernel?.({ ...added(5000), name: 'Multiply' }), 6e-6, 'a name that was not measured');
});

test('a call costs a time per call and per copied byte, and nothing on one rank', () => {
  const { collective } = hereCosts(MEASURED);
  near(collective({ op: 'allReduce', bytes: 1e6, ranks: [0, 1, 2, 3] }), 20e-6 + 1e-3);
  assert.equal(collective({ op: 'allReduce', bytes: 1e6, ranks: [0] }), 0);
});

function secondsOf(ranks: readonly (readonly RankAction[])[], carried = 0, others = 0): number {
  return secondsTogether(ranks, { cores: 2, others, callOverhead: 0, call: () => 1, carried: () => carried });
}

const compute = (seconds: number): RankAction => ({ kind: 'compute', seconds });

function callOf(op: 'allReduce' | 'send' | 'recv', async = false, peer = -1): RankAction {
  return { kind: 'call', call: { op, number: 1, async, peer, bytes: 4, ranks: [0, 1], group: 'world' } };
}

test('ranks share the cores; a rank that waits leaves its core to the others', () => {
  near(secondsOf([[compute(2)], [compute(2)]]), 2);
  near(secondsOf([[compute(2)], [compute(2)], [compute(2)], [compute(2)]]), 4);
  near(secondsOf([[compute(2)], [compute(2)]], 0, 2), 4);
  // The first rank waits for the second; both then run the call.
  near(
    secondsOf([
      [compute(1), callOf('allReduce')],
      [compute(3), callOf('allReduce')],
    ]),
    4,
  );
  // Three threads on two cores for 1 / (2 / 3) s; one has then nothing to do.
  near(secondsOf([[compute(1)], [compute(1)], [compute(3)]]), 1.5 + 2);
});

test('a comm thread works beside its rank, which waits only where it needs the result', () => {
  const posted = callOf('allReduce', true);
  const wait: RankAction = { kind: 'wait', call: (posted as { call: WatchedCall }).call };
  near(
    secondsOf([
      [posted, compute(3), wait],
      [posted, compute(3), wait],
    ]),
    4,
    'four threads for two seconds',
  );
  near(
    secondsOf(
      [
        [posted, wait],
        [posted, wait],
      ],
      5,
    ),
    5,
    'the link',
  );
});

test('a receive follows its send, and calls that nobody answers are an error', () => {
  near(secondsOf([[compute(1), callOf('send', true, 1)], [callOf('recv', false, 0)]]), 3);
  assert.throws(
    () => secondsOf([[callOf('send', false, 1)], []]),
    (error) => error instanceof ShardlabError && /rank 0 waits forever/.test(error.message),
  );
});

test('the ranks of a pipeline take longer on one core than one rank, and less on a core each', () => {
  const config: TrainConfigInput = {
    model: { kind: 'gpt', layers: 2, dim: 32, heads: 4, vocab: 256, seq: 16 },
    data: 'synthetic',
    batch: 4,
    parallel: { pp: 2, strategy: 'NO_SHARD' },
  };
  const step = (world: number, cores = 2): number =>
    predictHere({ ...config, ...(world === 1 && { parallel: {} }) }, { ...MEASURED, cores }, { world })
      .stepSeconds;
  // Both ranks compute on one core what one rank computes, and more calls; with a core each, they are faster.
  assert.ok(step(2, 1) > step(1), `${step(2, 1)} ${step(1)}`);
  assert.ok(step(2) < step(2, 1), `${step(2)} ${step(2, 1)}`);
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
  const { stepSeconds } = predictHere(CONFIG, { ...MEASURED, kernels }, { world: 1 });
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

test("on two ranks, code before a kernel that follows a call is not the kernel's, and updates of groups are left out", () => {
  const config = parseTrainConfig({ ...CONFIG, parallel: { strategy: 'NO_SHARD', tp: 2 } });
  const updates = new Set(['copyInto', 'addInto', 'scale']);
  const callsOf = (steps: number) => {
    const calls: { readonly call: KernelCall; readonly follows: boolean }[] = [];
    let follows = false;
    const kernel = (call: KernelCall): number => {
      if (updates.has(call.name)) return 0;
      calls.push({ call, follows });
      follows = false;
      return 0;
    };
    const follow = (): void => {
      follows = true;
    };
    const watch = { began: follow, awaited: follow };
    dryRun(config, { world: 2, steps, costs: { kernel, collective: () => 0, watch } });
    return calls;
  };
  const step = callsOf(3).slice(callsOf(2).length);
  const timed = step.map(({ call }): TimedCall => ({ name: call.name, seconds: 1e-6, before: 1e-3 }));
  const calls = [{ name: 'copyInto', seconds: 1, before: 1 }, ...timed];
  const seconds = new Map(measuredKernels(config, [{ calls }], 2).map((one) => [one.key, one.seconds]));
  const total = step.reduce((sum, { call }) => sum + (seconds.get(keyOf(call)) ?? 0), 0);
  const numFollowing = step.filter(({ follows }) => follows).length;
  assert.ok(numFollowing > 4, `${numFollowing} kernels follow a call`);
  near(total, step.length * 1e-6 + (step.length - numFollowing) * 1e-3);
});

test('what steps take beyond their kernels and collectives is divided among their calls', () => {
  const { callOverhead: _, ...measured } = MEASURED;
  const config = parseTrainConfig({ ...CONFIG, parallel: { strategy: 'NO_SHARD' } });
  const without = overheadOfCalls([{ config, seconds: 0 }], measured);
  assert.equal(without, 0, 'never negative');
  const seconds = overheadOfCalls([{ config, seconds: 1 }], measured);
  const more = overheadOfCalls([{ config, seconds: 2 }], measured);
  const numCalls = Math.round(1 / (more - seconds));
  assert.ok(numCalls >= 1, `${numCalls} calls`);
  near(more - seconds, 1 / numCalls);
  const slow = predictHere(config, { ...MEASURED, callOverhead: 0.1 }, { world: 2 }).stepSeconds;
  const fast = predictHere(config, MEASURED, { world: 2 }).stepSeconds;
  assert.ok(
    slow - fast > 0.1 * 0.9 && slow - fast < 0.1 * (numCalls + 1),
    `${slow - fast} s for ${numCalls} calls`,
  );
});
