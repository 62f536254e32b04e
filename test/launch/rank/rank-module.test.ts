import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { launchFor, launchForAll, resultsOf, runCell } from '../../session/job-fixture';

const shared = launchForAll({ ranks: 2 });

const RANK_MODULE = join(__dirname, '..', '..', '..', 'src', 'rank.js');

test('the module shardlab/rank gives each rank its own values, and none outside ranks', async () => {
  const job = shared();
  const js = `const names = require(${JSON.stringify(RANK_MODULE)}); [names.rank === rank, names.dist === dist, typeof names.nn.gpt, names.worldSize]`;
  assert.deepEqual(resultsOf(await runCell(job, js)), {
    0: "[ true, true, 'function', 2 ]",
    1: "[ true, true, 'function', 2 ]",
  });
  const scope = await job.on([0]).run((names) => Object.keys(names).sort());
  const exported = await job
    .on([0])
    .run(
      (_, path) => Object.keys(process.getBuiltinModule('node:module').createRequire(path)(path)).sort(),
      RANK_MODULE,
    );
  assert.deepEqual(exported, scope, 'src/rank.ts exports what the scope has');
  assert.throws(() => require(RANK_MODULE), { code: 'CONFIG', message: /only by code that runs in a rank/ });
});

test('the naive forms train like the real ones, and refuse a model that is already sharded', async () => {
  const job = shared();
  const train = `
    const lossesOf = (model) => {
      const opt = optim.adamW(model, { lr: 1e-2 });
      const ids = tf.tensor2d([[1, 2, 3, 4, 5, 6, 7, 8 + rank]], [1, 8], 'int32');
      const targets = tf.tensor1d([2, 3, 4, 5, 6, 7, 8, 9], 'int32');
      const losses = Array.from({ length: 4 }, () => {
        const pass = gradients(() => model.apply(ids, targets));
        pass.backward();
        opt.step();
        opt.zeroGrad();
        return dist.allReduce(pass.loss, { op: 'avg' }).dataSync()[0].toFixed(4);
      });
      return losses.join(' ');
    };
    const make = () => nn.gpt({ layers: 1, dim: 8, heads: 2, vocab: 32, seq: 8 });
    const ddp = DDP(make()).module;
    const found = [ddp, fullyShard(make()), naive.DDP(make()), naive.fullyShard(make())].map((model) => lossesOf(model));
    new Set(found).size`;
  assert.deepEqual(resultsOf(await runCell(job, train)), { 0: '1', 1: '1' });
  await assert.rejects(runCell(job, 'naive.DDP(ddp)', 2), /naive\.DDP\(model\): .*build the model again/);
});

test('the naive forms of model parallelism and the naive loop train like the whole model', async () => {
  const cell = `
    const sizes = { layers: 2, dim: 8, heads: 2, vocab: 32, seq: 8, seed: 3 };
    const batch = () => ({
      ids: tf.tensor2d([[1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1]], [2, 8], 'int32'),
      targets: tf.tensor1d([2, 3, 4, 5, 6, 7, 8, 9, 7, 6, 5, 4, 3, 2, 1, 0], 'int32'),
    });
    const trained = (model) => {
      const steps = naive.train({ model, optimizer: optim.adamW(model, { lr: 1e-2 }), batch });
      return [1, 2, 3].map(() => steps.next().value.loss.toFixed(4)).join(' ');
    };
    const staged = (model) => {
      const { module, step } = naive.pipeline(model);
      const opt = optim.adamW(module, { lr: 1e-2 });
      return [1, 2, 3].map(() => {
        opt.zeroGrad();
        const { ids, targets } = batch();
        const loss = tf.tensor1d([step(ids, targets, 2) ?? 0]);
        opt.step();
        return dist.allReduce(loss, { op: 'sum' }).dataSync()[0].toFixed(4);
      }).join(' ');
    };
    const moe = () => nn.moe({ ...sizes, experts: 4, router: 'topk' });
    const alone = trained(nn.gpt(sizes));
    const expected = [alone, alone, alone, trained(moe())];
    const found = [
      trained(naive.tensorParallel(nn.gpt(sizes))),
      trained(naive.DDP(naive.contextParallel(nn.gpt(sizes)))),
      staged(nn.gpt(sizes)),
      trained(DDP(naive.expertParallel(moe())).module),
    ];
    found.filter((losses, i) => losses === expected[i]).length`;
  assert.deepEqual(resultsOf(await runCell(shared(), cell)), { 0: '4', 1: '4' });
});

