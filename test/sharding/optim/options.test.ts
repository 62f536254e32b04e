import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Engine } from '../../../src/engine/backend/engine';
import { AdamW, type AdamWOptions } from '../../../src/sharding/optim/adamw';
import { AdamW8bit } from '../../../src/sharding/optim/adamw-8bit';
import { SGD } from '../../../src/sharding/optim/sgd';
import { WarmupCosineLR } from '../../../src/sharding/optim/warmup-cosine-lr';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

const MODEL = { states: () => [] };

test('the error of an unknown option names the nearest name, also behind a cast', () => {
  const cases = [
    [
      () => new AdamW(engine, MODEL, { lrr: 1 } as AdamWOptions),
      /AdamW: unknown option "lrr" \(1\); did you mean "lr"\?/,
    ],
    [
      () => new AdamW8bit(engine, MODEL, { weight_decay: 0.1 } as AdamWOptions),
      /unknown option "weight_decay" .*did you mean "weightDecay"\?/,
    ],
    [() => new SGD(engine, MODEL, { dampening: 0.1 } as object), /choose one of lr, momentum, nesterov/],
    [() => new WarmupCosineLR({ lr: 1 }, { maxStep: 3 } as never), /did you mean "maxSteps"\?/],
  ] as const;
  for (const [make, message] of cases) assert.throws(make, { code: 'CONFIG', message });
});

test("torch's fused is accepted; negative numbers and NaN are refused", () => {
  new AdamW(engine, MODEL, { fused: false });
  assert.throws(() => new AdamW(engine, MODEL, { lr: -1 }), {
    code: 'CONFIG',
    message: /lr must be .* got -1/,
  });
  assert.throws(() => new AdamW(engine, MODEL, { eps: Number.NaN }), { code: 'CONFIG' });
});

test('an optimizer refuses the same values as a config', () => {
  const cases = [
    [() => new AdamW(engine, MODEL, { betas: [0.9] as never }), /AdamW: betas: .*got \[0\.9\]/],
    [
      () => new AdamW(engine, MODEL, { betas: [0.9, 1] }),
      /AdamW: betas\.1: expected a number below 1, got \[0\.9,1\]/,
    ],
    [
      () => new AdamW8bit(engine, MODEL, { blockSize: 0 }),
      /blockSize: expected a number of at least 16, got 0/,
    ],
  ] as const;
  for (const [make, message] of cases) assert.throws(make, { code: 'CONFIG', message });
});

test('the error of an unknown state names the nearest name', () => {
  const optimizer = new AdamW(engine, MODEL);
  const buffer = {} as never;
  assert.throws(
    () => optimizer.readState(buffer, 'exp_avgs'),
    /has no state "exp_avgs"; did you mean "exp_avg"\?/,
  );
});
