import { test } from 'node:test';
import { type Interrupted, interruptRun } from '../session/interrupts';
import { launchForAll } from '../session/job-fixture';

const GPT = { kind: 'gpt', layers: 4, dim: 64, heads: 4, vocab: 256, seq: 16 } as const;

const LAYOUTS: Readonly<Record<string, Interrupted>> = {
  FULL_SHARD: { config: { model: GPT, parallel: { strategy: 'FULL_SHARD' } } },
  SHARD_GRAD_OP: { config: { model: GPT, parallel: { strategy: 'SHARD_GRAD_OP' } } },
  NO_SHARD: { config: { model: GPT, parallel: { strategy: 'NO_SHARD' } } },
  ZERO_1: { config: { model: GPT, parallel: { strategy: 'ZERO_1' } } },
  'tp 2': { config: { model: GPT, parallel: { tp: 2 } } },
  'pp 2': { config: { model: GPT, parallel: { pp: 2 } } },
  HYBRID_SHARD: { config: { model: GPT, parallel: { strategy: 'HYBRID_SHARD' } } },
  'ep 2': { config: { model: { ...GPT, kind: 'moe', experts: 4 }, parallel: { ep: 2 } } },
};

const shared = launchForAll({ ranks: 2 });

for (const [name, layout] of Object.entries(LAYOUTS)) {
  test(`a run continues after every interrupt: ${name}`, (context) =>
    interruptRun(context, shared(), layout));
}
