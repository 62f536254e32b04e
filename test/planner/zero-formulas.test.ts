import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import { publishedRows } from '../../src/planner/measured/published-tables';
import { predictStates, type ZeroStrategy } from '../support/formulas/zero-formulas';
import { predictRun } from '../support/formulas/zero-units';

const PARAMS = 7_500_000_000;
const GB = 1e9;

function stateGb(strategy: ZeroStrategy, world: number): number {
  // The paper's mixed precision: 2 + 2 + 12 bytes per parameter.
  const units = [{ name: '', numParams: PARAMS }];
  const { stateBytes, states } = predictStates({
    units,
    world,
    strategy,
    itemBytes: 2,
    optimizerBytes: (n) => 12 * n,
  });
  assert.equal(
    states.reduce((sum, { bytes }) => sum + bytes, 0),
    stateBytes,
  );
  return stateBytes / GB;
}

test("the ZeRO paper's table 1 (bytes of states per device) is reproduced to one unit of the last printed digit", (t) => {
  const rows = publishedRows('zero-table-1');
  let worst = 0;
  for (const { name, layout, stated } of rows) {
    const printed = stated.gb ?? Number.NaN;
    const unit = 10 ** -(String(printed).split('.')[1] ?? '').length;
    const { stateBytes } = predictStates({
      units: [{ name: '', numParams: layout.model.params }],
      world: layout.gpus,
      strategy: layout.strategy,
      itemBytes: 2,
      optimizerBytes: (n) => 12 * n,
    });
    const difference = Math.abs(stateBytes / GB - printed);
    assert.ok(difference <= unit, `${name}: ${stateBytes / GB} GB`);
    worst = Math.max(worst, difference / unit);
  }
  assert.equal(rows.length, 54);
  t.diagnostic(`${rows.length} figures; the farthest is ${worst.toFixed(2)} units of its last digit off`);
});

test('for 7.5 billion parameters on 64 ranks the formulas give the figures of the ZeRO paper (figure 1)', () => {
  assert.equal(stateGb('NO_SHARD', 64), 120);
  assert.ok(Math.abs(stateGb('ZERO_1', 64) - 31.4) < 0.05);
  assert.ok(Math.abs(stateGb('FULL_SHARD', 64) - 1.88) < 0.01);
});

test('a rank receives 2 times the parameters under NO_SHARD and SHARD_GRAD_OP, 3 times less the root under FULL_SHARD', () => {
  const units = [
    { name: '', numParams: 400, staysWhole: true },
    { name: 'blocks.0', numParams: 800 },
  ];
  const received = (strategy: ZeroStrategy): number => {
    const { param, grad } = predictStates({ units, world: 4, strategy, itemBytes: 4 }).wireBytes;
    return (param + grad) / 4;
  };
  assert.equal(received('NO_SHARD'), 2 * 1200 * 0.75);
  assert.equal(received('SHARD_GRAD_OP'), 2 * 1200 * 0.75);
  assert.equal(received('FULL_SHARD'), (3 * 1200 - 400) * 0.75);
});

test('a single rank holds everything and receives nothing, under every strategy', () => {
  for (const strategy of ['NO_SHARD', 'ZERO_1', 'SHARD_GRAD_OP', 'FULL_SHARD'] as const) {
    const { stateBytes, wireBytes } = predictStates({
      units: [{ name: '', numParams: 10 }],
      world: 1,
      strategy,
    });
    assert.equal(stateBytes, 160);
    assert.deepEqual(wireBytes, { param: 0, grad: 0 });
  }
});

test('the tiny GPT has 1,063,680 parameters, and padding if ranks do not divide the rows', () => {
  const config = parseTrainConfig({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });
  const even = predictRun(config, 4);
  assert.equal(even.numParams, 1_063_680);
  assert.equal(even.padding, 0);
  assert.equal(even.stateBytes, (1_063_680 * 16) / 4);
  const uneven = predictRun(config, 3);
  assert.ok(uneven.padding > 0);
  assert.equal(uneven.stateBytes, ((1_063_680 + uneven.padding) * 16) / 3);
  const whole = predictRun(parseTrainConfig({ model: 'tiny', parallel: { strategy: 'NO_SHARD' } }), 3);
  assert.ok(Math.abs(whole.wireBytes.grad - (2 * 1_063_680 * 4 * 2) / 3) < 1e-6);
});
