import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config';
import type { Fault } from '../../../src/launch/control/faults';
import { launchForAll } from '../job-fixture';
import { configOf } from './small-config';

const job = launchForAll({ ranks: 4 });

const MOE = { kind: 'moe', layers: 2, dim: 32, heads: 2, vocab: 256, seq: 16, experts: 4 } as const;
const BASE = configOf('FULL_SHARD');
const pipeline = { ...BASE, parallel: { strategy: 'FULL_SHARD', pp: 2, microbatches: 2 } } as const;
const tensor = { ...BASE, parallel: { strategy: 'FULL_SHARD', tp: 2 } } as const;

/** A training, the fault of one of its ranks, and the event at which parity must find it. */
type Case = readonly [string, TrainConfigInput, Pick<Fault, 'rank' | 'at' | 'do'>, RegExp];

const CASES: readonly Case[] = [
  ['pp', pipeline, { rank: 0, at: 'send microbatch 1', do: 'skip' }, /^send .*microbatch 1/],
  ['pp', pipeline, { rank: 3, at: 'recv microbatch 0', do: 'nan' }, /^recv .*microbatch 0/],
  ['pp', pipeline, { rank: 2, at: 'backward layer 3', do: 'double' }, /^backward of blocks\.3/],
  ['pp', pipeline, { rank: 1, at: 'reduceScatter layer 1', do: 'stale' }, /^reduceScatter of blocks\.1/],
  ['tp', tensor, { rank: 2, at: 'allReduce layer 1', do: 'skip' }, /^allReduce of blocks\.1/],
  ['tp', tensor, { rank: 1, at: 'forward layer 2', do: 'nan' }, /^forward of blocks\.2/],
  ['tp', tensor, { rank: 3, at: 'optimizer', do: 'double' }, /^optimizer$/],
  [
    'recompute',
    { ...BASE, activationCheckpointing: 'full' },
    { rank: 1, at: 'backward layer 1', do: 'double' },
    /^backward of blocks\.1/,
  ],
  [
    'ep',
    { ...BASE, model: MOE, parallel: { strategy: 'FULL_SHARD', ep: 2 } },
    { rank: 2, at: 'allToAll layer 1', do: 'skip' },
    /^allToAll of blocks\.1/,
  ],
  [
    'cp',
    { ...BASE, parallel: { strategy: 'FULL_SHARD', cp: 2 } },
    { rank: 1, at: 'allToAll layer 2', do: 'skip' },
    /^allToAll of blocks\.2/,
  ],
  [
    'HYBRID_SHARD',
    { ...BASE, parallel: { strategy: 'HYBRID_SHARD', mesh: { dpShard: 2, dpReplicate: 2 } } },
    { rank: 3, at: 'allReduce layer 1', do: 'skip' },
    /^allReduce of blocks\.1/,
  ],
  ['ZERO_1', configOf('ZERO_1'), { rank: 1, at: 'optimizer', do: 'stale' }, /^optimizer$/],
  ['ZERO_1', configOf('ZERO_1'), { rank: 1, at: 'reduceScatter', do: 'nan' }, /^reduceScatter of /],
  ['pp', pipeline, { rank: 0, at: 'recv microbatch 0', do: 'skip' }, /^recv .*microbatch 0/],
  ['pp', pipeline, { rank: 3, at: 'send microbatch 1', do: 'double' }, /^send .*microbatch 1/],
  ['ZERO_2', configOf('ZERO_2'), { rank: 2, at: 'reduceScatter', do: 'double' }, /^reduceScatter of /],
];

for (const [layout, config, fault, expected] of CASES) {
  test(`${layout}: parity names rank ${fault.rank} at ${fault.at}, whose fault is '${fault.do}'`, async () => {
    const faulty = await job().train(config, { faults: [fault] });
    const sound = await job().train(config);
    const { event, isEqual } = await sound.parity(faulty, { steps: 2 });
    assert.equal(isEqual, false);
    assert.ok(event !== null);
    assert.deepEqual(event.ranks, [fault.rank], event.text);
    assert.match(event.event, expected);
    await Promise.all([faulty.dispose(), sound.dispose()]);
  });
}

test('an update that is left out is loud where it gathers the parameters', async () => {
  const faults = [{ rank: 1, at: 'optimizer', do: 'skip' }] as const;
  const run = await job().train(configOf('ZERO_1'), { faults });
  await assert.rejects(run.step(2), { code: 'COLLECTIVE_MISMATCH' });
  await run.dispose();
});
