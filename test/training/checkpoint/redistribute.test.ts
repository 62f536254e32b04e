import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { parseTrainConfig } from '../../../src/config/train-config';
import { SILENT } from '../../../src/core/events';
import type { Engine } from '../../../src/engine/backend/engine';
import type { StateBuffer } from '../../../src/nn/parameter';
import { type PlacedState, redistribute } from '../../../src/training/checkpoint/reshard/redistribute';
import { createTrainer, type Trainer } from '../../../src/training/trainer';
import { soloGroup } from '../../support/solo-group';
import { testEngine } from '../../support/wasm-test-engine';

const MODEL = { kind: 'gpt', layers: 1, dim: 8, heads: 2, vocab: 32, seq: 4 } as const;

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

function trainer(seed: number): Trainer {
  const config = parseTrainConfig({ model: MODEL, data: 'synthetic', batch: 1, seed });
  return createTrainer({ config, engine, group: soloGroup(engine), observer: SILENT });
}

function placed({ model, optimizer }: Trainer): PlacedState {
  return { parameters: model.parameters(), optimizer };
}

/** Moves a trainer's states into another trainer, which may be faulty. */
function move(from: Trainer, to: PlacedState, released: StateBuffer[] = []) {
  return redistribute({
    engine,
    group: soloGroup(engine),
    before: placed(from),
    after: to,
    hasStates: true,
    release: (buffer) => {
      released.push(buffer);
      from.optimizer.release(buffer);
      buffer.dispose();
    },
  });
}

test("all states of a trainer move into another, and the old trainer's memory is freed meanwhile", () => {
  const held = engine.memory.bytes;
  const from = trainer(1);
  from.step();
  from.recover();
  const bytes = engine.memory.bytes - held;
  const to = trainer(2);
  const parameters = to.model.parameters();
  const states = 3 * 4 * to.model.numParams();
  const released: StateBuffer[] = [];
  const moved = move(from, placed(to), released);
  assert.equal(moved.numTensors, 3 * parameters.length);
  assert.equal(moved.bytes, states);
  assert.equal(moved.comparedBytes, states);
  assert.equal(moved.receivedBytes, 0);
  assert.ok(released.length > 0);
  assert.equal(engine.memory.bytes - held, bytes);
  from.dispose();
  to.dispose();
  assert.equal(engine.memory.bytes, held);
});

test('one bit that differs after the move is an error that names tensor, state and element', () => {
  const from = trainer(1);
  from.step();
  from.recover();
  const to = trainer(2);
  const faulty: PlacedState = {
    parameters: to.model.parameters(),
    optimizer: {
      stateNames: to.optimizer.stateNames,
      isExact: () => true,
      readState: (buffer, name, offset, length) => to.optimizer.readState(buffer, name, offset, length),
      writeState(buffer, name, offset, values) {
        const flipped = values.slice();
        const bits = new Int32Array(flipped.buffer);
        if (name === 'exp_avg_sq') bits[bits.length - 1] = (bits.at(-1) ?? 0) ^ 1;
        to.optimizer.writeState(buffer, name, offset, flipped);
      },
    },
  };
  assert.throws(() => move(from, faulty), {
    code: 'CHECK',
    message: /exp_avg_sq of wte\.weight changed at element 255 during the move: .* became/,
  });
  from.dispose();
  to.dispose();
});
