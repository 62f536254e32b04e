import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { totalBytes } from '../../src/ledger/memory';
import { forecastRun } from '../../src/planner/dry-run/forecast';
import { predictRun } from '../support/formulas/zero-units';

const GPT = { kind: 'gpt', layers: 3, dim: 20, heads: 2, vocab: 65, seq: 16 } as const;
const MESH = { dpReplicate: 2, dpShard: 2 };
const CASES: Readonly<Record<string, Partial<TrainConfigInput>>> = {
  NO_SHARD: { parallel: { strategy: 'NO_SHARD' } },
  ZERO_1: { parallel: { strategy: 'ZERO_1' } },
  ZERO_2: { parallel: { strategy: 'ZERO_2' } },
  SHARD_GRAD_OP: { parallel: { strategy: 'SHARD_GRAD_OP' } },
  FULL_SHARD: { parallel: { strategy: 'FULL_SHARD' } },
  HYBRID_SHARD: { parallel: { strategy: 'HYBRID_SHARD', mesh: MESH } },
  _HYBRID_SHARD_ZERO2: { parallel: { strategy: '_HYBRID_SHARD_ZERO2', mesh: MESH } },
  'one unit': { parallel: { strategy: 'FULL_SHARD', wrap: 'root' } },
  microbatches: { parallel: { strategy: 'FULL_SHARD' }, accumulation: 2 },
  'bfloat16 on the wire': {
    parallel: { strategy: 'FULL_SHARD' },
    mixedPrecision: { paramDtype: 'bfloat16' },
  },
  'optimizer on the host': { parallel: { strategy: 'FULL_SHARD' }, offload: { optimizer: true } },
  'frozen blocks': { parallel: { strategy: 'FULL_SHARD' }, frozen: ['blocks.0.*'] },
};

for (const [name, settings] of Object.entries(CASES)) {
  const worlds = name.includes('HYBRID') ? [4] : [1, 3, 4];
  for (const world of worlds) {
    test(`${name} on ${world}: a dry run predicts the states and wire bytes of ZeRO's formulas`, () => {
      const config = parseTrainConfig({ model: GPT, data: 'synthetic', batch: 2, ...settings });
      const forecast = forecastRun(config, world) ?? assert.fail('no forecast');
      const { states, stateBytes, wireBytes } = predictRun(config, world);
      for (const { cause, bytes } of states) assert.equal(forecast.states[cause], bytes, cause);
      assert.equal(totalBytes(forecast.states), stateBytes);
      for (const cause of ['param', 'grad'] as const)
        assert.ok(Math.abs(forecast.wireBytes[cause] - wireBytes[cause]) < 1e-3, cause);
    });
  }
}
