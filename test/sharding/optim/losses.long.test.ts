import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import type { Engine } from '../../../src/engine/backend/engine';
import { createTrainer } from '../../../src/training/trainer';
import { soloGroup } from '../../support/solo-group';
import { TallyObserver } from '../../support/tally-observer';
import { testEngine } from '../../support/wasm-test-engine';

const STEPS = 40;
/** Its matrices have 4096 elements and more, so their moments are in 8 bits. */
const MODEL = { kind: 'gpt', layers: 1, dim: 64, heads: 4, vocab: 256, seq: 16 } as const;

let engine: Engine;
let exact: readonly number[];
before(async () => {
  engine = await testEngine();
  exact = losses({});
});

/** Losses of 40 steps of a small model on text. */
function losses(optimizer: TrainConfigInput['optimizer']): readonly number[] {
  const config = parseTrainConfig({ model: MODEL, optimizer });
  const trainer = createTrainer({ config, engine, group: soloGroup(engine), observer: new TallyObserver() });
  const all = Array.from({ length: STEPS }, () => trainer.step().loss);
  trainer.dispose();
  return all;
}

const lastTen = (values: readonly number[]): number =>
  values.slice(-10).reduce((sum, value) => sum + value / 10, 0);

test('8-bit AdamW trains like AdamW: each loss is within 0.05 over 40 steps', (t) => {
  const coded = losses({ kind: 'adamW8bit' });
  const apart = Math.max(...coded.map((loss, i) => Math.abs(loss - (exact[i] ?? Number.NaN))));
  t.diagnostic(
    `last 10 steps: ${lastTen(exact)} in float32, ${lastTen(coded)} in 8 bits; ${apart} apart at most`,
  );
  assert.ok(apart < 0.05, `${apart} apart`);
});

test('with a delayed update the loss after 40 steps is close to the loss without delay', (t) => {
  const delayed = losses({ delayedUpdate: true });
  t.diagnostic(`last 10 steps: ${lastTen(exact)} without delay, ${lastTen(delayed)} with it`);
  assert.equal(delayed[0], exact[0]);
  assert.ok(Math.abs(lastTen(delayed) - lastTen(exact)) < 0.2);
});
