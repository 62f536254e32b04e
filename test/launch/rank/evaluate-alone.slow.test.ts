import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HANG_MS, resultsOf, runCell, shareJob } from '../../session/job-fixture';

const shared = shareJob({ ranks: 2 });

/** A Linear and a BatchNorm under DDP; one step with other batches on the ranks. */
const TRAINED = `
  const model = new nn.Sequential(new nn.Linear(2, 2), new nn.BatchNorm1d(2));
  const [weight, bias] = model.parameters();
  engine.fill(bias.tensor, 0);
  weight.replace(tf.keep(tf.tensor2d([[1, 2], [3, 4]])));
  const ddp = new DDP(model);
  const optimizer = optim.sgd(ddp, { lr: 0.1 });
  const x = tf.mul(tf.tensor2d([[1, 2], [3, 5]]), rank + 1);
  const step = () => {
    tf.sum(tf.mul(ddp.apply(x), tf.tensor2d([[1, 2], [3, -1]]))).backward();
    optimizer.step();
    optimizer.zeroGrad();
  };
  step();
`;

test('rank 0 alone evaluates the module of a DDP, with torch 2.13’s values, and training continues', {
  timeout: HANG_MS,
}, async () => {
  const events = await runCell(
    shared(),
    `{ ${TRAINED}
      ddp.eval();
      globalThis.alone = rank === 0 ? [1, 2].map(() => [...ddp.module.apply(x).dataSync()]) : [];
      ddp.train();
      step();
      globalThis.mean = [...model.buffers()[0].tensor.dataSync()];
    }
    JSON.stringify([alone, dist.allGather(tf.tensor1d(mean)).map((each) => [...each.dataSync()])])`,
  );
  const results = Object.values(resultsOf(events)).map((text) => JSON.parse(String(text).slice(1, -1)));
  const [[alone = [], means = []] = []] = results as [number[][], number[][]][];
  const torch = [1.219874620437622, 2.729356527328491, 4.380605220794678, 8.388070106506348];
  for (const row of alone)
    for (const [i, value] of row.entries()) assert.ok(Math.abs(value - (torch[i] ?? 0)) < 1e-5, `${row}`);
  assert.equal(alone.length, 2);
  assert.equal(means.length, 2);
});

test('the wrapper itself sends buffers in eval mode too, so rank 0 alone gets an error in place of torch’s wait', {
  timeout: HANG_MS,
}, async () => {
  const cell = `{ ${TRAINED} ddp.eval(); if (rank === 0) ddp.apply(x); }`;
  await assert.rejects(runCell(shared(), cell), { code: 'COLLECTIVE_MISSING', message: /broadcast/ });
});
