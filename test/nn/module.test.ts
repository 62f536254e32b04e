import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { inspect } from 'node:util';
import * as tf from '@tensorflow/tfjs';
import type { Engine } from '../../src/backend/engine';
import { ConfigError } from '../../src/core/errors';
import { initializer } from '../../src/nn/init';
import { Linear } from '../../src/nn/linear';
import { loadState } from '../../src/nn/load-state';
import { gpt } from '../../src/nn/models/gpt';
import { Module, ModuleList } from '../../src/nn/module';
import { Parameter } from '../../src/nn/parameter';
import { testEngine } from '../support/wasm-test-engine';

class Tied extends Module {
  readonly table: Parameter;
  readonly layers: ModuleList<Linear>;

  constructor() {
    super();
    const init = initializer(0);
    this.table = this.addParameter('table', new Parameter(tf.zeros([3, 2])));
    this.layers = this.addChild('layers', new ModuleList([new Linear(2, 2, init), new Linear(2, 3, init)]));
    this.addParameter('head', this.table);
  }

  forward(x: tf.Tensor): tf.Tensor {
    let y = x;
    for (const layer of this.layers) y = layer.apply(y);
    return y;
  }
}

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

test('a module is printed as a tree with the shapes of its parameters, equal neighbours once', () => {
  assert.equal(
    inspect(gpt({ layers: 3, dim: 4, heads: 1, vocab: 5, seq: 2 })),
    [
      'GPT(',
      '  (wte): Embedding(weight [5, 4])',
      '  (wpe): Embedding(weight [2, 4])',
      '  (blocks): ModuleList(',
      '    (0-2): 3 x Block(',
      '      (ln1): LayerNorm(weight [4], bias [4])',
      '      (ln2): LayerNorm(weight [4], bias [4])',
      '      (qkv): Linear(weight [12, 4], bias [12])',
      '      (attention): CausalSelfAttention()',
      '      (proj): Linear(weight [4, 4], bias [4])',
      '      (fc1): Linear(weight [16, 4], bias [16])',
      '      (fc2): Linear(weight [4, 16], bias [4])',
      '    )',
      '  )',
      '  (ln_f): LayerNorm(weight [4], bias [4])',
      ')',
    ].join('\n'),
  );
  assert.match(inspect(new Tied()), /\(0\): Linear[^\n]*\n *\(1\): Linear/);
});

test('parameters are named as in torch, parents first, a tied one once', () => {
  const model = new Tied();
  assert.deepEqual(
    [...model.namedParameters().keys()],
    ['head', 'layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias'],
  );
  assert.equal(model.numParams(), 6 + 6 + 9);
  assert.deepEqual([...(model.layers.at(1)?.namedParameters().keys() ?? [])], ['weight', 'bias']);
  assert.equal(model.layers.at(1)?.weight.module, 'layers.1');
  model.dispose();
});

test('a list takes another module in a place, under the same name', () => {
  const model = new Tied();
  const other = new Linear(2, 2, initializer(1));
  model.layers.set(1, other);
  assert.equal(other.path, 'layers.1');
  assert.equal(other.bias.name, 'layers.1.bias');
  assert.deepEqual([...model.layers].indexOf(other), 1);
  assert.throws(() => model.layers.set(2, other), /the list "layers" has 2 modules.*none at 2/);
});

test('names with a dot, empty or taken are refused', () => {
  class Wrong extends Tied {
    add(name: string): void {
      this.addParameter(name, this.table);
    }
  }
  const model = new Wrong();
  for (const name of ['a.b', '', 'table']) assert.throws(() => model.add(name), ConfigError);
  model.dispose();
});

test('wrappers run from the last to the first, and a keyed one only once', () => {
  const model = new Linear(2, 2, initializer(0));
  const order: string[] = [];
  const note = (name: string) => (inputs: tf.Tensor[], next: (...x: tf.Tensor[]) => tf.Tensor) => {
    order.push(name);
    return next(...inputs);
  };
  const key = Symbol('key');
  model.wrap(note('inner'));
  model.wrapOnce(key, note('once'));
  model.wrapOnce(key, note('twice'));
  model.wrap(note('outer'));
  tf.tidy(() => void model.apply(tf.zeros([1, 2])));
  assert.deepEqual(order, ['outer', 'once', 'inner']);
  model.dispose();
});

test('the same seed gives the same values whatever was made before, another seed others', () => {
  const values = (seed: number, name: string): Float32Array => {
    const linear = new Linear(4, 4, initializer(seed).within(name));
    const read = linear.weight.tensor.dataSync() as Float32Array; // a float32 tensor
    linear.dispose();
    return read;
  };
  assert.deepEqual(values(7, 'a'), values(7, 'a'));
  assert.notDeepEqual(values(7, 'a'), values(8, 'a'));
  assert.notDeepEqual(values(7, 'a'), values(7, 'b'));
});

test("a linear layer's bias is uniform within 1/sqrt(inputs), its weight normal with std 0.02", () => {
  const linear = new Linear(64, 4096, initializer(1));
  const bias = linear.bias.tensor.dataSync();
  assert.ok(bias.every((value) => Math.abs(value) <= 1 / 8));
  assert.ok(bias.some((value) => Math.abs(value) > 0.9 / 8));
  const std = Math.sqrt(tf.tidy(() => linear.weight.tensor.square().mean().dataSync()[0] ?? Number.NaN));
  assert.ok(Math.abs(std - 0.02) < 2e-4, `std ${std}`);
  linear.dispose();
});

test('values load by exact name and shape, or every misfit is named', () => {
  const linear = new Linear(2, 1, initializer(0));
  const weight = { shape: [1, 2], values: Float32Array.of(3, 4) };
  const bias = { shape: [1], values: Float32Array.of(5) };
  loadState(
    engine,
    linear,
    new Map([
      ['weight', weight],
      ['bias', bias],
    ]),
  );
  assert.deepEqual([...linear.weight.tensor.dataSync()], [3, 4]);
  assert.throws(
    () =>
      loadState(
        engine,
        linear,
        new Map([
          ['weight', { ...weight, shape: [2, 1] }],
          ['extra', bias],
        ]),
      ),
    /extra is unknown.*weight has shape \[2, 1\], the model's is \[1, 2\].*bias is missing/,
  );
  linear.dispose();
});
