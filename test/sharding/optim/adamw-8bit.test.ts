import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { MIN_8BIT_SIZE } from '../../../src/config/settings/optimizer';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { dynamicMap, quantizationTables } from '../../../src/engine/backend/quantization-tables';
import { Parameter } from '../../../src/nn/parameter';
import { stateBuffers } from '../../../src/nn/state-values';
import { AdamW } from '../../../src/sharding/optim/adamw';
import { AdamW8bit } from '../../../src/sharding/optim/adamw-8bit';
import { normals, valuesOf } from '../../support/close';
import { TallyObserver } from '../../support/tally-observer';
import { testEngine } from '../../support/wasm-test-engine';
import { Reference8bit, referenceMap } from './reference-8bit';

const HYPER = { lr: 0.01, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 } as const;
const OPTIONS = { lr: 0.01, betas: [0.9, 0.95], eps: 1e-8, weightDecay: 0.1 } as const;
/** Not divisible by any block size below. */
const SIZE = MIN_8BIT_SIZE + 411;

let engine: Engine;
const tally = new TallyObserver();
before(async () => {
  engine = await testEngine();
  engine.observe(tally);
});

/** Gradients of very different sizes, with zeros: rows of a table that no token used. */
function gradientOf(size: number, seed: string): Float32Array {
  return normals(size, seed).map((value, i) => (i % 5 === 0 ? 0 : value * 10 ** -(i % 7)));
}

test('the maps have 256 values over seven decades, and each cell of the search has at most one middle', () => {
  for (const kind of ['signed', 'unsigned'] as const) {
    const map = dynamicMap(kind);
    assert.equal(map.length, 256);
    map.forEach((value, i) => {
      const expected = referenceMap(kind === 'signed')[i] ?? Number.NaN;
      assert.ok(
        Math.abs(value - expected) <= 1e-7 * Math.abs(expected),
        `${kind} ${i}: ${value}, ${expected}`,
      );
    });
    const cells = quantizationTables()
      .subarray(kind === 'signed' ? 4096 : 7056)
      .subarray(0, 2945);
    cells.forEach((place, i) => {
      assert.ok(place - (cells[i - 1] ?? 0) <= 1, `cell ${i}`);
    });
  }
});

for (const blockSize of [16, 100, 256]) {
  test(`codes, scales and parameters equal the definition's over several steps, in blocks of ${blockSize}`, () => {
    const reference = new Reference8bit(SIZE, blockSize);
    const expected = normals(SIZE, 'param');
    const parameter = new Parameter(tf.tensor1d(expected));
    const model = { states: () => stateBuffers([parameter]) };
    const optimizer = new AdamW8bit(engine, model, { ...OPTIONS, blockSize });
    for (let t = 1; t <= 4; t++) {
      const grad = gradientOf(SIZE, `grad ${t}`);
      reference.step(expected, grad, t, HYPER);
      parameter.grad = tf.tensor1d(grad);
      optimizer.step();
      optimizer.zeroGrad();
      assert.deepEqual(valuesOf(parameter.tensor), expected, `parameters of step ${t}`);
      const { m, v } = reference.moments();
      assert.deepEqual(optimizer.readState(parameter.state, 'exp_avg'), m, `first moments of step ${t}`);
      assert.deepEqual(optimizer.readState(parameter.state, 'exp_avg_sq'), v, `second moments of step ${t}`);
    }
    optimizer.dispose();
    parameter.tensor.dispose();
  });
}

test('moments take two bytes per element and two scales per block; in buffers below 4096 elements eight bytes', () => {
  const sizes = [SIZE, MIN_8BIT_SIZE, MIN_8BIT_SIZE - 1];
  const parameters = sizes.map((size) => new Parameter(tf.zeros([size])));
  const optimizer = new AdamW8bit(engine, { states: () => stateBuffers(parameters) });
  for (const parameter of parameters) parameter.grad = tf.ones([parameter.size]);
  const held = tally.bytes('optimizer');
  optimizer.step();
  const scales = (size: number): number => 2 * 4 * Math.ceil(size / 256);
  const expected = 2 * SIZE + scales(SIZE) + 2 * 4096 + scales(4096) + 8 * 4095;
  assert.equal(tally.bytes('optimizer') - held, expected);
  assert.equal(engine.memory.bytes, tally.total);
  optimizer.zeroGrad();
  optimizer.dispose();
  assert.equal(tally.bytes('optimizer'), held);
  for (const { tensor } of parameters) tensor.dispose();
});

