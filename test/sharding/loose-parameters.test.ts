import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { SILENT } from '../../src/core/events';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import type { Engine } from '../../src/engine/backend/engine';
import { moduleOf } from '../../src/nn/layers-model';
import { gpt } from '../../src/nn/models/gpt';
import type { Module } from '../../src/nn/module';
import { freeze } from '../../src/nn/name-patterns';
import { readState } from '../../src/nn/state-values';
import { DDP } from '../../src/sharding/ddp/distributed-data-parallel';
import { fullyShard, type ShardContext } from '../../src/sharding/fsdp/fully-shard';
import { AdamW } from '../../src/sharding/optim/adamw';
import { AdamW8bit } from '../../src/sharding/optim/adamw-8bit';
import { clipGradNormInPlace } from '../../src/sharding/optim/clip-grad-norm';
import type { Optimizer } from '../../src/sharding/optim/optimizer';
import { SGD } from '../../src/sharding/optim/sgd';
import { applyActivationCheckpointing } from '../../src/sharding/recompute/apply-activation-checkpointing';
import { valuesHere } from '../support/cases';
import { assertClose, valuesOf } from '../support/close';
import { soloGroup } from '../support/solo-group';
import { testEngine } from '../support/wasm-test-engine';
import { Chain } from './chain-model';

let engine: Engine;
let context: ShardContext;
before(async () => {
  engine = await testEngine();
  context = { engine, observer: SILENT, group: soloGroup(engine) };
});

type Gpt = ReturnType<typeof gpt>;
type Wrap = (model: Gpt) => void;

const blocks = (model: Gpt) => [...model.blocks];

/** Ways to leave a part of a model, or all of it, without a wrapper. */
const MIXES: Readonly<Record<string, Wrap>> = {
  'nothing wrapped': () => {},
  'blocks under fullyShard': (model) => {
    for (const block of blocks(model)) fullyShard(block, context);
  },
  'one block under fullyShard, one under DDP': (model) => {
    const [first, second] = blocks(model);
    if (first !== undefined) fullyShard(first, context, { reshardAfterForward: false });
    if (second !== undefined) new DDP(second, context);
  },
  'a part of a block under ZERO_1': (model) => {
    for (const block of blocks(model)) {
      for (const child of [...block.children.values()].slice(0, 1))
        fullyShard(child, context, { strategy: 'ZERO_1' });
    }
  },
  'nested: a part of each block, then the block': (model) => {
    for (const block of blocks(model)) {
      for (const child of [...block.children.values()].slice(0, 1)) fullyShard(child, context);
      fullyShard(block, context);
    }
  },
  'shards on the host': (model) => {
    for (const block of blocks(model)) fullyShard(block, context, { offloadParameters: true });
  },
  'ignored modules in a block': (model) => {
    for (const block of blocks(model))
      fullyShard(block, context, { ignoredModules: [...block.children.values()].slice(0, 1) });
  },
  'nothing wrapped, blocks run again in backward': (model) => {
    applyActivationCheckpointing(context, model, 'full', false);
  },
  'nothing wrapped, blocks run again, inputs on the host': (model) => {
    applyActivationCheckpointing(context, model, 'full', true);
  },
  'blocks under fullyShard run again, some results kept': (model) => {
    applyActivationCheckpointing(context, model, { saveOps: ['linear'] }, false);
    for (const block of blocks(model)) fullyShard(block, context);
  },
};

function made(tied: boolean): Gpt {
  return gpt({ layers: 2, dim: 16, heads: 2, vocab: 32, seq: 8, tied });
}

interface Trained {
  readonly losses: readonly number[];
  readonly norms: readonly number[];
  readonly values: ReadonlyMap<string, Float32Array>;
}

function parametersOf(model: Module): Map<string, Float32Array> {
  const found = new Map<string, Float32Array>();
  for (const state of new Set(model.parameters().map((parameter) => parameter.state))) {
    for (const { parameter, offset, length } of state.slices)
      found.set(parameter.name, readState(engine, state, 'values', offset, length));
  }
  return found;
}

function train(model: Gpt, optimizer: Optimizer, steps = 4): Trained {
  const losses: number[] = [];
  const norms: number[] = [];
  for (let step = 0; step < steps; step++) {
    const ids = tf.randomUniform([2, 8], 0, 32, 'int32', step + 1);
    const targets = tf.randomUniform([16], 0, 32, 'int32', step + 100);
    // The gradients of two backwards add up.
    for (const seed of [0.25, 0.75]) {
      const pass = gradients(engine, () => model.apply(ids, targets));
      pass.backward(seed);
      losses.push(pass.loss.dataSync()[0] ?? Number.NaN);
      pass.loss.dispose();
    }
    norms.push(clipGradNormInPlace(engine, model, 0.5));
    optimizer.step();
    optimizer.zeroGrad();
    tf.dispose([ids, targets]);
  }
  const values = parametersOf(model);
  optimizer.dispose();
  for (const state of new Set(model.parameters().map((parameter) => parameter.state))) state.dispose();
  return { losses, norms, values };
}

