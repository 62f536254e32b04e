// [Smoke: every strategy, model and way to divide a model]
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import type { TorchFramework } from '../../src/launch/control/torch-messages';
import type { Job } from '../../src/session/run/job';
import { launch } from '../../src/session/run/launch';
import { DIT, GPT, LLAMA, MOE } from './torch-fixture';

const BASE = { model: GPT, batch: 2, optimizer: { lr: 3e-3 }, clipNorm: 1, seed: 5 } as const;

interface Case {
  readonly name: string;
  readonly config: TrainConfigInput;
  readonly framework?: TorchFramework;
}

const CASES: readonly Case[] = [
  { name: 'FSDP2', config: BASE },
  { name: 'FSDP1', config: BASE, framework: 'fsdp1' },
  { name: 'DDP', config: { ...BASE, parallel: { strategy: 'NO_SHARD' } } },
  { name: 'ZeRO-1', config: { ...BASE, parallel: { strategy: 'ZERO_1' } } },
  { name: 'TP 2', config: { ...BASE, parallel: { strategy: 'NO_SHARD', tp: 2 } } },
  {
    name: 'TP 2 with sequence parallelism',
    config: { ...BASE, parallel: { strategy: 'NO_SHARD', tp: 2, sequenceParallel: true } },
  },
  { name: 'CP 2, Ulysses', config: { ...BASE, parallel: { cp: 2 } } },
  { name: 'CP 2, ring', config: { ...BASE, parallel: { cp: 2, cpKind: 'ring' } } },
  { name: 'MoE, EP 2', config: { ...BASE, model: MOE, parallel: { ep: 2 } } },
  { name: 'DiT', config: { ...BASE, model: DIT, data: 'moving-shapes' } },
  {
    name: 'DiT, DDP',
    config: { ...BASE, model: DIT, data: 'synthetic', parallel: { strategy: 'NO_SHARD' } },
  },
  { name: 'LoRA', config: { ...BASE, lora: { r: 4, targets: ['qkv', 'fc1'] } } },
  { name: 'PP 2', config: { ...BASE, parallel: { strategy: 'NO_SHARD', pp: 2 } } },
  { name: 'Llama with accumulation', config: { ...BASE, model: LLAMA, accumulation: 2 } },
];

describe('a run here and the same run on PyTorch', () => {
  const jobs: Job[] = [];
  before(async () => {
    jobs.push(await launch({ ranks: 2 }), await launch({ engine: 'torch', ranks: 2 }));
  });
  after(() => Promise.all(jobs.map((job) => job.shutdown())));

  for (const { name, config, framework } of CASES) {
    it(`agree in losses, gradients and parameters: ${name}`, async () => {
      const [here, there] = jobs;
      const run = await here?.train(config);
      const other = await there?.train(config, framework === undefined ? {} : { framework });
      assert.ok(run !== undefined && other !== undefined);
      const { first, parameters, comm } = await run.parity(other, { steps: 3 });
      assert.equal(first, null, JSON.stringify(first));
      // With adapters, only they have gradients.
      const isTrained = (parameter: string): boolean => config.lora == null || parameter.includes('.lora_');
      for (const { parameter, gradientAbsolute } of parameters.rows)
        assert.equal(gradientAbsolute !== null, isTrained(String(parameter)), String(parameter));
      assert.ok(parameters.rows.some(({ gradientAbsolute }) => Number(gradientAbsolute) > 0));
      if (name !== 'FSDP2') return;
      // FSDP2 gathers and reduces the same units as this library.
      for (const { cause, calls, otherCalls, wireBytes, otherWireBytes } of comm.rows) {
        assert.deepEqual([cause, calls, wireBytes], [cause, otherCalls, otherWireBytes]);
      }
    });
  }

  it('continue from the checkpoints of each other, whose damage both find', async (context) => {
    const [here, there] = jobs;
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-both-'));
    context.after(() => rmSync(folder, { recursive: true }));
    const runs = [await here?.train(BASE), await there?.train(BASE)];
    for (const [i, run] of runs.entries()) {
      const [saved, other] = [join(folder, `of-${i}`), runs[1 - i]];
      assert.ok(run !== undefined && other !== undefined);
      await run.step(1);
      await run.save(saved);
      await run.step(1);
      await other.load(saved);
      await other.step(1);
      const difference = Math.abs((run.losses.at(-1) ?? Number.NaN) - (other.losses.at(-1) ?? Number.NaN));
      assert.ok(difference < 1e-5, `${difference}`);
    }
    for (const [i, run] of runs.entries()) {
      const saved = join(folder, `of-${1 - i}`);
      const file = join(saved, readdirSync(saved).find((name) => /^model.*\.safetensors$/.test(name)) ?? '');
      const bytes = readFileSync(file);
      bytes.writeUInt8(bytes.readUInt8(bytes.length - 5) ^ 1, bytes.length - 5);
      writeFileSync(file, bytes);
      await assert.rejects(async () => run?.load(saved), /was damaged/);
    }
  });

  it('name the gradient that PyTorch rounds', async () => {
    const [here, there] = jobs;
    const run = await here?.train(BASE);
    const other = await there?.train({ ...BASE, mixedPrecision: { reduceDtype: 'bfloat16' } });
    assert.ok(run !== undefined && other !== undefined);
    const { first } = await run.parity(other, { steps: 1 });
    assert.deepEqual([first?.step, first?.what], [1, 'gradient']);
  });
});
