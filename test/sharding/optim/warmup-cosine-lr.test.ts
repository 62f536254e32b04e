import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTrainConfig } from '../../../src/config/train-config';
import { WarmupCosineLR } from '../../../src/sharding/optim/warmup-cosine-lr';

function rates(options: ConstructorParameters<typeof WarmupCosineLR>[1], numSteps: number): number[] {
  const optimizer = { lr: 0.8 };
  const schedule = new WarmupCosineLR(optimizer, options);
  return Array.from({ length: numSteps }, () => {
    const { lr } = optimizer;
    assert.equal(schedule.lr, lr);
    schedule.step();
    return lr;
  });
}

const rounded = (values: readonly number[]): number[] => values.map((value) => Math.round(value * 1e9) / 1e9);

test("the rate rises to the optimizer's over the first steps, falls by half a cosine, and stays at etaMin", () => {
  const half = 0.2 + 0.6 * 0.5;
  const quarter = 0.2 + 0.6 * 0.5 * (1 + Math.SQRT1_2);
  const threeQuarters = 0.2 + 0.6 * 0.5 * (1 - Math.SQRT1_2);
  assert.deepEqual(
    rounded(rates({ warmupSteps: 4, maxSteps: 8, etaMin: 0.2 }, 10)),
    rounded([0.2, 0.4, 0.6, 0.8, quarter, half, threeQuarters, 0.2, 0.2, 0.2]),
  );
});

test('without warmup the first step is already on the cosine, and etaMin is 0 by default', () => {
  assert.deepEqual(rounded(rates({ maxSteps: 2 }, 3)), [0.4, 0, 0]);
});

test('a cosine of one step gives etaMin at once', () => {
  assert.deepEqual(rounded(rates({ warmupSteps: 2, maxSteps: 3, etaMin: 0.1 }, 4)), [0.4, 0.8, 0.1, 0.1]);
});

test('a restored schedule continues, also for an optimizer with another rate', () => {
  const options = { warmupSteps: 2, maxSteps: 6 };
  const [one, other] = [{ lr: 0.8 }, { lr: 7 }];
  const schedule = new WarmupCosineLR(one, options);
  for (let i = 0; i < 3; i++) schedule.step();
  const restored = new WarmupCosineLR(other, options);
  restored.restore(JSON.parse(JSON.stringify(schedule.state())));
  assert.equal(other.lr, one.lr);
  schedule.step();
  restored.step();
  assert.equal(other.lr, one.lr);
});

test('a warmup that leaves no step for the cosine is an error that names both settings, as in a config', () => {
  for (const maxSteps of [4, 5]) {
    const schedule = { warmupSteps: 5, maxSteps };
    assert.throws(() => new WarmupCosineLR({ lr: 1 }, schedule), {
      code: 'CONFIG',
      message: new RegExp(`maxSteps ${maxSteps} with warmupSteps 5`),
    });
    assert.throws(() => parseTrainConfig({ schedule }), { code: 'CONFIG' });
  }
});
