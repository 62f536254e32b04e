import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { TorchFramework } from '../../../src/job/control/torch-messages';
import type { Job } from '../../../src/job/run/job';
import { launch } from '../../../src/job/run/launch';
import { GPT, LLAMA } from './torch-fixture';

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
      assert.ok(parameters.rows.every(({ gradientAbsolute }) => gradientAbsolute !== null));
      assert.ok(parameters.rows.some(({ gradientAbsolute }) => Number(gradientAbsolute) > 0));
      if (name !== 'FSDP2') return;
      // FSDP2 gathers and reduces the same units as this library.
      for (const { cause, calls, otherCalls, wireBytes, otherWireBytes } of comm.rows) {
        assert.deepEqual([cause, calls, wireBytes], [cause, otherCalls, otherWireBytes]);
      }
    });
  }

  it('name the gradient that PyTorch rounds', async () => {
    const [here, there] = jobs;
    const run = await here?.train(BASE);
    const other = await there?.train({ ...BASE, mixedPrecision: { reduceDtype: 'bfloat16' } });
    assert.ok(run !== undefined && other !== undefined);
    const { first } = await run.parity(other, { steps: 1 });
    assert.deepEqual([first?.step, first?.what], [1, 'gradient']);
  });
});
