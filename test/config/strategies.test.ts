import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { STRATEGIES, STRATEGY_NAMES, strategyWith } from '../../src/config/strategies';

describe('strategies', () => {
  test('a change of a property names the strategy with this property', () => {
    assert.equal(strategyWith('FULL_SHARD', { isHybrid: true }), 'HYBRID_SHARD');
    assert.equal(strategyWith('_HYBRID_SHARD_ZERO2', { isHybrid: false }), 'SHARD_GRAD_OP');
    assert.equal(strategyWith('HYBRID_SHARD', { reshardAfterForward: false }), '_HYBRID_SHARD_ZERO2');
  });

  test('a strategy stays if no strategy has the changed properties', () => {
    assert.equal(strategyWith('NO_SHARD', { isHybrid: true }), 'NO_SHARD');
  });

  test('no two strategies have the same properties', () => {
    for (const name of STRATEGY_NAMES) assert.equal(strategyWith(name, STRATEGIES[name]), name);
  });
});
