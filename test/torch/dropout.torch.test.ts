import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { launch } from '../../src/session/run/launch';
import { GPT, LLAMA, largestDifference, launchTorch, MOE } from './torch-fixture';

const BOUND = 1e-5;
const STEPS = 4;
const BASE: TrainConfigInput = { model: GPT, batch: 4, optimizer: { lr: 1e-2 }, clipNorm: 1, seed: 5 };
const dropping = (config: TrainConfigInput, more: TrainConfigInput['lora'] = {}): TrainConfigInput => ({
  ...BASE,
  ...config,
  lora: { r: 4, dropout: 0.2, ...more },
});

const CASES: Readonly<Record<string, TrainConfigInput>> = {
  'FSDP2, accumulation and recompute': dropping({ accumulation: 2, activationCheckpointing: 'full' }),
  'DDP, DoRA of a Llama': dropping(
    { model: LLAMA, parallel: { strategy: 'NO_SHARD' } },
    { dropout: 0.5, useDora: true },
  ),
  'experts on other ranks': dropping({ model: MOE, parallel: { ep: 2 } }),
  'Ulysses, recompute of every second block': dropping({
    parallel: { cp: 2 },
    activationCheckpointing: { everyNth: 2 },
  }),
  'a pipeline, recompute': dropping({
    parallel: { strategy: 'NO_SHARD', pp: 2 },
    activationCheckpointing: 'full',
  }),
  'an interleaved pipeline': dropping({
    model: { ...GPT, layers: 4 },
    parallel: { strategy: 'NO_SHARD', pp: 2, schedule: 'interleaved' },
  }),
};

test('dropout of adapters drops the same elements on PyTorch as here, so losses are equal', async (context) => {
  const here = await launch({ ranks: 2 });
  context.after(() => here.shutdown());
  const there = await launchTorch(context, { ranks: 2 });
  for (const [name, config] of Object.entries(CASES)) {
    await context.test(name, async () => {
      const runs = [await here.train(config), await there.train(config)] as const;
      for (const run of runs) await run.step(STEPS);
      const [ours, theirs] = runs.map(({ losses }) => losses) as [number[], number[]];
      assert.ok(largestDifference(ours, theirs) <= BOUND, `${theirs}; ${ours}`);
      for (const run of runs) await run.dispose();
    });
  }
});
