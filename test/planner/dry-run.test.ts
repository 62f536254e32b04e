import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { parseTrainConfig } from '../../src/config/train-config';
import { ShardlabError } from '../../src/core/errors';
import * as tf from '../../src/core/tf';
import type { KernelCall } from '../../src/engine/backend/kernel-costs';
import { withMetaEngine } from '../../src/engine/backend/meta-engine';
import { memoryFigure } from '../../src/figures/memory-figure';
import { dryRun } from '../../src/planner/dry-run/dry-run';
import { viewOf } from '../../src/session/run/figures';
import type { CollectiveCall } from '../../src/wire/transport/meta-plane';
import { predictRun } from '../support/formulas/zero-units';

const GPT = { kind: 'gpt', layers: 4, dim: 32, heads: 4, vocab: 256, seq: 16 } as const;
const CONFIG: TrainConfigInput = { model: GPT, data: 'synthetic', batch: 2 };

function hasCode(code: string, message: RegExp) {
  return (error: unknown) =>
    error instanceof ShardlabError && error.code === code && message.test(error.message);
}

test("in a world of thousands the states equal the formulas', and not every rank is run", () => {
  const world = 4096;
  const config: TrainConfigInput = { ...CONFIG, model: { ...GPT, dim: 4096, vocab: 8192 } };
  const run = dryRun(config, { world, curve: false });
  const { states } = predictRun(parseTrainConfig(config), world);
  const [record] = run.lastStep;
  assert.ok(record !== undefined);
  for (const { cause, bytes } of states) {
    const held: number = record.memory.owners.reduce(
      (sum, owner, i) => sum + (owner.cause === cause ? (record.memory.atRest[i] ?? 0) : 0),
      0,
    );
    assert.equal(held, bytes, cause);
  }
});

test('the Wan transformer with two experts and 28.6 billion parameters runs on 8 ranks, without values', () => {
  const config: TrainConfigInput = { model: 'wan2.2-a14b', batch: 1 };
  const run = dryRun(config, { world: 8, steps: 1, curve: false });
  assert.equal(Math.round(run.numParams / 1e8), 286);
  // Shards, and Adam's two moments of the shards that a step trains.
  assert.ok(run.peak.held['param.shard'] >= (4 * run.numParams) / 8);
});

test("'all' runs every rank: all hold equally many bytes, and each has its own collectives", () => {
  const run = dryRun({ ...CONFIG, model: { ...GPT, dim: 12, vocab: 259 } }, { world: 5, ranks: 'all' });
  assert.deepEqual(run.ranks, [0, 1, 2, 3, 4]);
  assert.equal(new Set(run.lastStep.map(({ memory }) => memory.restBytes)).size, 1);
  assert.equal(run.records.length, 10);
  assert.ok(run.lastStep.every(({ collectives }) => collectives.length > 0));
});

test('each kernel and collective is reported once, and simulated time follows from their costs', () => {
  const kernels: KernelCall[] = [];
  const collectives: CollectiveCall[] = [];
  const run = dryRun(CONFIG, {
    world: 2,
    steps: 1,
    costs: {
      kernel(call) {
        kernels.push(call);
        return 1e-3;
      },
      collective(call) {
        collectives.push(call);
        return 0;
      },
    },
  });
  // Building counts too.
  assert.ok(Math.abs((run.lastStep[0]?.end ?? 0) - 1e-3 * kernels.length) < 1e-9);
  const products = kernels.filter(({ name }) => name === 'ShardlabLinear');
  assert.equal(products.length, 4 * 4);
  assert.deepEqual(products[0]?.inputs[1]?.shape, [96, 32]);
  assert.equal(products[0]?.module, 'blocks.0.qkv');
  assert.equal(kernels.filter(({ name }) => name === '_FusedMatMul').length, 0, 'part of another kernel');
  assert.equal(kernels.filter(({ name }) => name === 'Reshape').length, 0, 'a view');
  const gather = collectives.find(({ op }) => op === 'allGather');
  // The root's: tables and the last norm.
  assert.equal(gather?.bytes, 4 * (256 * 32 + 16 * 32 + 2 * 32));
});

test('prefetch hides gathers behind computation', () => {
  const step = (kernel: number, collective: number, prefetch: boolean) =>
    dryRun(
      {
        ...CONFIG,
        parallel: { forwardPrefetch: prefetch, backwardPrefetch: prefetch ? 'BACKWARD_PRE' : null },
      },
      { world: 4, steps: 2, costs: { kernel: () => kernel, collective: () => collective } },
    );
  const slow = step(1e-3, 1e-3, false);
  const fast = step(1e-3, 1e-3, true);
  assert.ok(fast.exposedSeconds < slow.exposedSeconds);
  const gathers = slow.collectives.filter(({ op }) => op === 'allGather');
  // Some wait longer, because a reduction is before them on the group's stream.
  assert.ok(gathers.every(({ exposed }) => exposed > 1e-3 - 1e-9));
  const compute = step(1e-3, 0, true).stepSeconds;
  assert.ok(Math.abs(fast.stepSeconds - compute - fast.exposedSeconds) < 1e-9);
});

