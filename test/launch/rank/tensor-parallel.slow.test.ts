import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchFor, runCell, shareJob } from '../../session/job-fixture';

const four = shareJob({ ranks: 4 });

test('a loop by hand trains tensor-parallel layers and a split model over dp, as one rank trains the whole ones', async () => {
  const job = four();
  const found = await job.on('all').run((scope) => {
    const { nn, tf, optim, initializeModelParallel, fullyShard, ColumnParallelLinear, RowParallelLinear } =
      scope;
    const { tp, dp, mesh } = initializeModelParallel({ tensorModelParallelSize: 2 });
    class Split extends nn.Module {
      readonly up = new ColumnParallelLinear(6, 9, { group: tp });
      readonly down = new RowParallelLinear(9, 6, { group: tp });
      forward(x: import('@tensorflow/tfjs').Tensor) {
        return this.down.apply(tf.sigmoid(this.up.apply(x)));
      }
    }
    class Whole extends nn.Module {
      readonly up = new nn.Linear(6, 9);
      readonly down = new nn.Linear(9, 6);
      forward(x: import('@tensorflow/tfjs').Tensor) {
        return this.down.apply(tf.sigmoid(this.up.apply(x)));
      }
    }
    const losses = [new Split(), new Whole()].map((model) => {
      const optimizer = optim.adamW(model, { lr: 0.05 });
      return Array.from({ length: 3 }, () => {
        const loss = tf.mean(tf.square(model(tf.ones([2, 3, 6]))));
        loss.backward();
        optimizer.step();
        optimizer.zeroGrad();
        return loss.dataSync()[0] ?? 0;
      });
    });
    const shape = { layers: 2, dim: 12, heads: 2, vocab: 13, seq: 4, seed: 3 };
    const ids = tf.tensor2d([1, 2, 3, 4, 12, 6, 7, 8], [2, 4], 'int32');
    const targets = tf.reshape(ids, [-1]);
    const split = scope.parallelizeTensors(nn.gpt(shape), mesh.slice('tp'), { sequenceParallel: true });
    for (const block of split.blocks) fullyShard(block, { mesh: mesh.slice('dp') });
    fullyShard(split, { mesh: mesh.slice('dp') });
    const models = [split, nn.gpt(shape)].map((model) => {
      const optimizer = optim.adamW(model, { lr: 0.05 });
      return Array.from({ length: 3 }, () => {
        const loss = model(ids, targets);
        loss.backward();
        const norm = optim.clipGradNorm(model, 0.1);
        optimizer.step();
        optimizer.zeroGrad();
        return [loss.dataSync()[0] ?? 0, norm];
      }).flat();
    });
    return { losses, models, replicas: dp.size };
  });
  for (const { losses, models, replicas } of found) {
    assert.equal(replicas, 2);
    for (const [split = [], whole = []] of [losses, models]) {
      assert.equal(split.length, whole.length);
      split.forEach((value, i) => {
        assert.ok(Math.abs(value - (whole[i] ?? 0)) <= 2e-5 * Math.abs(value), `${split} is not ${whole}`);
      });
    }
  }
});

test('a cell that reduces or parallelizes a split model wrongly gets an error; padding warns once', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const warned = await runCell(
    job,
    `const parallel = initializeModelParallel({ tensorModelParallelSize: 2 });
     const shape = { layers: 1, dim: 8, heads: 2, vocab: 13, seq: 4 };
     let model = parallelizeTensors(nn.gpt(shape), parallel.mesh.slice('tp'));
     parallelizeTensors(nn.gpt(shape), parallel.mesh.slice('tp'));`,
    1,
  );
  const texts = warned.flatMap((event) => ('text' in event ? [String(event.text)] : []));
  const padded = texts.filter((text) => /2 ranks do not divide 13 rows of a matrix/.test(text));
  assert.ok(padded.length >= 1 && padded.length <= 2, JSON.stringify(warned).slice(0, 2000));
  const refused: readonly [string, RegExp][] = [
    ['fullyShard(model)', /ranks 0, 1 have different parts of .*mesh: parallel\.mesh\.slice\('dp'\)/],
    ['DDP(model)', /DDP: ranks 0, 1 have different parts/],
    ['naive.fullyShard(model)', /naive\.fullyShard: ranks 0, 1 have different parts/],
    ['parallelizeModule(nn.gpt(shape), parallel.tp, {})', /takes a mesh of one axis.*slice\('tp'\)/],
    ["parallelizeModule(nn.gpt(shape), parallel.mesh.slice('tp'))", /takes a plan, as/],
    ['ColumnParallelLinear(8, 16, { gather_output: true })', /gather_output is written gatherOutput here/],
  ];
  for (const [i, [js, message]] of refused.entries())
    await assert.rejects(runCell(job, js, 2 + i), { code: 'CONFIG', message }, js);
});
