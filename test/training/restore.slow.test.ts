import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import type { Engine } from '../../src/engine/backend/engine';
import { readState, writeState } from '../../src/nn/state-values';
import { createTrainer, type Trainer } from '../../src/training/trainer';
import type { TrainerState } from '../../src/training/trainer-state';
import { casesHere } from '../support/cases';
import { soloGroup } from '../support/solo-group';
import { TallyObserver } from '../support/tally-observer';
import { testEngine } from '../support/wasm-test-engine';

const MODEL = { kind: 'gpt', layers: 2, dim: 48, heads: 2, vocab: 256, seq: 8 } as const;

const CASES: Readonly<Record<string, TrainConfigInput>> = {
  'AdamW with a schedule and accumulation': {
    accumulation: 2,
    schedule: { warmupSteps: 2, maxSteps: 7, etaMin: 1e-5 },
  },
  '8-bit AdamW on flat shards': { parallel: { strategy: 'FULL_SHARD' }, optimizer: { kind: 'adamW8bit' } },
  '8-bit AdamW on parts of parameters': {
    parallel: { strategy: 'ZERO_1' },
    optimizer: { kind: 'adamW8bit' },
  },
  'SGD with momentum': { optimizer: { kind: 'sgd', momentum: 0.9, nesterov: true } },
  'Adam with amsgrad on flat shards, in groups': {
    parallel: { strategy: 'FULL_SHARD' },
    optimizer: { kind: 'adam', amsgrad: true, groups: [{ parameters: 'bias', lr: 1e-2, weightDecay: 0.1 }] },
  },
  'Lion in groups, with a schedule': {
    parallel: { strategy: 'ZERO_1' },
    optimizer: { kind: 'lion', groups: [{ modules: 'LayerNorm', lr: 1e-2 }] },
    schedule: { kind: 'wsd', warmupSteps: 2, maxSteps: 6, decaySteps: 3 },
  },
  'a delayed AdamW whose states are on the host': {
    parallel: { strategy: 'FULL_SHARD' },
    optimizer: { delayedUpdate: true },
    offload: { optimizer: true },
  },
  'float16 with a scaler': {
    parallel: { strategy: 'FULL_SHARD' },
    mixedPrecision: 'fp16',
    gradScaler: { initScale: 2 ** 20, growthInterval: 2 },
  },
};

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

function trainerOf(config: TrainConfigInput): Trainer {
  return createTrainer({
    config: parseTrainConfig({ model: MODEL, batch: 2, ...config }),
    engine,
    group: soloGroup(engine),
    observer: new TallyObserver(),
  });
}

/** As a checkpoint does, but without files. */
function carry(from: Trainer, to: Trainer): void {
  const buffers = from.model.states();
  to.model.states().forEach((buffer, i) => {
    const source = buffers[i];
    assert.ok(source);
    writeState(engine, buffer, 0, readState(engine, source));
    for (const name of from.optimizer.stateNames) {
      to.optimizer.writeState(buffer, name, 0, from.optimizer.readState(source, name));
    }
  });
  // Through JSON, because the state must be plain.
  to.restore(JSON.parse(JSON.stringify(from.state())) as TrainerState);
}

/** A schedule, each kind of shards, a state on the host, and a scaler. */
const IN_SHORT = [
  'AdamW with a schedule and accumulation',
  '8-bit AdamW on parts of parameters',
  'a delayed AdamW whose states are on the host',
  'float16 with a scaler',
] as const;

for (const [name, config] of Object.entries(casesHere(CASES, IN_SHORT))) {
  test(`${name}: a restored training continues to the bit`, () => {
    const [whole, first, second] = [trainerOf(config), trainerOf(config), trainerOf({ ...config, seed: 5 })];
    const facts = ({ step, loss, lr, gradNorm, skipped }: ReturnType<Trainer['step']>) => {
      return { step, loss, lr, gradNorm, skipped };
    };
    const expected = Array.from({ length: 6 }, () => facts(whole.step()));
    const begun = Array.from({ length: 3 }, () => facts(first.step()));
    carry(first, second);
    assert.deepEqual(second.state(), first.state());
    const rest = trainerOf(config);
    carry(first, rest);
    const ended = Array.from({ length: 3 }, () => facts(rest.step()));
    assert.deepEqual([...begun, ...ended], expected);
    for (const trainer of [whole, first, second, rest]) trainer.dispose();
  });
}
