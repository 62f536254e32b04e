import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StrategyName } from '../../src/config/strategies';
import { parseTrainConfig } from '../../src/config/train-config';
import { predictPeaks } from '../support/formulas/zero-peaks';
import { predictRun } from '../support/formulas/zero-units';

/** A root of 100 around blocks of 60, 40 and 50 elements; 1 byte per item, so that bytes are elements. */
const UNITS = [
  { name: '', parent: null, numParams: 100, staysWhole: true },
  { name: 'a', parent: '', numParams: 60 },
  { name: 'b', parent: '', numParams: 40 },
  { name: 'c', parent: '', numParams: 50 },
] as const;

type Settings = Partial<Omit<Parameters<typeof predictPeaks>[0], 'units' | 'strategy' | 'world'>>;

function peak(strategy: StrategyName, cause: string, settings: Settings = {}): number {
  const peaks = predictPeaks({ units: UNITS, strategy, world: 2, itemBytes: 1, ...settings });
  return peaks.find((one) => one.cause === cause)?.bytes ?? Number.NaN;
}

test('under FULL_SHARD the root, the unit in use and the next unit are whole at the peak', () => {
  assert.equal(peak('FULL_SHARD', 'param.full'), 100 + 60 + 40);
  assert.equal(
    peak('FULL_SHARD', 'param.full', { forwardPrefetch: false, backwardPrefetch: null }),
    100 + 60,
  );
});

test('under the other strategies all parameters are whole at the peak', () => {
  for (const strategy of ['SHARD_GRAD_OP', 'ZERO_1', 'ZERO_2', 'NO_SHARD'] as const) {
    assert.equal(peak(strategy, 'param.full'), 250);
  }
});

test('at the peak of gradients a unit and the one before it are whole, or all units if gradients stay whole', () => {
  assert.equal(peak('FULL_SHARD', 'grad.full'), 100 + 60);
  assert.equal(peak('ZERO_2', 'grad.full'), 100 + 60);
  assert.equal(peak('ZERO_1', 'grad.full'), 250);
});

test('microbatches that are reduced once need all whole gradients and one unit more', () => {
  assert.equal(peak('FULL_SHARD', 'grad.full', { accumulation: 3, noSync: true }), 250 + 100);
  assert.equal(peak('FULL_SHARD', 'grad.full', { accumulation: 3, noSync: false }), 100 + 60);
  // With two, the second one's reductions free the first one's gradients, from the last unit on.
  assert.equal(peak('FULL_SHARD', 'grad.full', { accumulation: 2, noSync: true }), 250 + 50);
});

test('shards over fewer ranks between forward and backward are held beside the shards at rest', () => {
  const units = UNITS.map((unit) => ({ ...unit, postForwardPadding: 0 }));
  const [, shard] = predictPeaks({
    units,
    strategy: 'FULL_SHARD',
    world: 4,
    itemBytes: 1,
    reshardAfterForward: 2,
  });
  assert.equal(shard?.cause, 'param.shard');
  assert.equal(shard?.bytes, 250 / 4 + 250 / 2);
});

test('every term of a peak has a name', () => {
  const { peaks } = predictRun(
    parseTrainConfig({
      model: { kind: 'gpt', layers: 2, dim: 4, heads: 2, vocab: 8, seq: 2 },
      data: 'synthetic',
    }),
    2,
  );
  const [whole] = peaks;
  assert.deepEqual(Object.keys(whole?.terms ?? {}), ['', 'blocks.0', 'blocks.1']);
});
