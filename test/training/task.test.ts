import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import { Linear } from '../../src/nn/linear';
import type { Task } from '../../src/training/task';
import { createTrainer, type Trainer } from '../../src/training/trainer';
import { normals } from '../support/close';
import { soloGroup } from '../support/solo-group';
import { TallyObserver } from '../support/tally-observer';
import { testEngine } from '../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** Learns to double its input, by mean squared error; from batch `spoiled` on, inputs are NaN. */
function doubling(spoiled = Number.POSITIVE_INFINITY): Task {
  const model = new Linear(4, 4).manualSeed(1);
  return {
    model,
    batch(rank, index) {
      const values = index < spoiled ? normals(12, `batch ${rank} ${index}`) : new Float32Array(12).fill(NaN);
      return engine.tagged({ cause: 'batch', module: '' }, () => ({
        tensors: [
          tf.tensor2d(values, [3, 4]),
          tf.tensor2d(
            values.map((v) => 2 * v),
            [3, 4],
          ),
        ],
        count: 3,
      }));
    },
    lossOf({ tensors: [inputs, targets] }) {
      assert.ok(inputs !== undefined && targets !== undefined);
      return tf.mean(tf.squaredDifference(model.apply(inputs), targets));
    },
  };
}

function trainerOf(task: Task, config: TrainConfigInput = {}, warn?: (message: string) => void): Trainer {
  const full = parseTrainConfig({ optimizer: { lr: 0.1, weightDecay: 0 }, ...config });
  const context = { engine, group: soloGroup(engine), observer: new TallyObserver() };
  return createTrainer({ ...context, config: full, task, ...(warn === undefined ? {} : { warn }) });
}

test('any model with a loss can be trained, with the same losses under every strategy', () => {
  const [whole, sharded] = (['NO_SHARD', 'FULL_SHARD'] as const).map((strategy) => {
    const trainer = trainerOf(doubling(), { clipNorm: null, parallel: { strategy, wrap: 'root' } });
    const results = Array.from({ length: 60 }, () => trainer.step());
    assert.equal(results[0]?.tokens, 3);
    trainer.dispose();
    return results.map(({ loss }) => loss);
  });
  assert.deepEqual(sharded, whole);
  const [first = 0, last = 1] = [whole?.at(0), whole?.at(-1)];
  assert.ok(last < 0.01 * first, `${first} fell to ${last}`);
  assert.equal(engine.memory.bytes, 0);
});

test('a step reports its learning rate, which follows the schedule', () => {
  const trainer = trainerOf(doubling(), { schedule: { warmupSteps: 2, maxSteps: 4 } });
  const rates = [1, 2, 3, 4, 5].map(() => Math.round(trainer.step().lr * 1e6) / 1e6);
  trainer.dispose();
  assert.deepEqual(rates, [0.05, 0.1, 0.05, 0, 0]);
});

test('NaN losses are in the results, and the first is reported once', () => {
  const warnings: string[] = [];
  const trainer = trainerOf(doubling(2), {}, (message) => warnings.push(message));
  const losses = [1, 2, 3, 4].map(() => trainer.step().loss);
  trainer.dispose();
  assert.deepEqual(losses.map(Number.isFinite), [true, true, false, false]);
  assert.deepEqual(warnings, [
    'the loss of step 3 is NaN; lower optimizer.lr or set clipNorm. This warning appears once',
  ]);
});

test('a step whose scaled gradients overflow is skipped: parameters and schedule do not change', () => {
  const config = { gradScaler: { initScale: 2 ** 10 }, schedule: { maxSteps: 4 }, clipNorm: null } as const;
  const trainer = trainerOf(doubling(1), config);
  const [state] = trainer.model.states();
  assert.equal(trainer.step().skipped, false);
  assert.ok(state);
  const before = trainer.optimizer.readState(state, 'exp_avg');
  const { skipped, lr } = trainer.step();
  assert.equal(skipped, true);
  assert.deepEqual(trainer.optimizer.readState(state, 'exp_avg'), before);
  const { steps, microBatches, optimizerSteps, scaler } = trainer.state();
  assert.deepEqual([steps, microBatches, optimizerSteps, scaler?.scale], [2, 2, 1, 2 ** 9]);
  assert.equal(trainer.step().lr, lr);
  trainer.dispose();
});

test('a step that was cut off between unscaling and update is repeated', () => {
  const config = { gradScaler: { initScale: 2 ** 10 } } as const;
  const [cut, whole] = [trainerOf(doubling(), config), trainerOf(doubling(), config)];
  cut.step();
  whole.step();
  const { optimizer } = cut;
  const step = optimizer.step.bind(optimizer);
  optimizer.step = () => assert.fail('cut off');
  assert.throws(() => cut.step(), /cut off/);
  optimizer.step = step;
  engine.recover();
  cut.recover();
  assert.equal(cut.step().loss, whole.step().loss);
  assert.deepEqual(cut.state(), whole.state());
  cut.dispose();
  whole.dispose();
});
