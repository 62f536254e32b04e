import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
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
    it('waiting gradients, and which parameters have none, travel in checkpoints between the engines', async (context) => {
      const folder = mkdtempSync(join(tmpdir(), 'shardlab-delayed-'));
      context.after(() => rmSync(folder, { recursive: true }));
      const config = delayed({ model: { ...MOE, experts: 16, router: 'switch' }, batch: 1 });
      for (const [i, job] of jobs.entries()) {
        const run = await job.train(config);
        await run.step(3);
        await run.save(join(folder, `${i}`));
        const { optimizer } = JSON.parse(readFileSync(join(folder, `${i}`, 'trainer_state.json'), 'utf8'));
        assert.ok(optimizer.leftOutNext.length > 0, 'each expert had a token');
        await run.step(3);
        const other = await jobs[1 - i]?.train({ ...config, parallel: { strategy: 'ZERO_1' } });
        assert.ok(other !== undefined);
        await other.load(join(folder, `${i}`));
        await other.step(3);
        const difference = largestDifference(other.losses.slice(-3), run.losses.slice(-3));
        assert.ok(difference <= LOSS_BOUND, `${other.losses}; ${run.losses}`);
        const { first } = await run.parity(other, { steps: 1, tolerance: 1e-3 });
        assert.equal(first, null, JSON.stringify(first));
        await other.dispose();
        await run.dispose();
      }
    });
  },
);

const GROUPS = {
  lr: 3e-3,
  weightDecay: 0.3,
  groups: [
    { modules: 'LayerNorm', parameters: 'bias', weightDecay: 0 },
    { modules: 'wte', lr: 1e-2, betas: [0.8, 0.99] },
  ],
} satisfies TrainConfigInput['optimizer'];
const grouped = (settings: TrainConfigInput): TrainConfigInput => ({
  ...BASE,
  optimizer: GROUPS,
  ...settings,
});
const unfused = { ...GROUPS, fused: false };

compareSettings(
  'groups of parameters have the same losses, gradients and parameters on PyTorch',
  [
    { name: 'FSDP2', config: grouped({}) },
    { name: 'FSDP2 without fused kernels', config: grouped({ optimizer: unfused }) },
    {
      name: 'FSDP1 with a schedule',
      config: grouped({ schedule: { kind: 'cosine', warmupSteps: 2, maxSteps: 8 } }),
      framework: 'fsdp1',
    },
    { name: 'DDP', config: grouped({ parallel: { strategy: 'NO_SHARD' } }) },
    { name: 'ZeRO-1', config: grouped({ parallel: { strategy: 'ZERO_1' } }) },
    {
      name: 'ZeRO-1 without fused kernels',
      config: grouped({ optimizer: unfused, parallel: { strategy: 'ZERO_1' } }),
    },
    {
      name: 'DeepSpeed ZeRO-2',
      config: grouped({ parallel: { strategy: 'ZERO_2' } }),
      framework: 'deepspeed',
    },
    { name: 'DeepSpeed ZeRO-3', config: grouped({}), framework: 'deepspeed' },
    { name: 'TP 2', config: grouped({ parallel: { strategy: 'NO_SHARD', tp: 2 } }) },
    { name: 'MoE, EP 2', config: grouped({ model: MOE, parallel: { ep: 2 } }) },
    {
      name: "SGD's momentum",
      config: grouped({
        optimizer: {
          ...{ kind: 'sgd', lr: 0.05, momentum: 0.9, weightDecay: 0.1 },
          groups: [{ parameters: 'bias', momentum: 0, weightDecay: 0 }],
        },
      }),
    },
  ],
  (jobs) => {
    it('the rates of groups travel in checkpoints between the engines', async (context) => {
      const folder = mkdtempSync(join(tmpdir(), 'shardlab-groups-'));
      context.after(() => rmSync(folder, { recursive: true }));
      for (const [i, job] of jobs.entries()) {
        const other = jobs[1 - i];
        const run = await job.train(grouped({}));
        await run.step(2);
        await run.save(join(folder, `${i}`));
        await run.step(2);
        const continued = await other?.train(grouped({ parallel: { strategy: 'ZERO_1' } }));
        const without = await other?.train(BASE);
        assert.ok(continued !== undefined && without !== undefined);
        await continued.load(join(folder, `${i}`));
        await continued.step(2);
        const difference = largestDifference(continued.losses.slice(-2), run.losses.slice(-2));
        assert.ok(difference <= LOSS_BOUND, `${continued.losses}; ${run.losses}`);
        await assert.rejects(
          without.load(join(folder, `${i}`)),
          /the saved optimizer has 3 parameter groups, but this optimizer has 1/,
        );
        for (const each of [run, continued, without]) await each.dispose();
      }
    });

    it('the rate that is set by hand holds for all groups, as here', async () => {
      const losses: (readonly number[])[] = [];
      for (const job of jobs) {
        const run = await job.train(grouped({ schedule: { kind: 'linear', maxSteps: 8 } }));
        await run.step(1);
        run.lr = 1e-3;
        await run.step(3);
        losses.push(run.losses);
        await run.dispose();
      }
      assert.ok(largestDifference(losses[0] ?? [], losses[1] ?? []) <= LOSS_BOUND, losses.join('; '));
    });
  },
);
