import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { BASE, compareSettings, LOSS_BOUND } from './compare-settings';
import { largestDifference, MOE } from './torch-fixture';

const DELAYED = { lr: 3e-3, delayedUpdate: true } as const;
const delayed = (settings: TrainConfigInput): TrainConfigInput => ({
  ...BASE,
  optimizer: DELAYED,
  ...settings,
});

compareSettings(
  'a delayed update has the same losses, gradients and parameters on PyTorch',
  [
    { name: 'FSDP2', config: delayed({ clipNorm: 0.5 }) },
    { name: 'FSDP1', config: delayed({ accumulation: 2 }), framework: 'fsdp1' },
    { name: 'DDP', config: delayed({ parallel: { strategy: 'NO_SHARD' } }) },
    { name: 'ZeRO-1', config: delayed({ parallel: { strategy: 'ZERO_1' } }) },
    { name: 'experts that a step leaves out', config: delayed({ model: { ...MOE, router: 'switch' } }) },
    {
      name: "SGD's momentum",
      config: delayed({ optimizer: { kind: 'sgd', lr: 0.05, momentum: 0.9, delayedUpdate: true } }),
    },
  ],
  (jobs) => {
    it('waiting gradients travel in checkpoints between the engines', async (context) => {
      const folder = mkdtempSync(join(tmpdir(), 'shardlab-delayed-'));
      context.after(() => rmSync(folder, { recursive: true }));
      const config = delayed({ model: { ...MOE, router: 'switch' } });
      for (const [i, job] of jobs.entries()) {
        const run = await job.train(config);
        await run.step(3);
        await run.save(join(folder, `${i}`));
        await run.step(3);
        const other = await jobs[1 - i]?.train({ ...config, parallel: { strategy: 'ZERO_1' } });
        assert.ok(other !== undefined);
        await other.load(join(folder, `${i}`));
        await other.step(3);
        const difference = largestDifference(other.losses.slice(-3), run.losses.slice(-3));
        assert.ok(difference <= LOSS_BOUND, `${other.losses}; ${run.losses}`);
        await other.dispose();
        await run.dispose();
      }
    });
  },
);
