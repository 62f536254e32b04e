import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import { plan } from '../../src/job/notebook/plan';
import { planReshard } from '../../src/job/run/reshard';

describe('a strategy', () => {
  it('is accepted by its name in torch, DeepSpeed and transformers', () => {
    const names = {
      DDP: 'NO_SHARD',
      FSDP: 'FULL_SHARD',
      'ZeRO-1': 'ZERO_1',
      'ZeRO-2': 'ZERO_2',
      'ZeRO-3': 'FULL_SHARD',
      shard_grad_op: 'SHARD_GRAD_OP',
      hybrid_shard_zero2: '_HYBRID_SHARD_ZERO2',
      HSDP: 'HYBRID_SHARD',
    } as const;
    for (const [name, strategy] of Object.entries(names)) {
      const given = name as keyof typeof names;
      assert.equal(parseTrainConfig({ parallel: { strategy: given } }).parallel.strategy, strategy, name);
    }
    const unit = { modules: 'blocks.0', strategy: 'DDP' } as const;
    const { unitStrategies } = parseTrainConfig({
      parallel: { strategy: 'FSDP', unitStrategies: [unit] },
    }).parallel;
    assert.equal(unitStrategies?.[0]?.strategy, 'NO_SHARD');
  });

  it('with another spelling gets a hint, which names the strategy here', () => {
    assert.throws(
      () => parseTrainConfig({ parallel: { strategy: 'Zero3' } }),
      /parallel\.strategy: expected the name of a strategy, got "Zero3"; did you mean "FULL_SHARD"\?/,
    );
  });

  it("of another framework's name is planned and resharded as the one it means", () => {
    const [a, b] = ['ZeRO-3', 'FULL_SHARD'] as const;
    const planned = (strategy: typeof a | typeof b): string =>
      String(plan({ model: 'llama3-8b', parallel: { strategy } }, { on: 'A100-80G', gpus: 8 }));
    assert.equal(planned(a), planned(b));
    const from = {
      config: parseTrainConfig({ parallel: { strategy: 'HSDP', mesh: { dpReplicate: 1, dpShard: 2 } } }),
      world: 2,
    };
    assert.deepEqual(
      planReshard(from, { strategy: 'hybrid_shard' }, 2).config.parallel,
      from.config.parallel,
    );
    assert.equal(planReshard(from, { strategy: 'DDP' }, 2).config.parallel.mesh, null);
  });
});
