import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { ModuleList } from '../../../src/nn/containers';
import { Linear } from '../../../src/nn/linear';
import { Module } from '../../../src/nn/module';
import { DDP, type DdpOptions } from '../../../src/sharding/ddp/distributed-data-parallel';
import { rootOnly } from '../../../src/sharding/wrap-policy';
import type { ProcessGroup, Work } from '../../../src/wire/dist/types';
import { soloGroup } from '../../support/solo-group';
import { testEngine } from '../../support/wasm-test-engine';

/** Runs its layers in the given order. */
class Stack extends Module {
  readonly layers = new ModuleList([0, 1].map(() => new Linear(3, 3)));
  readonly order: readonly number[];

  constructor(order: readonly number[]) {
    super();
    this.order = order;
    this.manualSeed(5);
  }

  forward(x: tf.Tensor): tf.Tensor {
    let y = x;
    for (const place of this.order) y = tf.tanh(this.layers.at(place)?.apply(y) ?? y);
    return tf.mean(y);
  }
}

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** A group of one that counts its reductions and, while `breaks`, interrupts them. */
function countingGroup(): { readonly group: ProcessGroup; numReductions: number; breaks: boolean } {
  const solo = soloGroup(engine);
  const counting = { group: solo, numReductions: 0, breaks: false };
  const counted = (run: () => Work<void>): Work<void> => {
    counting.numReductions++;
    if (!counting.breaks) return run();
    const wait = (): never => {
      throw new Error('interrupted');
    };
    return { done: true, wait };
  };
  counting.group = {
    ...solo,
    allReducePieces: (...args) => counted(() => solo.allReducePieces(...args)),
    allGatherPieces: (...args) => counted(() => solo.allGatherPieces(...args)),
  };
  return counting;
}

function train(model: Stack): void {
  const x = tf.tensor([[0.1, -0.2, 0.3]]);
  const pass = gradients(engine, () => model.apply(x));
  try {
    pass.backward();
  } finally {
    pass.loss.dispose();
    x.dispose();
  }
}

function wrapped(model: Stack, group: ProcessGroup, options: DdpOptions = {}): Stack {
  new DDP(model, { engine, observer: SILENT, group }, { firstBucketBytes: 1, bucketBytes: 1, ...options });
  return model;
}

const grads = (model: Module): number[][] =>
  model.parameters().map(({ grad }) => (grad === null ? [] : Array.from(grad.dataSync())));

test('after an interrupted backward the next backward reduces every bucket again', () => {
  const counting = countingGroup();
  const model = wrapped(new Stack([0, 1]), counting.group);
  train(model);
  const expected = grads(model);
  const numBuckets = counting.numReductions;
  model.zeroGrad();
  counting.breaks = true;
  let fails = true;
  const layer = model.layers.at(0);
  layer?.wrap((inputs, next) => {
    const y = next(...inputs) as tf.Tensor;
    // Its gradient fails after the reduction of the next layer's gradients has begun.
    return fails
      ? tf.customGrad((...[z]) => ({
          value: tf.clone(z as tf.Tensor), // the input; the types allow for tfjs's save function
          gradFunc: () => {
            throw new Error('interrupted');
          },
        }))(y)
      : y;
  });
  assert.throws(() => train(model), /interrupted/);
  engine.recover();
  assert.ok(counting.numReductions > numBuckets, 'a reduction was on its way');
  counting.breaks = false;
  fails = false;
  model.zeroGrad();
  counting.numReductions = 0;
  train(model);
  assert.equal(counting.numReductions, numBuckets);
  assert.deepEqual(grads(model), expected);
  model.dispose();
});

for (const [what, commHook] of Object.entries({
  PowerSGD: { kind: 'powerSGD', minCompressionRate: 1.1 },
  topK: { kind: 'topK', ratio: 0.3 },
} as const)) {
  test(`${what}: an interrupted backward does not change the errors for the next step`, () => {
    const counting = countingGroup();
    const model = new Stack([0, 1]);
    const before = engine.memory.bytes;
    const ddp = new DDP(
      model,
      { engine, observer: SILENT, group: counting.group },
      { firstBucketBytes: 1, commHook },
    );
    train(model);
    const first = grads(model);
    model.zeroGrad();
    counting.breaks = true;
    assert.throws(() => train(model), /interrupted/);
    engine.recover();
    counting.breaks = false;
    ddp.abandon();
    const held = engine.memory.bytes;
    train(model);
    const second = grads(model);
    model.zeroGrad();
    assert.equal(engine.memory.bytes, held);
    ddp.dispose();
    assert.ok(engine.memory.bytes <= before);

    const twin = new Stack([0, 1]);
    const other = new DDP(
      twin,
      { engine, observer: SILENT, group: counting.group },
      { firstBucketBytes: 1, commHook },
    );
    train(twin);
    assert.deepEqual(grads(twin), first);
    twin.zeroGrad();
    train(twin);
    grads(twin).forEach((values, i) => {
      values.forEach((value, j) => {
        assert.ok(Math.abs(value - (second[i]?.[j] ?? Number.NaN)) < 1e-6);
      });
    });
    other.dispose();
  });
}

test('a module that runs twice is an error if a reduction would miss its gradient, and works with rootOnly', () => {
  const { group } = countingGroup();
  const model = wrapped(new Stack([1, 0, 1]), group);
  assert.throws(() => train(model), { code: 'CONFIG', message: /layers\.1.*more than once.*rootOnly/ });
  engine.recover();
  model.dispose();
  const whole = wrapped(new Stack([1, 0, 1]), group, { policy: rootOnly });
  train(whole);
  assert.ok(grads(whole).every((grad) => grad.length > 0));
  whole.dispose();
});
