import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { inspect } from 'node:util';
import { ConfigError } from '../../src/core/errors';
import * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import type { Next } from '../../src/nn/callable';
import { ModuleDict, ModuleList, Sequential } from '../../src/nn/containers';
import { Embedding } from '../../src/nn/embedding';
import { constant } from '../../src/nn/init';
import { Linear } from '../../src/nn/linear';
import { loadState } from '../../src/nn/load-state';
import { gpt } from '../../src/nn/models/gpt';
import { Module } from '../../src/nn/module';
import { freeze } from '../../src/nn/name-patterns';
import { LayerNorm } from '../../src/nn/norms';
import { Parameter } from '../../src/nn/parameter';
import { testEngine } from '../support/wasm-test-engine';

class Tied extends Module {
  readonly table = new Parameter(tf.zeros([3, 2]));
  readonly layers = new ModuleList([new Linear(2, 2), new Linear(2, 3)]);
  readonly head = this.table;

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

test('a module is printed as a tree with the shapes of its parameters, and equal neighbours only once', () => {
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
  assert.match(String(new Tied()), /\(0\): Linear[^\n]*\n *\(1\): Linear/);
});

test('parameters are named as in torch, parents first, and a tied parameter once', () => {
  const model = new Tied();
  assert.deepEqual(
    [...model.namedParameters().keys()],
    ['table', 'layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias'],
  );
  assert.equal(model.numParams(), 6 + 6 + 9);
  assert.deepEqual([...(model.layers.at(1)?.namedParameters().keys() ?? [])], ['weight', 'bias']);
  assert.equal(model.layers.at(1)?.weight.module, 'layers.1');
  model.dispose();
});

test('another module in a list gets the name of its index', () => {
  const model = new Tied();
  const other = new Linear(2, 2);
  model.layers.set(1, other);
  assert.equal(other.path, 'layers.1');
  assert.equal(other.bias.name, 'layers.1.bias');
  assert.deepEqual([...model.layers].indexOf(other), 1);
  assert.throws(() => model.layers.set(2, other), /the list "layers" has 2 modules.*no module at index 2/);
});

test('names with a dot, empty names and used names are refused', () => {
  class Wrong extends Tied {
    add(name: string): void {
      this.addParameter(name, this.table);
    }
  }
  const model = new Wrong();
  for (const name of ['a.b', '', 'table']) assert.throws(() => model.add(name), ConfigError);
  model.dispose();
});

test('wrappers run from the last to the first, and a wrapper with a key only once', () => {
  const model = new Linear(2, 2);
  const order: string[] = [];
  const note = (name: string) => (inputs: unknown[], next: Next) => {
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

/** Two layers of one shape in public fields, and one in a private field. */
class Fields extends Module {
  readonly a = new Linear(4, 4);
  b: Linear | null = new Linear(4, 4);
  readonly towers = new ModuleDict({ left: new Linear(4, 2, { bias: false }) });
  readonly scale = Parameter.deferred([2], constant(1));
  readonly #hidden = new Linear(2, 2);

  forward(x: tf.Tensor): tf.Tensor {
    return this.#hidden.apply(this.a.apply(x));
  }
}

test('modules and parameters in fields are registered with the names of the fields, in their order', () => {
  const model = new Fields();
  assert.deepEqual(
    [...model.namedParameters().keys()],
    ['scale', 'a.weight', 'a.bias', 'b.weight', 'b.bias', 'towers.left.weight'],
  );
  assert.equal(model.numParams(), 2 + 2 * 20 + 8);
  const left = model.towers.get('left');
  assert.equal(left?.path, 'towers.left', 'a part knows its name before anybody asks the model');
  assert.equal(left?.weight.name, 'towers.left.weight');
  assert.equal(left?.bias, null);
  model.dispose();
});

test('a field that is set again registers the new module instead of the old one', () => {
  const model = new Fields();
  const other = new Linear(4, 1);
  model.b = other;
  assert.equal(other.weight.name, 'b.weight');
  assert.deepEqual([...model.children.keys()], ['a', 'b', 'towers']);
  model.b = null;
  assert.deepEqual([...model.children.keys()], ['a', 'towers']);
  assert.deepEqual([...model.a.weight.users], [model.a]);
  model.dispose();
});

test('a module cannot contain its own parent', () => {
  class Child extends Fields {
    parent: Module | null = null;
  }
  const child = new Child();
  class Parent extends Fields {
    readonly child = child;
  }
  const parent = new Parent();
  assert.throws(() => {
    child.parent = parent;
  }, /Child\.parent: this Parent holds the Child itself/);
});

const valuesOf = ({ weight }: Linear): number[] => [...weight.tensor.dataSync()];

test('values depend on seed and path: no two layers are equal, and two models of the same seed are', () => {
  const [model, twin, other] = [new Fields(), new Fields(), new Fields().manualSeed(8)];
  assert.notDeepEqual(valuesOf(model.a), valuesOf(model.b as Linear));
  assert.deepEqual(valuesOf(model.a), valuesOf(twin.a));
  assert.notDeepEqual(valuesOf(model.a), valuesOf(other.a));
  assert.equal(other.a.seed, 8);
  for (const each of [model, twin, other]) each.dispose();
});

test('a seed that would come too late to have an effect is refused', () => {
  const linear = new Linear(2, 2);
  assert.throws(() => linear.manualSeed(0.5), /0\.5 is not an integer/);
  for (const { tensor } of linear.parameters()) assert.ok(tensor.size > 0);
  assert.throws(() => linear.manualSeed(1), /manualSeed\(1\) of Linear has no effect, .* already made/);
  linear.dispose();
});

test("layers start like torch's: Linear uniform within 1/sqrt(inputs), Embedding standard normal, norms 1 and 0", () => {
  const linear = new Linear(64, 4096);
  for (const values of [linear.weight, linear.bias].map(({ tensor }) => tensor.dataSync())) {
    assert.ok(values.every((value) => Math.abs(value) <= 1 / 8));
    assert.ok(values.some((value) => Math.abs(value) > 0.99 / 8));
  }
  const table = new Embedding(4096, 16);
  const std = Math.sqrt(tf.tidy(() => table.weight.tensor.square().mean().dataSync()[0] ?? Number.NaN));
  assert.ok(Math.abs(std - 1) < 0.02, `std ${std}`);
  const norm = new LayerNorm(3);
  assert.deepEqual(
    [norm.weight, norm.bias].map(({ tensor }) => [...tensor.dataSync()]),
    [
      [1, 1, 1],
      [0, 0, 0],
    ],
  );
  for (const each of [linear, table, norm]) each.dispose();
});

test("a layer's size must be a whole number from 1", () => {
  assert.throws(() => new Linear(7, 0), /nn\.Linear: outputs is 0; give a whole number/);
  assert.throws(() => new LayerNorm(1.5), /nn\.LayerNorm: normalizedShape\[0\] is 1\.5; give a whole number/);
});

test('values are loaded by exact name and shape, and the error names all that do not fit', () => {
  const linear = new Linear(2, 1);
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

test("a tensor in a parameter's field and an array in a module's are refused, as in torch; null is accepted", () => {
  const layer = new Linear(2, 2);
  assert.throws(() => Object.assign(layer, { weight: tf.ones([2, 2]) }), {
    code: 'CONFIG',
    message: /Linear\.weight is a parameter, and a Tensor in its place would not train/,
  });
  assert.equal(layer.numParams(), 6);
  assert.throws(() => Object.assign(new Tied(), { layers: [] }), /Tied\.layers is a module, and an array/);
  Object.assign(layer, { bias: null });
  assert.equal(layer.numParams(), 4);
});

test('a parameter takes only a float tensor that no other parameter has', () => {
  for (const given of [[1, 2], 3, undefined]) {
    assert.throws(() => new Parameter(given as never), { code: 'CONFIG', message: /takes a tensor/ });
  }
  const whole = tf.ones([2], 'int32');
  assert.throws(() => new Parameter(whole), /int32 \[2\] has no gradient/);
  assert.deepEqual(new Parameter(whole, { requiresGrad: false }).shape, [2]);
  const values = tf.ones([3]);
  new Parameter(values);
  assert.throws(() => new Parameter(values), /this tensor \[3\] belongs to another parameter,/);
});

test('ModuleList, Sequential and freeze refuse values that are not lists of the right type', () => {
  assert.throws(() => new ModuleList([1] as never), /ModuleList takes modules, .*"0" is 1/);
  assert.equal(new Sequential(new Linear(2, 2), tf.relu).apply(tf.ones([1, 2])).size, 2);
  assert.throws(() => new Sequential(5 as never), /Sequential takes modules and functions, .*; got 5/);
  assert.throws(() => freeze(new Tied(), 'table' as never), /freeze takes a list of names, .*not "table"/);
});

test('a module that several others hold has its first name, also after the tree grows', () => {
  const shared = new Linear(2, 2);
  const [first, second] = [new Sequential([shared]), new Sequential([shared])];
  const model = new ModuleDict({ first });
  model.set('second', second);
  assert.deepEqual([shared.path, shared.weight.name], ['first.0', 'first.0.weight']);
  assert.deepEqual([first.path, second.path], ['first', 'second']);
});

test('modules are found by their names, and the error of a wrong name has the nearest one', () => {
  const model = gpt({ layers: 2, dim: 4, heads: 1, vocab: 5, seq: 2 });
  const names = [...model.namedModules().keys()];
  assert.deepEqual(names.slice(0, 5), ['', 'wte', 'wpe', 'blocks', 'blocks.0']);
  assert.equal(names.length, model.modules().length);
  assert.equal(model.getSubmodule(''), model);
  assert.equal(model.getSubmodule('blocks.1.qkv'), model.namedModules().get('blocks.1.qkv'));
  assert.throws(() => model.getSubmodule('blocks.1.qvk'), {
    code: 'CONFIG',
    message: "getSubmodule: GPT has no module 'blocks.1.qvk'; did you mean 'blocks.1.qkv'?",
  });
});
