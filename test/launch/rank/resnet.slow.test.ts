import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RankScope } from '../../../src/launch/rank/scope';
import { launchFor, runCell, shareJob } from '../../session/job-fixture';
import { RESNET } from '../../session/run/own-image-models';
import { requireTorch } from '../../session/run/own-model-cases';
import { type OwnScope, VALUES_CELL } from '../../session/run/own-values';
import { HAS_ALL_CASES } from '../../support/cases';

const AROUND = ['DDP', 'ZERO_1', 'ZERO_2', 'fullyShard', 'fullyShard, checkpointed', 'FSDP', 'SHARD_GRAD_OP'];

type Tensor = import('@tensorflow/tfjs').Tensor;

/** The scope with the parts of the model, which a cell has declared. */
interface ResNetScope extends OwnScope {
  readonly resnet: typeof RESNET;
}

const RESNET_CELL = `const resnet = { ${Object.entries(RESNET).map(([name, part]) => `${name}: ${String(part)}`)} }`;

/** Trains the model in a loop by hand; returns what torch's training has recorded too. */
function trainByHand(rankScope: RankScope, wrapper: string, numSteps: number) {
  const scope = rankScope as ResNetScope; // cells have declared the other variables
  const { nn, tf, optim, gradients, dist, fullyShard, DDP, FSDP, checkpointWrapper, resnet } = scope;
  const model = resnet.model(scope);
  let trained: InstanceType<typeof nn.Module> = model;
  if (wrapper === 'DDP') DDP(model);
  else if (wrapper === 'ZERO_1' || wrapper === 'ZERO_2') fullyShard(model, { strategy: wrapper });
  else if (wrapper === 'FSDP') trained = FSDP(model);
  else if (wrapper === 'SHARD_GRAD_OP') trained = FSDP(model, { shardingStrategy: wrapper });
  else {
    for (const block of [model.first, model.second]) {
      if (wrapper.endsWith('checkpointed')) checkpointWrapper(block);
      fullyShard(block);
    }
    fullyShard(model);
  }
  const optimizer = optim.sgd(trained, { lr: 0.05, momentum: 0.9 });
  const gradNorms: number[] = [];
  const losses = Array.from({ length: numSteps }, (_, step) => {
    const { x, y } = resnet.data(scope, step);
    const pass = gradients(() => resnet.loss(trained.apply(x) as Tensor, { y }, scope));
    pass.backward();
    gradNorms.push(optim.clipGradNorm(trained, 1));
    optimizer.step();
    optimizer.zeroGrad();
    dist.allReduce(pass.loss, { op: 'avg' });
    const [loss = Number.NaN] = pass.loss.dataSync();
    tf.dispose([x, y, pass.loss]);
    return loss;
  });
  const state = Object.fromEntries(
    [...model.namedBuffers()].map(([name, { tensor }]) => [name, [...tensor.dataSync()]]),
  );
  trained.eval();
  const { x } = resnet.data(scope, 0);
  const evaluated = tf.tidy(() => tf.sum(tf.abs(trained.apply(x) as Tensor)).dataSync()[0] ?? Number.NaN);
  return { losses, gradNorms, state, evaluated };
}

/** Each way once in `npm test`. */
const HERE: Readonly<Record<number, readonly string[]>> = HAS_ALL_CASES
  ? { 1: AROUND, 2: AROUND, 4: AROUND }
  : {
      2: ['DDP', 'ZERO_1', 'SHARD_GRAD_OP', 'fullyShard, checkpointed', 'FSDP'],
      4: ['ZERO_2', 'fullyShard'],
    };

for (const [world, ways] of Object.entries(HERE).map(([key, value]) => [Number(key), value] as const)) {
  const shared = shareJob({ ranks: world });

  test(`a ResNet with SyncBatchNorm on ${world} ranks trains as torch's with BatchNorm on the whole batch`, async () => {
    const job = shared();
    await runCell(job, `${VALUES_CELL}; ${RESNET_CELL};`);
    for (const around of ways) {
      const ranks = await job.on('all').run(trainByHand, around, 5);
      for (const { evaluated, state, ...trained } of ranks) {
        const buffers = new Map(Object.entries(state));
        requireTorch('a ResNet with batch norms', { ...trained, state: buffers }, `${around} on ${world}`);
        assert.equal(buffers.size, 15);
        assert.ok(Number.isFinite(evaluated));
      }
    }
  });
}

function requireClose(actual: readonly number[], expected: readonly number[], what: string): void {
  assert.equal(actual.length, expected.length, what);
  expected.forEach((value, i) => {
    const bound = 2e-5 * Math.max(1, Math.abs(value));
    assert.ok(
      Math.abs((actual[i] ?? Number.NaN) - value) <= bound,
      `${what}[${i}]: ${actual[i]}, not ${value}`,
    );
  });
}

test('SyncBatchNorm normalizes over all rows, also if ranks have different numbers of them', async (context) => {
  const job = await launchFor(context, { ranks: 3 });
  const ranks = await job.on('all').run(({ nn, tf, rank, gradients, dist }) => {
    const first = [0, 1, 4][rank] ?? 0;
    const alone = [0, 1, 2].map((each) => dist.newGroup([each]))[rank];
    if (!alone) throw new Error('each rank is in its own group');
    const values = Array.from({ length: 12 }, (_, i) => [Math.sin(i), Math.cos(3 * i) + 2]);
    const normOf = (norm: InstanceType<typeof nn.SyncBatchNorm>, from: number, to: number) => {
      const x = new nn.Parameter(tf.tensor2d(values.slice(from, to)));
      // The sum over ranks of all losses is the loss of the whole batch.
      const pass = gradients(() => tf.sum(tf.pow(norm.apply(x.tensor), 3)));
      pass.backward();
      return [x.grad?.dataSync() ?? [], norm.running_var?.tensor.dataSync() ?? []].map((part) => [...part]);
    };
    const whole = new nn.SyncBatchNorm(2, { processGroup: alone });
    const [gradient = [], variance = []] = normOf(whole, 0, 12);
    const own = normOf(new nn.SyncBatchNorm(2), first, [1, 4, 12][rank] ?? 0);
    return { own, expected: [gradient.slice(2 * first, 2 * first + (own[0]?.length ?? 0)), variance] };
  });
  for (const { own, expected } of ranks)
    own.forEach((part, i) => {
      requireClose(part, expected[i] ?? [], 'gradient and running variance');
    });
});
