import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { LRSchedule, rateOf, type Scheduled, TORCH_SCHEDULES } from '../../../src/sharding/optim/lr-schedule';
import { reference } from '../../support/optimizer-reference';

/** A config's schedule for an optimizer of a cell. */
function ofConfig(schedule: TrainConfigInput['schedule']): (optimizer: Scheduled) => LRSchedule {
  const config = parseTrainConfig({ schedule, optimizer: { lr: 0.1 }, steps: 20 });
  assert.ok(config.schedule !== null);
  const rate = rateOf(config.schedule, config.steps);
  return (optimizer) => new LRSchedule(optimizer, rate);
}

const t = TORCH_SCHEDULES;
const SET = 'set to 0.05 after step 8';

/** The schedules that test/data/optimizer_reference.py recorded, as they are written here. */
const SCHEDULES: Readonly<Record<string, (optimizer: Scheduled) => LRSchedule>> = {
  StepLR: (optimizer) => t.StepLR(optimizer, { stepSize: 6, gamma: 0.5 }),
  MultiStepLR: (optimizer) => t.MultiStepLR(optimizer, { milestones: [3, 12] }),
  ExponentialLR: (optimizer) => t.ExponentialLR(optimizer, { gamma: 0.9 }),
  LinearLR: (optimizer) => t.LinearLR(optimizer),
  ConstantLR: (optimizer) => t.ConstantLR(optimizer),
  CosineAnnealingLR: (optimizer) => t.CosineAnnealingLR(optimizer, { tMax: 8, etaMin: 0.01 }),
  LambdaLR: (optimizer) => t.LambdaLR(optimizer, (step) => 1 / (1 + step)),
  constant: ofConfig({ kind: 'constant', warmupSteps: 5 }),
  linear: ofConfig({ kind: 'linear', warmupSteps: 5, maxSteps: 15 }),
  // maxSteps is `steps` by default.
  cosine: ofConfig({ kind: 'cosine', warmupSteps: 5, etaMin: 0.01 }),
  wsd: ofConfig({ kind: 'wsd', maxSteps: 18, decaySteps: 8 }),
  'wsd, linear': ofConfig({ kind: 'wsd', maxSteps: 18, decaySteps: 8, decayType: 'linear' }),
  'wsd, sqrt': ofConfig({ kind: 'wsd', maxSteps: 18, decaySteps: 8, decayType: '1-sqrt' }),
  step: ofConfig({ kind: 'step', warmupSteps: 4, stepSize: 6, gamma: 0.5 }),
  exponential: ofConfig({ kind: 'exponential', warmupSteps: 4, gamma: 0.9 }),
  [`LambdaLR, ${SET}`]: (optimizer) => t.LambdaLR(optimizer, (step) => 1 / (1 + step)),
  [`linear, ${SET}`]: ofConfig({ kind: 'linear', maxSteps: 16 }),
  [`cosine, ${SET}`]: ofConfig({ kind: 'cosine', etaMin: 0.01 }),
};

test('every recorded schedule is compared', () => {
  assert.deepEqual(Object.keys(SCHEDULES).sort(), Object.keys(reference.rates).sort());
});

for (const [name, expected] of Object.entries(reference.rates)) {
  test(`the rates of 20 steps and two groups equal torch's, ${name}, also of a schedule restored at each step`, () => {
    const make = SCHEDULES[name] ?? assert.fail();
    const groups = () => [{ lr: 0.1 }, { lr: 0.02 }];
    const optimizer = { lr: 0.1, paramGroups: groups() };
    const schedule = make(optimizer);
    for (const [i, wanted] of expected.entries()) {
      for (const [at, lr] of wanted.entries()) {
        const found = optimizer.paramGroups[at]?.lr ?? Number.NaN;
        assert.ok(Math.abs(found - lr) < 1e-12, `step ${i + 1}: ${found}, torch ${lr}`);
      }
      const other = { lr: 7, paramGroups: groups() };
      const restored = make(other);
      restored.restore(JSON.parse(JSON.stringify(schedule.state())));
      assert.deepEqual(other.paramGroups, optimizer.paramGroups);
      restored.step();
      schedule.step();
      assert.deepEqual(other.paramGroups, optimizer.paramGroups);
      if (name.endsWith(SET) && i === 7) for (const group of optimizer.paramGroups) group.lr = 0.05;
    }
    assert.deepEqual(
      schedule.getLastLr(),
      optimizer.paramGroups.map(({ lr }) => lr),
    );
  });
}

test('a schedule that continues from its state has the same rates, also after a rate was set by hand', () => {
  for (const [name, create] of Object.entries(SCHEDULES)) {
    for (let at = 0; at <= 20; at++) {
      const [before, after] = [{ lr: 0.1 }, { lr: 0.1 }];
      const [whole, resumed] = [create(before), create(after)];
      for (let step = 0; step < at; step++) whole.step();
      before.lr = 0.013 * (1 + at / 7);
      resumed.restore(JSON.parse(JSON.stringify(whole.state())) as ReturnType<LRSchedule['state']>);
      for (let step = 0; step < 4; step++) {
        assert.equal(after.lr, before.lr, `${name}, set after step ${at}, ${step} steps later`);
        whole.step();
        resumed.step();
      }
    }
  }
});

test('a schedule without room or with a wrong argument is an error', () => {
  const cases = [
    [() => t.StepLR({ lr: 1 }, {} as never), /StepLR: stepSize is 0/],
    [() => t.CosineAnnealingLR({ lr: 1 }, { tmax: 3 } as never), /did you mean "tMax"/],
    [() => t.LambdaLR({ lr: 1 }, { lrLambda: 1 } as never), /takes a function/],
    [() => t.StepLR({ lr: 1 }, 30 as never), /in an object: \{ stepSize, gamma \}/],
    [() => ofConfig({ kind: 'cosine', warmupSteps: 20 }), /warmupSteps: 20 leaves nothing of maxSteps 20/],
    [() => ofConfig({ kind: 'wsd', warmupSteps: 15, decaySteps: 6 }), /decaySteps: 6 \+ warmupSteps 15/],
  ] as const;
  for (const [make, message] of cases) assert.throws(make, { code: 'CONFIG', message });
});