test('the spans of equal blocks contain the same events', () => {
  const run = dryRun(CONFIG, { world: 2, steps: 2, events: true });
  const [, , step = []] = run.eventsOf();
  const stretchOf = (module: string, name: string) => {
    const from = step.findIndex(
      (event) => event.kind === 'entered' && event.module === module && event.name === name,
    );
    const to = step.findIndex(
      (event) => event.kind === 'span' && event.module === module && event.name === name,
    );
    assert.ok(from >= 0 && to > from);
    return step.slice(from, to).map((event) => {
      return event.kind === 'allocated' ? `${event.bytes} ${event.tag.cause}` : event.kind;
    });
  };
  assert.deepEqual(stretchOf('blocks.2', 'forward'), stretchOf('blocks.1', 'forward'));
  assert.deepEqual(stretchOf('blocks.2', 'backward'), stretchOf('blocks.1', 'backward'));
});

test('figures of runs can draw a dry run, and its text names peak, causes, traffic and assumptions', () => {
  const config = { ...CONFIG, mixedPrecision: 'bf16' } as const;
  const run = dryRun(config, { world: 4, costs: { kernel: () => 1e-5, collective: () => 1e-4 } });
  const figure = memoryFigure(viewOf(run), {});
  assert.ok(figure.data.length > 0 && figure.table.rows.length > 0);
  const text = String(run);
  for (const part of [
    /FULL_SHARD on 4 ranks, only rank 0 ran, 59584 parameters/,
    /param\.full .* in the declared types/,
    /9 allGather of param/,
    /A simulated step: [\d.]+ ms, including/,
    /Assumed: the ranks that did not run do the same as those that ran\./,
  ])
    assert.match(text, part);
});

test('memoryLimit ends a dry run as it ends a real rank', () => {
  const { heldBytes } = dryRun(CONFIG, { world: 4 }).peak;
  assert.equal(dryRun(CONFIG, { world: 4, memoryLimit: heldBytes }).peak.heldBytes, heldBytes);
  assert.throws(
    () => dryRun(CONFIG, { world: 4, memoryLimit: heldBytes - 1 }),
    hasCode('OUT_OF_MEMORY', /memoryLimit/),
  );
});

test('impossible ranks, worlds and steps are refused', () => {
  assert.throws(() => dryRun(CONFIG, { world: 0 }), hasCode('CONFIG', /world is 0/));
  assert.throws(() => dryRun(CONFIG, { world: 4, rank: 4 }), hasCode('CONFIG', /rank 4/));
  assert.throws(() => dryRun(CONFIG, { world: 4, steps: 0 }), hasCode('CONFIG', /steps is 0/));
  assert.throws(() => dryRun(CONFIG, { world: 512, ranks: 'all' }), hasCode('CONFIG', /up to 64/));
  assert.throws(() => dryRun(CONFIG, { world: 4, rank: 1, ranks: 'all' }), hasCode('CONFIG', /contradict/));
});

test('reading values is refused, except for a single number, which is 0', () => {
  withMetaEngine({}, (engine) => {
    const x = tf.ones([2, 3]);
    assert.equal(tf.sum(x).dataSync()[0], 0);
    assert.throws(() => x.dataSync(), hasCode('ENGINE', /depends on data/));
    assert.throws(() => engine.storage(x).view(), hasCode('ENGINE', /no values/));
    assert.throws(() => engine.host.allocate(3, engine.currentTag).view(), hasCode('ENGINE', /no values/));
  });
});

test('the previous backend is restored, also after an error', () => {
  const before = tf.getBackend();
  assert.throws(() =>
    withMetaEngine({}, () => {
      assert.equal(tf.getBackend(), 'meta');
      throw new Error('stop');
    }),
  );
  assert.equal(tf.getBackend(), before);
});

test('a dry run without a world, or with ranks in its place, is refused', () => {
  const run = (options: unknown) => () => dryRun(CONFIG, options as { world: number });
  assert.throws(
    run(undefined),
    hasCode('CONFIG', /takes options by name, not undefined; the options are .*world/),
  );
  assert.throws(
    run({ ranks: 4 }),
    hasCode(
      'CONFIG',
      /ranks is 4, but must be 'one' or 'all' \(the number of ranks is another setting: gpus of the place\)/,
    ),
  );
});

test('an option or a figure of the hardware that does not exist, or no number, is refused with what to write', () => {
  const run = (options: object) => () => dryRun(CONFIG, { world: 4, ...options });
  assert.throws(run({ memoryLimit: '24GB' }), hasCode('CONFIG', /memoryLimit is "24GB", but must be bytes/));
  assert.throws(run({ step: 3 }), hasCode('CONFIG', /no argument step; did you mean steps/));
  assert.throws(
    run({ hardware: { like: 'A100-80G', linkGbps: 1 } }),
    hasCode('CONFIG', /hardware\.linkGbps: unknown key; did you mean "linkGBps"/),
  );
});
