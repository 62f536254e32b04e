import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchForAll, runCell } from '../../session/job-fixture';
import { HAS_ALL_CASES } from '../../support/cases';

const shared = launchForAll({ ranks: 2 });

const SETUP = `
  const layer = new nn.Linear(4, 1);
  const optimizer = optim.sgd(layer, { lr: 1e-3 });
  const train = (steps) => {
    for (let i = 0; i < steps; i++) {
      gradients(() => tf.mean(layer.apply(tf.ones([2, 4])))).backward();
      optimizer.step();
      optimizer.zeroGrad();
    }
  };`;

/**
 * Without [Note: interrupted operations], one of about 80 interrupts damages the heap or frees a gradient. So only the long run
 * has enough interrupts to find such a defect in about every second run.
 */
const NUM_INTERRUPTS = HAS_ALL_CASES ? 60 : 10;

test('interrupts at any moment leave a rank with sound tensors', async () => {
  const job = shared();
  await runCell(job, SETUP);
  for (let i = 0; i < NUM_INTERRUPTS; i++) {
    const endless = runCell(job, 'tf.tidy(() => train(1e9))', 2).catch((error: unknown) => error);
    await new Promise((resolve) => setTimeout(resolve, 20 + (i % 17)));
    await job.interrupt();
    assert.match(String(await endless), /interrupted/);
    await runCell(job, 'train(2)', 3);
  }
});

test('a loop that swallows the errors of its operations is ended', async () => {
  const job = shared();
  const cell =
    'let x = tf.ones([8]); while (true) { try { const y = x.add(1); x.dispose(); x = y; } catch {} }';
  const endless = runCell(job, cell, 2).catch((error: unknown) => error);
  await new Promise((resolve) => setTimeout(resolve, 100));
  await job.interrupt();
  assert.match(String(await endless), /interrupted/);
  await runCell(job, 'if (!Number.isFinite(x.sum().dataSync()[0])) throw new Error("lost")', 3);
});
