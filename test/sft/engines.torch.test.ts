import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { Job } from '../../src/session/run/job';
import { launchFor } from '../session/job-fixture';
import { largestDifference, launchTorch } from '../torch/torch-fixture';
import { CHATS, LLAMA, TOKENIZER } from './instruction-data';

const DATA = { instructions: CHATS, tokenizer: TOKENIZER, validation: CHATS } as const;
const PACKED = { model: { ...LLAMA, seq: 128 }, data: { ...DATA, packing: true } } as const;
const GPT = { kind: 'gpt', layers: 2, dim: 16, heads: 4, vocab: 402, seq: 128 } as const;
const LORA = { r: 4, alpha: 8, targets: ['q_proj', 'down_proj'] };

const CASES: Readonly<Record<string, TrainConfigInput>> = {
  'DDP with accumulation': { parallel: { strategy: 'NO_SHARD' }, batch: 1, accumulation: 3 },
  'FULL_SHARD on packed rows': { ...PACKED, parallel: { strategy: 'FULL_SHARD' }, batch: 1 },
  'packed rows of a GPT with recomputed blocks': {
    ...{ ...PACKED, model: GPT, parallel: { strategy: 'FULL_SHARD' }, batch: 1 },
    activationCheckpointing: 'full',
  },
  'LoRA under DDP': { lora: LORA, parallel: { strategy: 'NO_SHARD' }, batch: 3 },
  'LoRA of all layers under FULL_SHARD': { lora: { r: 4 }, parallel: { strategy: 'FULL_SHARD' }, batch: 3 },
  'LoRA with dropout under DDP': {
    lora: { ...LORA, dropout: 0.05 },
    parallel: { strategy: 'NO_SHARD' },
    batch: 3,
  },
  'LoRA under ZERO_1': { lora: LORA, parallel: { strategy: 'ZERO_1' }, batch: 3 },
  'a pipeline': { parallel: { strategy: 'NO_SHARD', pp: 2 }, batch: 6 },
  'split matrices': { parallel: { strategy: 'FULL_SHARD', tp: 2 }, batch: 6 },
  'divided sequences': { parallel: { strategy: 'NO_SHARD', cp: 2 }, batch: 6 },
};

/** Returns the losses of four steps, and of an evaluation. */
async function lossesOn(job: Job, config: TrainConfigInput): Promise<number[]> {
  const run = await job.train({ model: LLAMA, data: DATA, seed: 3, optimizer: { lr: 1e-2 }, ...config });
  await run.step(4);
  const { loss } = await run.evaluate();
  await run.dispose();
  return [...run.losses, loss];
}

test('ranks of PyTorch train on conversations with the losses of this library', async (context) => {
  const [here, there] = await Promise.all([
    launchFor(context, { ranks: 2 }),
    launchTorch(context, { ranks: 2 }),
  ]);
  for (const [name, config] of Object.entries(CASES)) {
    await context.test(name, async () => {
      const [ours, theirs] = [await lossesOn(here, config), await lossesOn(there, config)];
      const difference = largestDifference(ours, theirs);
      assert.ok(difference < 1e-5, `${name}: ${difference}: ${ours} and ${theirs}`);
      assert.ok((theirs[3] ?? Number.NaN) < (theirs[0] ?? Number.NaN));
    });
  }
});

test('ranks of PyTorch refuse compiled packed rows', async (context) => {
  const job = await launchTorch(context, { ranks: 1 });
  const config = { model: LLAMA, data: DATA };
  await assert.rejects(
    job.train({ ...config, ...PACKED }, { compile: true }),
    /compile does not support data\.packing/,
  );
});
