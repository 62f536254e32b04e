import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { ShardlabError } from '../../../src/core/errors';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import type { Module } from '../../../src/nn/module';
import { readState, writeState } from '../../../src/nn/state-values';
import {
  type FullyShardOptions,
  fullyShard,
  type ShardContext,
} from '../../../src/sharding/fsdp/fully-shard';
import { noSync, unitsOf } from '../../../src/sharding/fsdp/units-of';
import { soloGroup } from '../../support/solo-group';
import { testEngine } from '../../support/wasm-test-engine';
import { Chain } from '../chain-model';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

interface Counts {
  gathers: number;
  reductions: number;
}

/** A group of one rank that counts the units' collectives. */
function counting(counts: Counts): ShardContext {
  const group = new Proxy(soloGroup(engine), {
    get(target, key) {
      if (key === 'allGatherPieces') counts.gathers++;
      if (key === 'reduceScatterPieces') counts.reductions++;
      return Reflect.get(target, key);
    },
  });
  return { engine, observer: SILENT, group };
}

/** Runs three steps of SGD; returns their losses, and all parameters after them. */
function trained(model: Module, withUnits: boolean): { losses: number[]; parameters: number[][] } {
  const x = tf.tensor([[0.1, -0.2, 0.3]]);
  const losses = [1, 2, 3].map(() => {
    model.zeroGrad();
    const pass = gradients(engine, () => model.apply(x) as tf.Tensor);
    pass.backward();
    const [loss = Number.NaN] = pass.loss.dataSync();
    pass.loss.dispose();
    for (const state of new Set(model.parameters().map((parameter) => parameter.state))) {
      const grad = readState(engine, state, 'grad');
      writeState(
        engine,
        state,
        0,
        readState(engine, state).map((value, i) => value - 0.1 * (grad[i] ?? 0)),
      );
      state.updated();
    }
    return loss;
  });
  x.dispose();
  if (withUnits) for (const unit of unitsOf(model)) unit.waitForUnshard();
  return { losses, parameters: model.parameters().map(({ tensor }) => Array.from(tensor.dataSync())) };
}

/** A chain whose units are the first layers, the list of the last ones, and the root. */
function inLists(context: ShardContext, options: FullyShardOptions = {}): Chain {
  const model = new Chain();
  const [first, ...others] = model.layers;
  fullyShard(first as Module, context, options);
  fullyShard([...others, model.last], context, options);
  return fullyShard(model, context, options);
}

for (const options of [
  {},
  { reshardAfterForward: false },
  { strategy: 'ZERO_2' },
  { forwardPrefetch: false },
] as const) {
  test(`a list of modules trains as without shards, ${JSON.stringify(options)}`, () => {
    const plain = new Chain();
    const expected = trained(plain, false);
    const { numBuffers } = engine.memory;
    const counts = { gathers: 0, reductions: 0 };
    const model = inLists(counting(counts), options);
    assert.deepEqual(trained(model, true), expected);
    assert.equal(unitsOf(model).length, 2);
    // Every step reduces the gradients of each unit once.
    assert.equal(counts.reductions, 3 * 2);
    for (const unit of unitsOf(model)) unit.dispose();
    assert.equal(engine.memory.numBuffers, numBuffers);
    plain.dispose();
  });
}

test('a list of modules is gathered once per forward and backward, and resharded after the last module', () => {
  const perStep = (make: (context: ShardContext) => Chain): Counts => {
    const counts = { gathers: 0, reductions: 0 };
    const model = make(counting(counts));
    const x = tf.tensor([[0.1, -0.2, 0.3]]);
    const pass = gradients(engine, () => model.apply(x));
    assert.ok(unitsOf(model).every(({ state, owners }) => state === 'sharded' || owners.includes(model)));
    pass.backward();
    assert.ok(unitsOf(model).every(({ state, hasGrad }) => state === 'sharded' && hasGrad));
    tf.dispose([pass.loss, x]);
    for (const unit of unitsOf(model)) unit.dispose();
    return counts;
  };
  const separate = perStep((context) => {
    const model = new Chain();
    for (const layer of [...model.layers, model.last]) fullyShard(layer, context);
    return fullyShard(model, context);
  });
  assert.deepEqual(separate, { gathers: 8, reductions: 4 });
  assert.deepEqual(perStep(inLists), { gathers: 4, reductions: 2 });
});

test('without reductions, gradients of a list add up until the next backward reduces them', () => {
  const counts = { gathers: 0, reductions: 0 };
  const model = inLists(counting(counts));
  const x = tf.tensor([[0.1, -0.2, 0.3]]);
  const run = (): void => {
    const pass = gradients(engine, () => model.apply(x));
    pass.backward();
    pass.loss.dispose();
  };
  const grads = (): number[][] =>
    unitsOf(model).map(({ trained: state }) => Array.from(readState(engine, state, 'grad')));
  run();
  const once = grads();
  model.zeroGrad();
  noSync(model, run);
  assert.equal(counts.reductions, 2);
  run();
  assert.deepEqual(
    grads(),
    once.map((values) => values.map((value) => 2 * value)),
  );
  x.dispose();
  for (const unit of unitsOf(model)) unit.dispose();
});

test('the unit of a list has the names of its modules', () => {
  const model = inLists(counting({ gathers: 0, reductions: 0 }));
  assert.deepEqual(
    unitsOf(model).map(({ module }) => module),
    ['layers.0', 'layers.1, layers.2, last'],
  );
  assert.equal(model.last.weight.unit, 'layers.1, layers.2, last');
  for (const unit of unitsOf(model)) unit.dispose();
});

test('a list that cannot be a unit is an error that names the module', () => {
  const context = counting({ gathers: 0, reductions: 0 });
  const model = new Chain();
  const [first] = model.layers;
  const refused = (modules: readonly Module[], pattern: RegExp): void =>
    assert.throws(
      () => fullyShard(modules, context),
      (error: unknown) =>
        error instanceof ShardlabError && error.code === 'CONFIG' && pattern.test(error.message),
    );
  refused([], /the list has no modules/);
  refused([model.last, model.last], /has "last" twice/);
  refused([model, model.last], /"last" is inside ""/);
  fullyShard(model.last, context);
  refused([first as Module, model.last], /already called on "last"/);
  fullyShard([...model.layers], context);
  const x = tf.tensor([[0.1, -0.2, 0.3]]);
  assert.throws(() => (first as Module).apply(x), /in one unit with other modules .* cannot be a root/);
  x.dispose();
  for (const unit of unitsOf(model)) unit.dispose();
});
