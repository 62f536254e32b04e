import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import type { Engine } from '../../src/engine/backend/engine';
import { createTrainer, type Trainer } from '../../src/training/trainer';
import { soloGroup } from '../support/solo-group';
import { TallyObserver } from '../support/tally-observer';
import { testEngine } from '../support/wasm-test-engine';

const MODEL = { kind: 'gpt', layers: 2, dim: 16, heads: 2, vocab: 256, seq: 16 } as const;

let engine: Engine;
const tally = new TallyObserver();
before(async () => {
  engine = await testEngine();
  engine.observe(tally);
});

function trainerOf(config: TrainConfigInput = {}): Trainer {
  const full = parseTrainConfig({ model: MODEL, batch: 2, ...config });
  return createTrainer({ config: full, engine, group: soloGroup(engine), observer: tally });
}

test('the loss on text starts at a uniform guess and falls', () => {
  const trainer = trainerOf({ optimizer: { lr: 1e-2 } });
  const losses = Array.from({ length: 25 }, () => trainer.step().loss);
  trainer.dispose();
  const [first = Number.NaN] = losses;
  assert.ok(Math.abs(first - Math.log(256)) < 0.2, `first loss ${first}`);
  assert.ok((losses.at(-1) ?? Number.NaN) < first - 1, `last loss ${losses.at(-1)}`);
});

test('the same seed gives the same losses to the bit, another seed gives others', () => {
  const losses = (seed: number): number[] => {
    const trainer = trainerOf({ seed });
    const all = [1, 2, 3].map(() => trainer.step().loss);
    trainer.dispose();
    return all;
  };
  assert.deepEqual(losses(3), losses(3));
  assert.notDeepEqual(losses(3), losses(4));
});

test('a step counts its tokens over ranks and microbatches, and its spans cover its time', () => {
  const trainer = trainerOf({ accumulation: 3 });
  trainer.step();
  const results = Array.from({ length: 10 }, () => trainer.step());
  trainer.dispose();
  assert.equal(results[0]?.step, 2);
  assert.equal(results[0]?.tokens, 3 * 2 * 16);
  const shares = results.map(({ seconds, spans }) => {
    const covered = Object.values(spans).reduce((sum, part) => sum + part, 0);
    return covered / seconds;
  });
  // Between two spans, the machine may run another process, so one step without that is enough.
  assert.ok(shares.every((share) => share <= 1) && Math.max(...shares) > 0.8, `${shares}`);
});

test('an observer gets the spans of every unit, forward and backward, and of the step', () => {
  const trainer = trainerOf();
  tally.restart();
  trainer.step();
  const names = tally.spans.map(({ name, module }) => `${name} ${module}`.trim());
  assert.deepEqual(names, [
    'data',
    'forward blocks.0',
    'forward blocks.1',
    'forward',
    'backward blocks.1',
    'backward blocks.0',
    'backward',
    'optimizer',
    'loss',
    'step',
  ]);
  for (const { start, end } of tally.spans) assert.ok(start <= end);
  trainer.dispose();
});

test('activations are tagged with the module that saved them', () => {
  const trainer = trainerOf();
  trainer.step();
  tally.restart();
  const modules = new Set<string>();
  const { retagged } = tally;
  tally.retagged = (buffer, tag) => {
    if (tag.cause === 'activation') modules.add(tag.module);
    retagged.call(tally, buffer, tag);
  };
  trainer.step();
  tally.retagged = retagged;
  for (const module of ['blocks.0.ln1', 'blocks.1.attention', 'blocks.1.fc2']) {
    assert.ok(modules.has(module), `${module} in ${[...modules].join(' ')}`);
  }
  trainer.dispose();
});

test('a clipped step uses gradients that are scaled down to the norm', () => {
  const plain = trainerOf({ clipNorm: null });
  const clipped = trainerOf({ clipNorm: 1e-3 });
  assert.equal(plain.step().gradNorm, clipped.step().gradNorm);
  const moments = (trainer: Trainer): number => {
    const [state] = trainer.model.states();
    return state === undefined ? Number.NaN : Math.hypot(...trainer.optimizer.readState(state, 'exp_avg'));
  };
  const factor = moments(clipped) / moments(plain);
  const norm = plain.step().gradNorm;
  assert.ok(factor < 1e-2, `moments shrink by ${factor}; the norm is ${norm}`);
  plain.dispose();
  clipped.dispose();
});

test('a trainer recovers from an interrupted step, and continues as if it had not been interrupted', () => {
  const trainer = trainerOf({ data: 'synthetic' });
  const other = trainerOf({ data: 'synthetic' });
  trainer.step();
  other.step();
  let fails = true;
  trainer.model.children.get('ln_f')?.wrap((inputs, next) => {
    if (fails) throw new Error('interrupted');
    return next(...inputs);
  });
  assert.throws(() => trainer.step(), /interrupted/);
  fails = false;
  engine.recover();
  trainer.recover();
  assert.deepEqual(trainer.step().loss, other.step().loss);
  trainer.dispose();
  other.dispose();
});

test('a trainer frees every buffer', () => {
  const { numBuffers } = engine.memory;
  for (const strategy of ['NO_SHARD', 'FULL_SHARD'] as const) {
    const trainer = trainerOf({ parallel: { strategy } });
    trainer.step();
    trainer.dispose();
    assert.equal(engine.memory.numBuffers, numBuffers);
  }
});
