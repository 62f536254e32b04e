import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { launchCheck } from '../../../src/session/launch-check/launch-check';
import { testFolder } from '../../programs/export/export-fixture';
import { writeSparseBundle } from './sparse-bundle';

const python = process.env.SHARDLAB_TORCH_PYTHON ?? '';
const skip = python === '' && 'SHARDLAB_TORCH_PYTHON names no Python with PyTorch';

const BF16 = { mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' } } as const;

/** Models of published sizes, their machines, and the parameters that a rank updates. */
const BUNDLES: Readonly<Record<string, readonly [TrainConfigInput, number, number]>> = {
  'GPT-2 under DDP on 8 ranks': [
    { model: 'gpt2', parallel: { strategy: 'NO_SHARD' }, ...BF16 },
    1,
    124_439_808,
  ],
  'GPT-2 with tensor parallelism of 4 on 64 ranks': [
    { model: 'gpt2', parallel: { tp: 4 }, ...BF16 },
    8,
    85_056_000 / 64 + 39_383_808 / 16, // tensor parallelism splits the blocks, and not the embeddings
  ],
  'Llama 3 8B under FSDP2 on 512 ranks': [
    { model: 'llama3-8b', activationCheckpointing: 'full', ...BF16 },
    64,
    8_030_261_248 / 512,
  ],
};

for (const [name, [config, machines, numParameters]] of Object.entries(BUNDLES)) {
  test(`the first and the last rank of a bundle pass: ${name}`, { skip }, async (context) => {
    const out = join(testFolder(context), 'bundle');
    writeSparseBundle(out, config, { machines, gpusPerMachine: 8 });
    for (const rank of [0, machines * 8 - 1]) {
      const check = await launchCheck(out, { rank, timeout: 180 });
      assert.equal(check.passed, true, String(check));
      const { bytes, seconds, processBytes } = check.dryStart ?? assert.fail('it trains no step');
      context.diagnostic(`rank ${rank}: ${seconds.toFixed(0)} s, ${Math.round(processBytes / 2 ** 20)} MiB`);
      const share = (bytes.optimizer ?? 0) / (8 * numParameters);
      // torch rounds chunks up to whole rows, so the last of 512 ranks has none of the vocabulary's.
      assert.ok(share > 0.85 && share < 1.05, `optimizer states are ${share} of the formula's`);
      const beside = check.memory.find(({ cause }) => cause === 'peak');
      assert.ok(
        beside?.ratio != null && beside.ratio > 0.5 && beside.ratio < 2,
        `the plan is ${beside?.ratio} of it`,
      );
    }
  });
}
