import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heldBytes } from '../../support/held-bytes';
import { launchFor } from '../job-fixture';

test('1,000 steps of a cell add no memory to ranks, and under 4 kB each to the launcher', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  const train = (steps: number) =>
    job.on('all').run(({ nn, tf, optim, gradients, fullyShard, rank }, count) => {
      // The names of cells are shared, so that the second call trains the same model.
      const kept = globalThis as unknown as Record<'trained', ReturnType<typeof build> | undefined>;
      function build() {
        const model = nn.gpt({ layers: 2, dim: 32, heads: 2, vocab: 64, seq: 32 });
        for (const block of model.blocks) fullyShard(block);
        fullyShard(model);
        const tokens = tf.randomUniform([4, 33], 0, 64, 'int32', rank + 1);
        const ids = tokens.slice([0, 0], [4, 32]);
        const targets = tokens.slice([0, 1], [4, 32]).flatten();
        return { model, ids, targets, optimizer: optim.adamW(model, { lr: 1e-3 }) };
      }
      kept.trained ??= build();
      const { model, ids, targets, optimizer } = kept.trained;
      const start = performance.now();
      for (let i = 0; i < count; i++) {
        const pass = gradients(() => model.apply(ids, targets));
        pass.backward();
        optimizer.step();
        optimizer.zeroGrad();
        pass.loss.dispose();
      }
      const ms = (performance.now() - start) / count;
      process.getBuiltinModule('node:v8').setFlagsFromString('--expose-gc');
      process.getBuiltinModule('node:vm').runInNewContext('gc')();
      const { heapUsed, arrayBuffers } = process.memoryUsage();
      return { ms, bytes: heapUsed + arrayBuffers };
    }, steps);
  // In the first thousand steps, V8 compiles functions again and again.
  const first = await train(1200);
  const before = heldBytes();
  const second = await train(1000);
  const perStep = (heldBytes() - before) / 1000;
  assert.ok(perStep < 4000, `${perStep} bytes per step in the launcher`);
  second.forEach(({ bytes }, rank) => {
    const growth = bytes - (first[rank]?.bytes ?? 0);
    assert.ok(growth < 2e6, `rank ${rank} has grown by ${growth} bytes`);
  });
  assert.equal(job.losses.length, 2200);
  const recorded = [...job.view.records].filter(({ rank }) => rank === 0).length;
  assert.ok(recorded >= 4, `${recorded} of the newest steps have records`);
  assert.match(job.memory({ step: 2200 }).subtitle, /step 2,?200/);
  context.diagnostic(`${second.map(({ ms }) => ms.toFixed(2)).join(', ')} ms per step`);
});