test('collectives take their operation, source and destination as second argument, as in torch', async () => {
  const job = shared();
  const found = await job.on('all').run(({ dist, tf, rank }) => {
    const of = (x: { dataSync(): ArrayLike<number> }): number => x.dataSync()[0] ?? -1;
    const values = [
      of(dist.allReduce(tf.tensor1d([rank + 1]), 'sum')),
      of(dist.allReduce(tf.tensor1d([rank + 1]), dist.ReduceOp.AVG)),
      of(dist.allReduce(tf.tensor1d([rank + 1]), dist.ReduceOp.MAX)),
      of(dist.reduceScatter(tf.tensor1d([rank, 10 * rank]), 'sum')),
      of(dist.broadcast(tf.tensor1d([rank]), 1)),
    ];
    if (rank === 0) dist.send(tf.tensor1d([5]), 1);
    else values.push(of(dist.recv(tf.tensor1d([0]), 0)));
    const errors = [
      () => dist.allReduce(tf.tensor1d([1]), 'total' as never),
      () => (dist.ReduceOp as unknown as Record<string, unknown>).MIN,
      () => dist.broadcast(tf.tensor1d([1]), 7),
    ].map((wrong) => {
      try {
        wrong();
        return '';
      } catch (error) {
        return (error as Error).message;
      }
    });
    return { values, errors };
  });
  assert.deepEqual(
    found.map(({ values }) => values),
    [
      [3, 1.5, 2, 1, 1],
      [3, 1.5, 2, 10, 1, 5],
    ],
  );
  for (const { errors } of found) {
    assert.match(errors[0] ?? '', /op is 'total', but must be one of 'sum', 'avg', 'max'/);
    assert.match(errors[1] ?? '', /ReduceOp\.MIN does not exist; use SUM, AVG or MAX/);
    assert.match(errors[2] ?? '', /src 7 is not in group/);
  }
});

test('a cell of ranks builds, shards and trains its own model with the names in scope', async () => {
  const job = shared();
  const js = `
    let model = nn.gpt({ layers: 2, dim: 16, heads: 2, vocab: 64, seq: 8 });
    for (const block of model.blocks) fullyShard(block, { mesh });
    fullyShard(model, { mesh });
    let opt = optim.adamw(model, { lr: 1e-2 });
    model.numParams()`;
  const params = resultsOf(await runCell(job, js, 1));
  assert.equal(params[0], params[1]);
  const training = `
    let ids = tf.tensor2d([[1, 2, 3, 4, 5, 6, 7, 8]], [1, 8], 'int32');
    let targets = tf.tensor1d([2, 3, 4, 5, 6, 7, 8, 9], 'int32');
    let losses = [];
    for (let step = 0; step < 8; step++) {
      const { loss, backward } = gradients(() => model.apply(ids, targets));
      backward();
      opt.step();
      opt.zeroGrad();
      losses.push(loss.dataSync()[0]);
      loss.dispose();
    }
    losses[7] < losses[0] - 0.5`;
  assert.deepEqual(resultsOf(await runCell(job, training, 2)), { 0: 'true', 1: 'true' });
  const coordinates = await job.on('all').run(({ initDeviceMesh, dist, tf }) => {
    const mesh = initDeviceMesh([2, 1], ['dp', 'tp']);
    const x = tf.ones([2]) as import('@tensorflow/tfjs').Tensor;
    dist.allReduce(x, { group: mesh.get('dp') });
    return [...mesh.coordinate, ...x.dataSync()];
  });
  assert.deepEqual(coordinates, [
    [0, 0, 2, 2],
    [1, 0, 2, 2],
  ]);
});

test('the error of a missing collective names the ranks of a smaller group that wait', async (context) => {
  const job = await launchFor(context, { ranks: 3 });
  await runCell(job, 'let pair = dist.newGroup([0, 2])', 1);
  await assert.rejects(runCell(job, 'if (rank === 2) dist.barrier({ group: pair })', 2), {
    code: 'COLLECTIVE_MISSING',
    message: /rank 2 waits in barrier #1 \(group .*cell 2, line 1\), but rank 0 ended without calling it/,
  });
});