function assertEqual(actual: Trained, expected: Trained): void {
  assertClose(actual.losses, expected.losses, 1e-6, 'losses');
  assertClose(actual.norms, expected.norms, 1e-5, 'norms of gradients');
  assert.deepEqual([...actual.values.keys()].sort(), [...expected.values.keys()].sort());
  for (const [name, values] of expected.values)
    assertClose(actual.values.get(name) ?? [], values, 1e-5, `parameter ${name}`);
}

const OPTIMIZERS: Readonly<Record<string, (model: Module) => Optimizer>> = {
  AdamW: (model) => new AdamW(engine, model, { lr: 1e-2, eps: 1e-4, weightDecay: 0.1 }),
  SGD: (model) => new SGD(engine, model, { lr: 0.1, momentum: 0.9 }),
  AdamW8bit: (model) => new AdamW8bit(engine, model, { lr: 1e-2, eps: 1e-4 }),
};

for (const [i, [name, wrap]] of Object.entries(MIXES).entries()) {
  for (const tied of valuesHere([true, false], [i % 2])) {
    test(`with ${name}, a ${tied ? 'tied' : 'plain'} GPT trains as under DDP, and frees all memory`, () => {
      const before = engine.memory.bytes;
      const reference = made(tied);
      new DDP(reference, context);
      const expected = train(reference, OPTIMIZERS.AdamW?.(reference) as Optimizer);
      const model = made(tied);
      wrap(model);
      assertEqual(train(model, OPTIMIZERS.AdamW?.(model) as Optimizer), expected);
      assert.equal(engine.memory.bytes, before);
    });
  }
}

for (const [name, optimizerOf] of Object.entries(OPTIMIZERS)) {
  test(`${name} updates a model without any wrapper as under DDP`, () => {
    const reference = made(true);
    new DDP(reference, context);
    const expected = train(reference, optimizerOf(reference));
    const model = made(true);
    assertEqual(train(model, optimizerOf(model)), expected);
  });
}

test('frozen parameters get no gradient, and loose parameters keep their gradients until zeroGrad', () => {
  const model = made(true);
  freeze(model, ['wte', 'blocks.0']);
  const ids = tf.zeros([1, 8], 'int32');
  const targets = tf.zeros([8], 'int32');
  const pass = gradients(engine, () => model.apply(ids, targets));
  pass.backward();
  for (const [name, { grad, requiresGrad }] of model.namedParameters()) {
    assert.equal(grad !== null, requiresGrad, name);
    assert.equal(requiresGrad, !/^(wte|blocks\.0)\./.test(name), name);
  }
  model.zeroGrad();
  assert.ok(model.parameters().every(({ grad }) => grad === null));
  tf.dispose([ids, targets, pass.loss]);
  model.dispose();
});

test('a tf.sequential without a wrapper trains, also if its optimizer is made after the first backward', () => {
  for (const optimizerFirst of [true, false]) {
    const model = tf.sequential({
      layers: [tf.layers.dense({ units: 1, inputShape: [3], kernelInitializer: 'ones' })],
    });
    const x = tf.tensor([[1, 2, 3]]);
    const lossOf = (): tf.Tensor => tf.mean(model.apply(x) as tf.Tensor);
    let optimizer = optimizerFirst ? new SGD(engine, moduleOf(model), { lr: 0.1 }) : undefined;
    const pass = gradients(engine, lossOf);
    pass.backward();
    optimizer ??= new SGD(engine, moduleOf(model), { lr: 0.1 });
    optimizer.step();
    const [kernel, bias] = moduleOf(model).parameters();
    assertClose(valuesOf(kernel?.tensor as tf.Tensor), [0.9, 0.8, 0.7], 1e-6, 'kernel');
    assertClose(valuesOf(bias?.tensor as tf.Tensor), [-0.1], 1e-6, 'bias');
    tf.dispose([x, pass.loss]);
    moduleOf(model).dispose();
  }
});

test("reading a unit's parameter outside its unit is an error, also before the unit ran", () => {
  const model = new Chain();
  new DDP(model, context);
  const x = tf.tensor([[0.1, -0.2, 0.3]]);
  assert.throws(
    () =>
      gradients(engine, () => {
        const decay = tf.sum(tf.square(model.last.weight.tensor));
        return tf.add(model.apply(x), decay);
      }),
    { code: 'ENGINE', message: /A parameter of unit .* is used outside of this unit/ },
  );
  x.dispose();
  model.dispose();
});

test('backward of a loss without trainable parameters is an error', () => {
  const x = tf.tensor([1, 2]);
  const pass = gradients(engine, () => tf.mean(x));
  assert.throws(() => pass.backward(), { code: 'CONFIG', message: /depends on no trainable parameter/ });
  tf.dispose([x, pass.loss]);
});

test('a parameter that is the loss itself gets the seed as its gradient, and is not disposed', () => {
  const parameter = new Chain().last.bias;
  const pass = gradients(engine, () => parameter.tensor);
  pass.backward(2);
  pass.loss.dispose();
  assert.deepEqual([...(parameter.grad?.dataSync() ?? [])], [2]);
  assert.equal(parameter.tensor.isDisposed, false);
  parameter.state.dispose();
});
