import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { shareJob, temporaryFolder } from '../job-fixture';

const CONFIG: TrainConfigInput = {
  model: { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 256, seq: 8 },
  data: 'synthetic',
  parallel: { strategy: 'FULL_SHARD' },
  optimizer: { lr: 0.01, groups: [{ modules: 'LayerNorm', parameters: 'bias', weightDecay: 0 }] },
};

function near(found: readonly number[], expected: readonly number[]): void {
  assert.equal(found.length, expected.length);
  for (const [i, lr] of found.entries())
    assert.ok(Math.abs(lr - (expected[i] ?? Number.NaN)) < 1e-12, `${found}`);
}

const shared = shareJob({ ranks: 2 });

test('run.lr is the rate of the next step; a schedule, a save and a reshard go on from it', async (context) => {
  const { path: folder } = temporaryFolder(context);
  const job = shared();
  const run = await job.train(CONFIG);
  assert.equal(run.lr, 0.01);
  await run.step(2);
  run.lr = 0.003;
  assert.equal(run.lr, 0.003);
  await run.step(2);
  near(
    run.results.map(({ lr }) => lr),
    [0.01, 0.01, 0.003, 0.003],
  );
  // The rate that is set is saved, also before a step.
  run.lr = 0.002;
  const place = join(folder, 'saved');
  await run.save(place);
  await run.reshard({ strategy: 'ZERO_1' });
  await run.step(2);
  assert.equal(run.results.at(-1)?.lr, 0.002);

  const resumed = await job.train({ ...CONFIG, parallel: { strategy: 'SHARD_GRAD_OP' } });
  await resumed.load(place);
  await resumed.step(2);
  near(
    resumed.results.map(({ lr }) => lr),
    [0.002, 0.002],
  );
  near(resumed.losses, run.losses.slice(4));
  for (const wrong of [-1, Number.NaN, '1' as never]) {
    assert.throws(
      () => {
        run.lr = wrong;
      },
      { code: 'CONFIG', message: /give a number from 0 on/ },
    );
  }
  await run.dispose();

  const falling = await job.train({ ...CONFIG, schedule: { kind: 'linear', maxSteps: 10 } });
  await falling.step(5);
  falling.lr = 0.05;
  await falling.step(3);
  near(
    falling.results.map(({ lr }) => lr),
    [0.01, 0.009, 0.008, 0.007, 0.006, 0.05, 0.04, 0.03],
  );
});

test("a cell trains torch's groups of a sharded model: each with its own settings", async () => {
  const job = shared();
  const [facts] = await job.on('all').run(({ nn, tf, optim, fullyShard, gradients }) => {
    const model = nn.gpt({ layers: 1, dim: 16, heads: 2, vocab: 32, seq: 4 });
    fullyShard(model);
    const named = [...model.namedParameters()];
    const isBias = ([name]: readonly [string, unknown]) => name.endsWith('bias');
    const opt = optim.adamW(
      [{ params: named.filter(isBias), lr: 0 }, { params: named.filter((each) => !isBias(each)) }],
      { lr: 0.01, weightDecay: 0.1 },
    );
    const schedule = new optim.lrScheduler.StepLR(opt, { stepSize: 1, gamma: 0.5 });
    const losses: number[] = [];
    const rates: number[][] = [];
    for (let step = 0; step < 3; step++) {
      const ids = tf.tensor2d([[1, 2, 3, 4]], [1, 4], 'int32');
      const targets = tf.tensor1d([2, 3, 4, 5], 'int32');
      const { loss, backward } = gradients(() => model.apply(ids, targets));
      backward();
      rates.push(opt.paramGroups.map(({ lr }) => lr));
      opt.step();
      schedule.step();
      opt.zeroGrad();
      losses.push(loss.dataSync()[0] ?? Number.NaN);
      tf.dispose([ids, targets, loss]);
    }
    const wsd = optim.getScheduler('wsd', opt, { maxSteps: 10, decaySteps: 2 });
    return { losses, rates, next: wsd.lr };
  });
  assert.deepEqual(facts?.rates, [
    [0, 0.01],
    [0, 0.005],
    [0, 0.0025],
  ]);
  const [first = 0, , last = 0] = facts?.losses ?? [];
  assert.ok(last < first, `${facts?.losses}`);
  assert.equal(facts?.next, 0);
});
