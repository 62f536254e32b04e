import { after, before, test } from 'node:test';
import type { Job } from '../../src/session/run/job';
import { launch } from '../../src/session/run/launch';
import { type Interrupted, interruptRun } from '../session/interrupts';
import { lacksDeepSpeed, GPT as SMALL } from './torch-fixture';

const GPT = { ...SMALL, layers: 4, dim: 64 } as const;
const MOE = { ...GPT, kind: 'moe', experts: 4, router: 'topk', auxLossWeight: 0.1 } as const;

const LAYOUTS: Readonly<Record<string, Interrupted>> = {
  FULL_SHARD: { config: { model: GPT, parallel: { strategy: 'FULL_SHARD' } } },
  NO_SHARD: { config: { model: GPT, parallel: { strategy: 'NO_SHARD' } } },
  ZERO_1: { config: { model: GPT, parallel: { strategy: 'ZERO_1' } } },
  'tp 2': { config: { model: GPT, parallel: { tp: 2 } } },
  'pp 2': { config: { model: GPT, parallel: { pp: 2 } } },
  'ep 2': { config: { model: MOE, parallel: { ep: 2 } } },
  FullyShardedDataParallel: {
    config: { model: GPT, parallel: { strategy: 'SHARD_GRAD_OP' } },
    options: { framework: 'fsdp1' },
  },
  'ZeRO-3 of DeepSpeed': {
    config: { model: GPT, parallel: { strategy: 'FULL_SHARD' } },
    options: { framework: 'deepspeed' },
  },
};

let job: Job;
before(async () => {
  job = await launch({ engine: 'torch', ranks: 2 });
});
after(() => job.shutdown());

for (const [name, layout] of Object.entries(LAYOUTS)) {
  const skip = name.includes('DeepSpeed') && lacksDeepSpeed();
  test(`a run on PyTorch continues after every interrupt: ${name}`, { skip }, (context) =>
    interruptRun(context, job, layout),
  );
}