test('a range inside blocks changes only its own parameters, and other values of the blocks stay close', () => {
  const [size, blockSize, first, length] = [1000, 256, 300, 420];
  const param = tf.tensor1d(normals(length, 'p'));
  const grad = tf.tensor1d(normals(length, 'g'));
  const made = () => ({ codes: tf.zeros([size], 'bool'), scales: tf.zeros([4]) });
  const [expAvg, expAvgSq] = [made(), made()];
  engine.storage(expAvg.codes).view().fill(200);
  engine.fill(expAvg.scales, 1);
  engine.adamW8bit({ param, grad, expAvg, expAvgSq, blockSize, first, length, step: 1, ...HYPER });
  const codes = engine.storage(expAvg.codes).view();
  const scales = valuesOf(expAvg.scales);
  const map = dynamicMap('signed');
  const before = map[200] ?? 0;
  for (const i of [256, 299, 720, 767]) {
    const now = (map[codes[i] ?? 0] ?? 0) * (scales[Math.floor(i / blockSize)] ?? 0);
    assert.ok(Math.abs(now - before) <= 0.008 * (scales[Math.floor(i / blockSize)] ?? 0), `${i}: ${now}`);
  }
  assert.deepEqual([codes[0], codes[255], codes[768]], [200, 200, 200]);
  assert.deepEqual([scales[0], scales[3]], [1, 1]);
  tf.dispose([param, grad, expAvg, expAvgSq]);
});

test('restored states continue to the bit, whole or in parts in any order', () => {
  const grads = Array.from({ length: 6 }, (_, t) => gradientOf(SIZE, `restore ${t}`));
  const start = normals(SIZE, 'restored');
  const make = () => {
    const parameter = new Parameter(tf.tensor1d(start));
    return { parameter, optimizer: new AdamW8bit(engine, { states: () => [parameter.state] }, OPTIONS) };
  };
  const run = ({ parameter, optimizer }: ReturnType<typeof make>, from: number, to: number): void => {
    for (const grad of grads.slice(from, to)) {
      parameter.grad = tf.tensor1d(grad);
      optimizer.step();
      optimizer.zeroGrad();
    }
  };
  const [whole, first, second] = [make(), make(), make()];
  run(whole, 0, 6);
  run(first, 0, 3);
  for (const name of second.optimizer.stateNames) {
    for (const [offset, length] of [
      [1000, 3000],
      [0, 1000],
      [4000, SIZE - 4000],
    ] as const) {
      const values = first.optimizer.readState(first.parameter.state, name, offset, length);
      second.optimizer.writeState(second.parameter.state, name, offset, values);
    }
  }
  second.optimizer.restore(first.optimizer.steps);
  engine.copyInto(second.parameter.tensor, 0, first.parameter.tensor);
  run(second, 3, 6);
  assert.deepEqual(valuesOf(second.parameter.tensor), valuesOf(whole.parameter.tensor));
  for (const { parameter, optimizer } of [whole, first, second]) {
    optimizer.dispose();
    parameter.tensor.dispose();
  }
});

test('a NaN gradient makes the parameters of its block NaN', () => {
  const parameter = new Parameter(tf.ones([SIZE]));
  const optimizer = new AdamW8bit(engine, { states: () => [parameter.state] });
  const grad = new Float32Array(SIZE);
  grad[7] = Number.NaN;
  parameter.grad = tf.tensor1d(grad);
  optimizer.step();
  optimizer.step();
  const values = valuesOf(parameter.tensor);
  assert.ok(Number.isNaN(values[7]) && Number.isNaN(values[8]) && !Number.isNaN(values[256]));
  optimizer.zeroGrad();
  optimizer.dispose();
  parameter.tensor.dispose();
});

test('steps of 8-bit AdamW stay close to those of AdamW', () => {
  const start = normals(SIZE, 'near');
  const results = [AdamW, AdamW8bit].map((Optimizer) => {
    const parameter = new Parameter(tf.tensor1d(start));
    const optimizer = new Optimizer(engine, { states: () => [parameter.state] }, OPTIONS);
    for (let t = 0; t < 20; t++) {
      parameter.grad = tf.tensor1d(normals(SIZE, `near ${t}`));
      optimizer.step();
      optimizer.zeroGrad();
    }
    optimizer.dispose();
    const values = valuesOf(parameter.tensor);
    parameter.tensor.dispose();
    return values;
  });
  const [exact = new Float32Array(), coded = new Float32Array()] = results;
  const moved = Math.hypot(...exact.map((value, i) => value - (start[i] ?? 0)));
  const apart = Math.hypot(...exact.map((value, i) => value - (coded[i] ?? 0)));
  assert.ok(apart > 0 && apart < 0.05 * moved, `${apart} apart after moving by ${moved}`);
});
