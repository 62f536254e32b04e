import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { inspect } from 'node:util';
import * as tf from '../../src/core/tf';
import { ModuleList } from '../../src/nn/containers';
import { Linear } from '../../src/nn/linear';
import { gpt } from '../../src/nn/models/gpt';
import { Module } from '../../src/nn/module';
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

before(testEngine);

test('a GPT gives logits without targets, and an error that shows the right shapes for other ids', () => {
  const model = gpt({ layers: 1, dim: 4, heads: 1, vocab: 5, seq: 4 });
  const ids = tf.zeros([4], 'int32');
  assert.throws(() => model.apply(ids, ids), /GPT takes ids \[B, T\].* given ids int32 \[4\]/);
  assert.throws(() => model.apply(tf.zeros([1, 4])), /given ids float32 \[1,4\]; a tensor becomes int32 by/);
  assert.throws(() => model.apply('text' as never), /given ids text/);
  assert.deepEqual(model.apply(tf.reshape(ids, [1, 4])).shape, [1, 4, 5]);
});

test('a module is called like a function, and has no members of functions', () => {
  const layer = new Linear(2, 3);
  assert.deepEqual(
    tf.tidy(() => layer(tf.ones([4, 2])).shape),
    [4, 3],
  );
  const list = new ModuleList([layer]);
  assert.deepEqual(Object.keys(list), ['isOptional']);
  assert.equal(list.length, 1);
  assert.equal(Object.getPrototypeOf(layer), Linear.prototype);
  assert.equal(inspect(layer), 'Linear(weight [3, 2], bias [3])');
  assert.throws(() => list(), /ModuleList has no forward/);
  layer.dispose();
});

test('a state dict has torch’s names, also of ties, and a dict that does not fit is refused with all its names', () => {
  const model = new Tied();
  const dict = model.stateDict();
  const tied = ['table', 'head', 'layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias'];
  assert.deepEqual([...dict.keys()].toSorted(), tied.toSorted());
  assert.equal(dict.get('head'), dict.get('table'));
  const other = new Tied().manualSeed(9);
  assert.deepEqual(other.loadStateDict(dict), { missingKeys: [], unexpectedKeys: [] });
  assert.deepEqual(other.layers.at(1)?.weight.tensor.dataSync(), dict.get('layers.1.weight')?.dataSync());
  const wrong = { table: tf.ones([3, 2]), 'layers.0.weight': tf.ones([2, 3]), extra: tf.ones([1]) };
  assert.throws(() => other.loadStateDict(wrong), {
    code: 'SHAPE',
    message:
      'the state dict does not fit Tied: missing keys: "layers.0.bias", "layers.1.weight", "layers.1.bias"; ' +
      'unexpected keys: "extra"; layers.0.weight has shape [2, 3], the module\'s is [2, 2]',
  });
  assert.throws(
    () => other.loadStateDict({ table: 1 as never }, { strict: false }),
    /table is 1; give a tensor/,
  );
  assert.equal(other.table.tensor.dataSync()[0], 0, 'nothing was loaded');
  const { table, extra } = wrong;
  const left = other.loadStateDict({ table, extra }, { strict: false });
  assert.deepEqual([left.missingKeys.length, left.unexpectedKeys], [4, ['extra']]);
  assert.equal(other.table.tensor.dataSync()[0], 1);
  const values = { shape: [3, 2], values: new Float32Array(6).fill(5) };
  other.loadStateDict({ head: values }, { strict: false });
  assert.equal(other.table.tensor.dataSync()[0], 5);
  tf.dispose([...new Set(dict.values()), ...Object.values(wrong)]);
  for (const each of [model, other]) each.dispose();
});

test('a call without an input is an error that names the module, not a bare TypeError', () => {
  const layer = new Linear(2, 3) as unknown as (x?: unknown) => unknown;
  assert.throws(() => layer(), {
    code: 'SHAPE',
    message:
      /^Linear was called with no input, but its forward has 1 input: Cannot read properties of undefined/,
  });
  assert.throws(() => layer(null), /^ShardlabError\[SHAPE\]: Linear was called with null, but/);
  assert.throws(() => layer([[1, 2]]), /Linear was called with an array, but/);
  assert.throws(
    () => layer(tf.ones([4, 3])),
    /x float32 \[4,3\].* do not fit together; the last dim of x must be 2/,
  );
});
