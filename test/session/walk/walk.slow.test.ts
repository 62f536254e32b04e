import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config';
import type { Walk } from '../../../src/session/walk/walk';
import { HANG_MS, launchFor } from '../job-fixture';
import { fsdpStep, labelsOf, unnumbered } from './events-of-steps';

const MODEL = { kind: 'gpt', layers: 4, dim: 16, heads: 2, vocab: 256, seq: 8 } as const;

function config(parallel: TrainConfigInput['parallel']): TrainConfigInput {
  return { model: MODEL, parallel, batch: 2 };
}

async function toEnd(walk: Walk): Promise<void> {
  while (!walk.isOver) await walk.next();
}

test('a walk over an FSDP step of 4 layers halts before exactly the points of the formula', {
  timeout: HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const run = await job.train(config({ strategy: 'FULL_SHARD' }));
  const plain = await job.train(config({ strategy: 'FULL_SHARD' }));
  const walk = await run.walk();
  assert.deepEqual(unnumbered(labelsOf(walk, 0)), ['data']);
  await toEnd(walk);
  for (const rank of [0, 1]) assert.deepEqual(unnumbered(labelsOf(walk, rank)), fsdpStep(4, true));
  assert.equal(walk.record().rounds.length, fsdpStep(4, true).length + 1);
  const second = await run.walk();
  await toEnd(second);
  for (const rank of [0, 1]) assert.deepEqual(unnumbered(labelsOf(second, rank)), fsdpStep(4, false));
  await run.step(1);
  await plain.step(3);
  assert.deepEqual(run.losses, plain.losses);
  // The times of walked steps contain the halts, so these steps have no records.
  assert.deepEqual(
    [1, 2, 3].map((step) => run.records.ofStep(step).length),
    [0, 0, 2],
  );
});

test('ranks of a pipeline halt where their sends and receives allow, with stages and microbatches', {
  timeout: HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const run = await job.train(config({ pp: 2, microbatches: 2 }));
  const plain = await job.train(config({ pp: 2, microbatches: 2 }));
  const walk = await run.walk();
  await walk.until('recv');
  const { state, waitsFor } = walk.record().rounds.at(-1)?.[1] ?? {};
  assert.equal(state, 'halted');
  assert.deepEqual(waitsFor, []);
  await walk.next(2);
  assert.deepEqual(walk.record().rounds.at(-1)?.[1], { numReached: 2, state: 'waiting', waitsFor: [0] });
  await walk.until('send microbatch 1');
  assert.match(
    labelsOf(walk, 0).at(-1) ?? '',
    /^send #\d+ to rank 1: the output of microbatch 1 from stage 0$/,
  );
  await toEnd(walk);
  const actions = walk
    .record()
    .points.map((own) =>
      own.flatMap(({ point }) => (point.pipeline ? `${point.name} ${point.pipeline.microbatch}` : [])),
    );
  // 1F1B: stage 0 has one warm-up forward more than stage 1.
  assert.deepEqual(actions, [
    ['forward 0', 'forward 1', 'backward 0', 'backward 1'],
    ['forward 0', 'backward 0', 'forward 1', 'backward 1'],
  ]);
  await plain.step(1);
  assert.deepEqual(run.losses, plain.losses);
});

test('tensor parallelism, experts and a loop by hand have the points of their collectives', {
  timeout: HANG_MS,
}, async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const tensor = await (await job.train(config({ tp: 2 }))).walk();
  await toEnd(tensor);
  const reductions = labelsOf(tensor, 1).filter((label) => /^allReduce blocks\.\d/.test(label));
  // In each block, the outputs of attention and MLP are reduced in forward, and the gradients of their inputs in backward.
  assert.equal(reductions.length, 4 * MODEL.layers, reductions.join());

  const moe = { kind: 'moe', layers: 2, dim: 16, heads: 2, vocab: 256, seq: 8, experts: 2 } as const;
  const experts = await (await job.train({ model: moe, parallel: { ep: 2 }, batch: 2 })).walk();
  await experts.until('allToAll layer 1');
  assert.match(labelsOf(experts, 0).at(-1) ?? '', /^allToAll blocks\.1/);
  await experts.live();

  const byHand = await job.walk(({ nn, optim, tf, dist, gradients }) => {
    const model = nn.gpt({ layers: 1, dim: 16, heads: 2, vocab: 32, seq: 4 });
    const opt = optim.sgd(model, { lr: 0.1 });
    const ids = tf.tensor2d([[1, 2, 3, 4]], [1, 4], 'int32');
    const { backward } = gradients(() => model.apply(ids, tf.tensor1d([2, 3, 4, 5], 'int32')));
    backward();
    for (const { grad } of model.parameters().slice(0, 2)) if (grad) dist.allReduce(grad, 'avg');
    opt.step();
    opt.dispose();
    model.dispose();
  });
  await toEnd(byHand);
  assert.deepEqual(unnumbered(labelsOf(byHand, 1)), [
    'forward',
    'backward',
    'allReduce',
    'allReduce',
    'optimizer',
  ]);
  assert.match(byHand.points.toText(), /optimizer .*job\.on\(\)\.run, line \d+/);
});
