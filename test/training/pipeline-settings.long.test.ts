import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { launchFor } from '../session/job-fixture';
import { assertClose, assertSame, CONFIG, GPT, LLAMA, parametersOf, steps } from './same-training';

const EIGHT_BIT = { kind: 'adamW8bit', eps: 1e-3 } as const;
const EVERYTHING = { optimizer: true, parameters: true, activations: true } as const;
const FULL_RANK = { kind: 'powerSGD', matrixApproximationRank: 24, minCompressionRate: 0.01 } as const;

/** What stages do besides their schedules; values that are rounded to 16 bits at other places differ by a rounding. */
const SETTINGS: Readonly<Record<string, TrainConfigInput & { readonly within?: number }>> = {
  bfloat16: { mixedPrecision: 'bf16', within: 2e-4 },
  'bfloat16, zero bubble, NO_SHARD': {
    mixedPrecision: 'bf16',
    parallel: { schedule: 'zb', strategy: 'NO_SHARD' },
    within: 2e-4,
  },
  'float16 with a scaler, interleaved, ZERO_1': {
    mixedPrecision: 'fp16',
    parallel: { schedule: 'interleaved', strategy: 'ZERO_1' },
    within: 2e-4,
  },
  'PowerSGD of full rank': { parallel: { strategy: 'NO_SHARD', commHook: FULL_RANK } },
  '8-bit AdamW of a tied embedding': {
    model: { ...GPT, dim: 64, vocab: 509 },
    optimizer: EIGHT_BIT,
    parallel: { strategy: 'NO_SHARD', schedule: 'interleaved' },
  },
  '8-bit AdamW, untied, everything clipped': {
    model: { ...GPT, tied: false },
    optimizer: EIGHT_BIT,
    clipNorm: 0.01,
  },
  'everything offloaded': { offload: EVERYTHING },
  'activations offloaded, recomputed, interleaved': {
    offload: { activations: true },
    activationCheckpointing: 'full',
    parallel: { schedule: 'interleaved' },
  },
  LoRA: { model: LLAMA, lora: { r: 2, targets: ['q_proj', 'v_proj'] } },
  DoRA: { model: LLAMA, lora: { r: 2, targets: ['q_proj', 'v_proj'], useDora: true } },
  'a frozen embedding': { frozen: ['wte'] },
  'sparse gradients': {
    model: { ...GPT, tied: false },
    parallel: { strategy: 'NO_SHARD', sparseGradients: true },
  },
};

test('stages with other settings', async (context) => {
  const job = await launchFor(context, { ranks: 4 });

  for (const [name, { within, ...setting }] of Object.entries(SETTINGS)) {
    await context.test(`${name}: losses and parameters equal those without stages`, async () => {
      const config = { ...CONFIG, ...setting, parallel: { ...setting.parallel, pp: 2 } };
      await assertSame(name, job, config, { ranks: 2, ...(within === undefined ? {} : { within }) });
    });
  }

  await context.test('a scaler skips the same updates on all stages', async () => {
    const config: TrainConfigInput = {
      ...CONFIG,
      mixedPrecision: { paramDtype: 'fp16' },
      gradScaler: { initScale: 2 ** 26 },
    };
    const skipped: boolean[][] = [];
    // Smaller microbatches have larger gradients, of which more overflow, as with accumulation.
    for (const parallel of [{}, { pp: 2, microbatches: 1 }] as const) {
      const run = await job.train({ ...config, parallel }, { ranks: 'pp' in parallel ? 4 : 2 });
      const own: boolean[] = [];
      for await (const step of run.steps(12)) own.push(step.skipped);
      skipped.push(own);
      await run.dispose();
    }
    assert.deepEqual(skipped[1], skipped[0]);
    assert.deepEqual([skipped[0]?.[0], skipped[0]?.at(-1)], [true, false]);
  });

  for (const [name, model, parallel] of [
    ['a GPT', GPT, { pp: 2, schedule: 'interleaved' }],
    ['a Llama, with tp', LLAMA, { pp: 2, tp: 2 }],
  ] as const) {
    await context.test(`writes and reads a folder of ${name}, and moves to any degrees`, async () => {
      const folder = join(mkdtempSync(join(tmpdir(), 'shardlab-pp-')), 'model');
      const run = await job.train({ ...CONFIG, model, parallel });
      await run.step(2);
      await run.savePretrained(folder);
      const from: TrainConfigInput = { ...CONFIG, model: { from: folder } };
      const staged = await job.train({ ...from, parallel });
      const plain = await job.train(from, { ranks: 4 / 2 / ('tp' in parallel ? 2 : 1) });
      const [saved, read] = [await parametersOf(run), await parametersOf(staged)];
      for (const [tensor, { values }] of saved) assert.deepEqual(read.get(tensor)?.values, values);
      assertClose(name, await steps(staged), await steps(plain));
      for (const change of [
        { tp: 2, pp: 2, schedule: '1f1b' },
        { tp: 1, cp: 2, schedule: 'zb' },
        { cp: 1, tp: 4, pp: 1, schedule: '1f1b' },
        { tp: 1, pp: 1, world: plain.world },
      ] as const) {
        assert.match(String(await staged.reshard(change)), /all bit-equal/);
      }
      assertClose(`${name}, moved`, await steps(staged), await steps(plain));
      for (const one of [run, staged, plain]) await one.dispose();
    });
  }
});
