import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { launchFor } from '../../session/job-fixture';
import { assertClose } from '../../support/close';

const STEPS = 3;
const CONFIG: TrainConfigInput = {
  model: {
    kind: 'moe',
    layers: 4,
    dim: 12,
    heads: 2,
    vocab: 61,
    seq: 8,
    experts: 4,
    router: 'topk',
    biasUpdateRate: 0.1,
  },
  data: { tokens: Uint16Array.from({ length: 300 }, (_, i) => (i * i) % 61), validation: 0.3 },
  batch: 2,
  clipNorm: 0.5,
};

const LAYOUTS: Readonly<Record<string, NonNullable<TrainConfigInput['parallel']>>> = {
  gpipe: { schedule: 'gpipe', ep: 2, strategy: 'NO_SHARD' },
  '1f1b, cut by time': { schedule: '1f1b', stageSplit: 'time', ep: 2, strategy: 'FULL_SHARD' },
  interleaved: { schedule: 'interleaved', ep: 2, strategy: 'ZERO_1' },
  'zero bubble': { schedule: 'zb', ep: 2, strategy: 'NO_SHARD' },
  'zero bubble, tensors over 2': { schedule: 'zb', tp: 2 },
};

test('stages of a model with experts do what one process does', async (context) => {
  const job = await launchFor(context, { ranks: 4 });
  for (const [name, parallel] of Object.entries(LAYOUTS)) {
    await context.test(`${name}: losses, loads, validation and samples`, async () => {
      const plain = await job.train(CONFIG, { ranks: 2 / (parallel.tp ?? 1) });
      const split = await job.train({ ...CONFIG, parallel: { pp: 2, ...parallel } });
      await plain.step(STEPS);
      await split.step(STEPS);
      assertClose(split.losses, plain.losses, 1e-5, 'losses');
      const loads = plain.results.map(({ experts }) => experts);
      assert.deepEqual(
        split.results.map(({ experts }) => experts),
        loads,
      );
      assert.deepEqual(
        split.experts({ layer: 'blocks.3.moe' }).table.rows,
        plain.experts({ layer: 'blocks.3.moe' }).table.rows,
      );
      assertClose([(await split.evaluate()).loss], [(await plain.evaluate()).loss], 1e-5, 'validation');
      const greedy = { tokens: 4, temperature: 0 };
      assert.deepEqual(await split.sample([1, 2, 3], greedy), await plain.sample([1, 2, 3], greedy));
      const whole = {
        pp: 1,
        tp: 1,
        sequenceParallel: false,
        ep: 4,
        schedule: '1f1b',
        stageSplit: 'layers',
      } as const;
      assert.match(String(await split.reshard({ ...whole, strategy: 'FULL_SHARD' })), /all bit-equal/);
      for (const run of [plain, split]) await run.dispose();
    });
  }
});
