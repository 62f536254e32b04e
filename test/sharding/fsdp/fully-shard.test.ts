import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { ShardlabError } from '../../../src/core/errors';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { Linear } from '../../../src/nn/linear';
import { Module } from '../../../src/nn/module';
import { Parameter } from '../../../src/nn/parameter';
import { readState } from '../../../src/nn/state-values';
import {
  type FullyShardOptions,
  fullyShard,
  type ShardContext,
} from '../../../src/sharding/fsdp/fully-shard';
import { abandonUnits, unitsOf } from '../../../src/sharding/fsdp/units-of';
import { soloGroup } from '../../support/solo-group';
import { testEngine } from '../../support/wasm-test-engine';
import { Chain } from '../chain-model';
import { fullyShardByPolicy } from './shard-by-policy';

let engine: Engine;
let context: ShardContext;
before(async () => {
  engine = await testEngine();
  context = { engine, observer: SILENT, group: soloGroup(engine) };
});

function sharded(options: FullyShardOptions = {}): Chain {
  const model = new Chain();
  for (const layer of model.layers) fullyShard(layer, context, options);
  return fullyShard(model, context, options);
}

const input = (): tf.Tensor => tf.tensor([[0.1, -0.2, 0.3]]);

const states = (model: Module): string[] => unitsOf(model).map(({ module, state }) => `${module}: ${state}`);

function disposeUnits(model: Module): void {
  for (const unit of unitsOf(model)) unit.dispose();
}

test('the units of a model are its wrapped modules, and the root with the rest', () => {
  const model = sharded();
  assert.deepEqual(
    unitsOf(model).map((unit) => [unit.module, unit.members.map(({ name }) => name)]),
    [
      ['layers.0', ['layers.0.weight', 'layers.0.bias']],
      ['layers.1', ['layers.1.weight', 'layers.1.bias']],
      ['layers.2', ['layers.2.weight', 'layers.2.bias']],
      ['', ['last.weight', 'last.bias']],
    ],
  );
  disposeUnits(model);
});

test('after forward only the root is unsharded; after backward no unit is', () => {
  const model = sharded();
  const x = input();
  const pass = gradients(engine, () => model.apply(x));
  assert.deepEqual(states(model), [
    'layers.0: sharded',
    'layers.1: sharded',
    'layers.2: sharded',
    ': unsharded',
  ]);
  pass.backward();
  assert.deepEqual(states(model), [
    'layers.0: sharded',
    'layers.1: sharded',
    'layers.2: sharded',
    ': sharded',
  ]);
  assert.ok(unitsOf(model).every(({ hasGrad }) => hasGrad));
  tf.dispose([pass.loss, x]);
  disposeUnits(model);
});

test('reshardAfterForward false leaves all units unsharded until backward; true also frees the root', () => {
  for (const reshardAfterForward of [false, true]) {
    const model = sharded({ reshardAfterForward });
    const x = input();
    const pass = gradients(engine, () => model.apply(x));
    assert.deepEqual(
      unitsOf(model).map(({ state }) => state),
      new Array(4).fill(reshardAfterForward ? 'sharded' : 'unsharded'),
    );
    pass.backward();
    assert.ok(unitsOf(model).every(({ state }) => state === 'sharded'));
    tf.dispose([pass.loss, x]);
    disposeUnits(model);
  }
});

test('unshard and reshard change no shard, and unsharded parameters have their values from before sharding', () => {
  const plain = new Chain();
  const expected = new Map(
    [...plain.namedParameters()].map(([name, { tensor }]) => [name, tensor.dataSync()]),
  );
  const model = sharded();
  const shards = (): Float32Array[] => unitsOf(model).map(({ trained }) => readState(engine, trained));
  const before = shards();
  for (const unit of unitsOf(model)) unit.waitForUnshard();
  for (const [name, { tensor }] of model.namedParameters())
    assert.deepEqual(tensor.dataSync(), expected.get(name));
  for (const unit of unitsOf(model)) unit.reshard();
  assert.deepEqual(shards(), before);
  plain.dispose();
  disposeUnits(model);
});

test('reading the tensor of a sharded parameter is an error that says so', () => {
  const model = sharded();
  assert.throws(
    () => model.last.weight.tensor,
    (error: unknown) =>
      error instanceof ShardlabError && error.code === 'SHAPE' && /last\.weight.*unshard/.test(error.message),
  );
  disposeUnits(model);
});

test('an update of the shard makes its whole copies stale, so that the next forward gathers again', () => {
  const model = sharded();
  const x = input();
  model.apply(x).dispose();
  const [, , , root] = unitsOf(model);
  assert.equal(root?.state, 'unsharded');
  root.trained.updated();
  assert.equal(root.state, 'sharded');
  x.dispose();
  disposeUnits(model);
});

