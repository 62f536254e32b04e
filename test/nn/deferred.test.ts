import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { seeded } from '../../src/core/random';
import * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import { wholeTensor, writeValues } from '../../src/nn/first-values';
import { constant, normal, uniform } from '../../src/nn/init';
import { loadState } from '../../src/nn/load-state';
import { gpt } from '../../src/nn/models/gpt';
import { Parameter } from '../../src/nn/parameter';
import { testEngine } from '../support/wasm-test-engine';

const SHAPE = { layers: 2, dim: 8, heads: 2, vocab: 16, seq: 4 };

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** All values in order, as if they were made at once. */
const SEQUENCES = {
  normal: () => {
    const random = seeded(3, 'init', 'a', 'weight');
    return () => random.normal() * 0.5;
  },
  uniform: () => {
    const random = seeded(3, 'init', 'a', 'weight');
    return () => (2 * random.uniform() - 1) * 0.5;
  },
  constant: () => () => 0.5,
} as const;

function made(kind: keyof typeof SEQUENCES, shape: readonly number[]): Parameter {
  const parameter = Parameter.deferred(shape, { normal, uniform, constant }[kind](0.5));
  parameter.place({ name: 'a.weight', module: 'a', seed: 3 });
  return parameter;
}

test('any range of values, in any order, has the bits of the whole sequence', () => {
  const random = seeded(1, 'ranges');
  for (const kind of ['normal', 'uniform', 'constant'] as const) {
    const size = 7 * 13;
    const value = SEQUENCES[kind]();
    const all = Float32Array.from({ length: size }, value);
    const parameter = made(kind, [7, 13]);
    for (let i = 0; i < 50; i++) {
      const start = random.integer(size);
      const target = new Float32Array(1 + random.integer(size - start));
      parameter.source?.fill(start, target);
      assert.deepEqual(target, all.slice(start, start + target.length), `${kind} from ${start}`);
    }
    assert.deepEqual(parameter.tensor.dataSync(), all, 'the whole tensor, when it is asked for');
    assert.equal(parameter.source, null);
    parameter.free();
  }
});

test('a model takes no memory until a parameter is read, and then only for that parameter', () => {
  const before = engine.memory.bytes;
  const model = gpt(SHAPE);
  assert.equal(model.numParams() > 0, true);
  assert.equal(engine.memory.bytes, before);
  assert.equal(model.wte.weight.isWhole, false);
  tf.tidy(() => void tf.sum(model.wte.weight.tensor));
  assert.equal(engine.memory.bytes - before, 4 * 16 * 8, 'it outlives the tidy in which it was made');
  assert.equal(model.wte.weight.tensor, model.wte.weight.tensor);
  model.dispose();
  assert.equal(engine.memory.bytes, before, 'what was never asked for is not made to be freed');
  assert.throws(() => model.wpe.weight.tensor, { code: 'SHAPE' });
});

test('a parameter made in interrupted work stays after recovery', () => {
  const model = gpt(SHAPE);
  const read = (): Float32Array => model.wte.weight.tensor.dataSync<'float32'>();
  tf.engine().startScope('cut off');
  const values = read();
  engine.recover();
  assert.deepEqual(read(), values);
  model.dispose();
});

test('a model without units gives the same loss at its first and second use', () => {
  const model = gpt(SHAPE);
  const [ids, targets] = [tf.zeros([1, 4], 'int32'), tf.zeros([4], 'int32')];
  const loss = (): number => tf.tidy(() => model.apply(ids, targets).dataSync()[0] ?? Number.NaN);
  const first = loss();
  assert.ok(first > 0);
  assert.equal(loss(), first);
  tf.dispose([ids, targets]);
  model.dispose();
});

test('loaded values replace values, whether they are made or still deferred', () => {
  const model = gpt(SHAPE);
  const { bias } = model.ln_f;
  const entries = [...model.namedParameters()].map(([name, { shape, size }]) => {
    return [name, { shape, values: new Float32Array(size).fill(2) }] as const;
  });
  assert.notEqual(model.wte.weight.tensor.dataSync()[0], 2);
  const before = engine.memory.bytes;
  loadState(engine, model, new Map(entries));
  assert.equal(engine.memory.bytes, before, 'nothing was made');
  assert.deepEqual([...new Set(model.wte.weight.tensor.dataSync())], [2]);
  assert.deepEqual([...new Set(bias.tensor.dataSync())], [2]);
  model.dispose();
});

test('a whole tensor has the cause param.full from the beginning, and a part is written without the whole tensor', () => {
  const parameter = made('uniform', [6]);
  const target = engine.allocate([4], 'float32', { cause: 'param.shard', module: '' });
  const before = engine.memory.bytes;
  writeValues(engine, parameter, { start: 2, length: 3 }, { tensor: target, offset: 1 });
  assert.equal(engine.memory.bytes, before);
  assert.equal(parameter.isWhole, false);
  const tensor = wholeTensor(engine, parameter);
  assert.deepEqual(engine.tagOf(tensor), { cause: 'param.full', module: 'a', declared: undefined });
  assert.deepEqual(target.dataSync().slice(1), tensor.dataSync().slice(2, 5));
  parameter.free();
  target.dispose();
});

test('values that cannot be read leave nothing behind', () => {
  const parameter = made('uniform', [6]);
  parameter.defer({
    fill() {
      throw new Error('the file is gone');
    },
  });
  const before = engine.memory.bytes;
  assert.throws(() => wholeTensor(engine, parameter), /the file is gone/);
  assert.throws(() => parameter.tensor, /the file is gone/);
  assert.equal(engine.memory.bytes, before);
  assert.equal(parameter.isWhole, false);
});