test('gradients of several backward passes add up in the shard', () => {
  const model = sharded();
  const x = input();
  const run = (): Float32Array[] => {
    const pass = gradients(engine, () => model.apply(x));
    pass.backward();
    pass.loss.dispose();
    return unitsOf(model).map(({ trained }) => readState(engine, trained, 'grad'));
  };
  const once = run();
  const twice = run();
  assert.deepEqual(
    twice,
    once.map((grad) => grad.map((value) => 2 * value)),
  );
  x.dispose();
  disposeUnits(model);
});

test('after disposal there are as many buffers as before', () => {
  const { numBuffers } = engine.memory;
  const model = sharded();
  const x = input();
  const pass = gradients(engine, () => model.apply(x));
  pass.backward();
  tf.dispose([pass.loss, x]);
  disposeUnits(model);
  assert.equal(engine.memory.numBuffers, numBuffers);
});

test('after a failed pass units hold only their shards, and the next pass is right', () => {
  const model = sharded({ forwardPrefetch: true });
  const x = input();
  const run = (): number => {
    const pass = gradients(engine, () => model.apply(x));
    pass.backward();
    const loss = pass.loss.dataSync()[0] ?? Number.NaN;
    pass.loss.dispose();
    return loss;
  };
  const expected = run();
  model.zeroGrad();
  const { numBuffers } = engine.memory;
  let fails = true;
  model.layers.at(1)?.wrap((inputs, next) => {
    if (fails) throw new Error('interrupted');
    return next(...inputs);
  });
  assert.throws(run, /interrupted/);
  engine.recover();
  abandonUnits(model);
  assert.equal(engine.memory.numBuffers, numBuffers);
  assert.ok(unitsOf(model).every(({ state, hasGrad }) => state === 'sharded' && !hasGrad));
  fails = false;
  assert.equal(run(), expected);
  x.dispose();
  disposeUnits(model);
});

test('the pass after interrupted collectives is right, and nothing of the interrupted pass is left', () => {
  const solo = soloGroup(engine);
  let breaks = false;
  const wait = (): never => {
    throw new Error('interrupted');
  };
  const breaking = new Proxy(solo, {
    get: (target, key) => {
      const broken = breaks && (key === 'allGatherPieces' || key === 'reduceScatterPieces');
      return broken ? () => ({ done: true, wait }) : Reflect.get(target, key);
    },
  });
  const model = new Chain();
  fullyShardByPolicy(model, (module) => module instanceof Linear, { ...context, group: breaking });
  const x = input();
  const run = (whileBackward = (): void => undefined): number => {
    model.zeroGrad();
    const pass = gradients(engine, () => model.apply(x));
    try {
      whileBackward();
      pass.backward();
      return pass.loss.dataSync()[0] ?? Number.NaN;
    } finally {
      pass.loss.dispose();
    }
  };
  const expected = run();
  const { numBuffers } = engine.memory;
  const breakOff = (): void => {
    breaks = true;
  };
  assert.throws(() => run(breakOff), /interrupted/);
  assert.throws(() => run(), /interrupted/);
  engine.recover();
  breaks = false;
  assert.equal(run(), expected);
  assert.equal(engine.memory.numBuffers, numBuffers);
  x.dispose();
  disposeUnits(model);
});

test('a unit that ran before its root was wrapped is an error', () => {
  const model = new Chain();
  const x = input();
  for (const layer of model.layers) fullyShard(layer, context);
  model.layers.at(0)?.apply(x).dispose();
  fullyShard(model, context);
  assert.throws(() => model.apply(x), /"layers\.0" ran on its own before its root/);
  x.dispose();
  disposeUnits(model);
});

class Single extends Module {
  readonly value: Parameter;
  constructor(value: Parameter) {
    super();
    this.value = value;
  }
  forward(x: tf.Tensor): tf.Tensor {
    return tf.mul(x, this.value.tensor);
  }
}

test('a scalar parameter that would be sharded is an error that names it', () => {
  const scalar = new Single(new Parameter(tf.scalar(1)));
  assert.throws(() => fullyShard(scalar, context), /value is a scalar.*\[1\]/);
  fullyShard(scalar, context, { strategy: 'NO_SHARD' });
  disposeUnits(scalar);
});

test('a model whose values cannot be read does not change', () => {
  const model = new Chain();
  const before = engine.memory.bytes;
  model.last.weight.defer({
    fill() {
      throw new Error('the file is gone');
    },
  });
  assert.throws(() => fullyShard(model, context), /the file is gone/);
  assert.equal(engine.memory.bytes, before);
  assert.equal(unitsOf(model).length, 0);
});
