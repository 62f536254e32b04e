import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { alias } from '../../../src/core/clone';
import { ShardlabError } from '../../../src/core/errors';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { layerNorm } from '../../../src/engine/backend/ops';
import type { WasmBackend } from '../../../src/engine/backend/wasm-backend';
import { createWasmEngine } from '../../../src/engine/backend/wasm-engine';
import { ENGINE_CASES } from '../../support/engines';
import { LiveBuffers } from '../../support/live-buffers';

const ACTIVATION = { cause: 'activation', module: 'blocks.3' } as const;

for (const engineCase of ENGINE_CASES) {
  describe(`the engine's memory ${engineCase.name}`, () => {
    let engine: Engine;
    let live: LiveBuffers;
    before(async () => {
      engine = await engineCase.start();
      live = new LiveBuffers();
      engine.observe(live);
    });
    const assertExact = (): void => {
      assert.equal(live.bytes, engine.memory.bytes);
      assert.equal(live.buffers.size, engine.memory.numBuffers);
    };

    test('a view of a tensor adds no bytes, and its buffer is freed with the last view', () => {
      const held = engine.memory.bytes;
      const x = tf.ones([10, 10]);
      const views = [tf.reshape(x, [100]), alias(x), tf.cast(x, 'float32'), tf.expandDims(x)];
      assert.equal(engine.memory.bytes - held, 400);
      x.dispose();
      assert.equal(engine.memory.bytes - held, 400);
      tf.dispose(views);
      assert.equal(engine.memory.bytes, held);
      assertExact();
    });

    test('the count includes tidy, gradients, matmuls, temporaries in kernels and kernels that allocate in C++', () => {
      const held = engine.memory.bytes;
      const a = tf.randomNormal([3, 8, 6], 0, 1, 'float32', 1);
      const b = tf.randomNormal([3, 6, 4], 0, 1, 'float32', 2);
      const grads = tf.grads((x, y) => tf.mean(tf.softmax(tf.matMul(x as tf.Tensor3D, y as tf.Tensor3D))))([
        a,
        b,
      ]);
      assertExact();
      const boxes = tf.tensor2d([0, 0, 1, 1, 0, 0, 0.9, 0.9, 0.5, 0.5, 1, 1], [3, 4]);
      const chosen = tf.image.nonMaxSuppression(boxes, tf.tensor1d([0.9, 0.8, 0.7]), 3);
      const sums = tf.tidy(() => [
        tf.sum(a, 1),
        tf.sum(a, [0, 1]),
        tf.cumsum(a, 1),
        tf.argMax(a, 2),
        tf.topk(a, 2).values,
      ]);
      assertExact();
      tf.dispose([a, b, grads, boxes, chosen, sums]);
      assertExact();
      assert.equal(engine.memory.bytes - held, 12); // the scores were not named
    });

    test('each type has its size in bytes, and strings count as none', () => {
      const held = engine.memory.bytes;
      const tensors = [tf.zeros([3], 'int32'), tf.zeros([3], 'bool'), tf.tensor(['a', 'b']), tf.zeros([0])];
      assert.equal(engine.memory.bytes - held, 15);
      tf.dispose(tensors);
      assert.equal(engine.memory.bytes, held);
    });

    test('a new observer first gets the buffers that are alive', () => {
      const x = engine.allocate([5], 'float32', ACTIVATION);
      const late = new LiveBuffers();
      engine.observe(late);
      assert.deepEqual(late.buffers, live.buffers);
      x.dispose();
    });

    test('buffers get the tag of the innermost scope, and an error restores the outer tag', () => {
      assert.deepEqual(engine.currentTag, { cause: 'temp', module: '' });
      const [outer, inner, explicit] = engine.tagged({ cause: 'optimizer', module: 'a' }, () => [
        tf.ones([1]),
        engine.tagged({ cause: 'comm', module: 'b' }, () => tf.ones([1])),
        engine.allocate([2], 'float32', ACTIVATION),
      ]) as [tf.Tensor, tf.Tensor, tf.Tensor];
      assert.throws(() => engine.tagged(ACTIVATION, () => assert.fail('on purpose')));
      assert.deepEqual(engine.currentTag, { cause: 'temp', module: '' });
      assert.deepEqual(
        [outer, inner, explicit].map((t) => engine.tagOf(t)),
        [{ cause: 'optimizer', module: 'a' }, { cause: 'comm', module: 'b' }, ACTIVATION],
      );
      const view = tf.reshape(outer, []);
      engine.retag(view, ACTIVATION);
      assert.deepEqual(engine.tagOf(outer), ACTIVATION);
      tf.dispose([outer, inner, explicit, view]);
    });

    test('recover ends open scopes and tapes and frees their tensors, except the tensors to keep', () => {
      const held = engine.memory.bytes;
      const state = tf.engine().state;
      let released = 0;
      const withdraw = engine.onRecover(() => assert.fail('it was withdrawn'));
      engine.onRecover(() => void released++);
      withdraw();
      // A cell that is cut off: the ends of its scopes never run.
      tf.engine().startScope('cell');
      tf.engine().startScope('inner');
      state.gradientDepth = 2;
      state.kernelDepth = 1;
      const kept = tf.ones([4]);
      tf.ones([100]);
      engine.recover([kept]);
      assert.equal(released, 1);
      assert.equal(engine.memory.bytes - held, 16);
      assert.deepEqual([state.scopeStack.length, state.gradientDepth, state.kernelDepth], [0, 0, 0]);
      assert.equal(
        tf.tidy(() => tf.sum(kept).dataSync()[0]),
        4,
      );
      engine.recover([kept]);
      assert.equal(released, 1);
      kept.dispose();
    });

    test("a tensor's storage shows its values, and the tensor shows values written to its storage", () => {
      const x = tf.tensor1d([1, 2, 3]);
      const storage = engine.storage(x);
      assert.equal(storage.bytes, 12);
      const floats = new Float32Array(storage.view().slice().buffer);
      assert.deepEqual([...floats], [1, 2, 3]);
      storage.view().set(new Uint8Array(Float32Array.of(7).buffer), 4);
      assert.deepEqual([...x.dataSync()], [1, 7, 3]);
      const address = storage.address;
      const big = tf.zeros([40 << 20]); // the heap grows
      assert.equal(engine.storage(x).address, address);
      assert.deepEqual([...x.dataSync()], [1, 7, 3]);
      tf.dispose([x, big]);
    });
  });
}

describe('the process around the engine', () => {
  test('after a trap every operation, read and update is an error that says what trapped and what to do', async () => {
    tf.registerKernel({
      kernelName: 'TrapsInTest',
      backendName: 'wasm',
      kernelFunc: () => {
        throw new WebAssembly.RuntimeError('unreachable');
      },
    });
    const engine = await createWasmEngine({ blas: 'none', place: () => 'cell 3, line 2' });
    const [x, y] = [tf.ones([4]), tf.ones([4])];
    const tag = { cause: 'temp', module: 'blocks.0' } as const;
    const said =
      /heap is damaged: the wasm kernel TrapsInTest trapped in module blocks.0, cell 3, line 2: unreachable.*await job.shutdown/;
    assert.throws(() => engine.tagged(tag, () => tf.engine().runKernel('TrapsInTest', {})), said);
    const uses = [
      () => tf.add(x, y),
      () => tf.tensor1d([1]),
      () => x.dataSync(),
      () => engine.addInto(x, y),
      () => engine.storage(x),
      () => engine.allocate([4], 'float32', tag),
      () => engine.host.fromDevice(x, 0, 4, engine.host.allocate(4, tag), 0),
    ];
    for (const use of uses) assert.throws(use, said);
    assert.equal(engine.damage?.kernel, 'TrapsInTest');
    tf.dispose([x, y]);
    engine.recover();
    tf.unregisterKernel('TrapsInTest', 'wasm');
    await ENGINE_CASES[1]?.start();
    assert.deepEqual(
      tf.tidy(() => [...tf.add(1, 2).dataSync()]),
      [3],
    );
  });

  test('a start of the engine leaves no handlers of uncaught errors behind', async () => {
    const count = (): number[] =>
      ['uncaughtException', 'unhandledRejection'].map((event) => process.listenerCount(event));
    const before = count();
    await ENGINE_CASES[1]?.start();
    assert.deepEqual(count(), before);
  });
});

describe('running out of memory', () => {
  const refusal = (work: () => unknown): ShardlabError => {
    try {
      work();
    } catch (error) {
      assert.ok(error instanceof ShardlabError);
      assert.equal(error.code, 'OUT_OF_MEMORY');
      return error;
    }
    return assert.fail('it was given');
  };

  test('a buffer beyond memoryLimit is an error that lists the held memory by cause and module', async () => {
    const [engineCase] = ENGINE_CASES;
    const engine = await engineCase?.start({ memoryLimit: 1000 });
    assert.ok(engine);
    const param = engine.allocate([100], 'float32', { cause: 'param.full', module: 'blocks.1' });
    const error = refusal(() => engine.allocate([10, 20], 'float32', ACTIVATION));
    assert.match(
      error.message,
      /^800 B for activation of blocks\.3 \(float32 \[10, 20\]\) do not fit: 400 B are held/,
    );
    assert.match(error.message, /memoryLimit is 1\.00 kB\. Held: param\.full of blocks\.1 400 B\./);
    assert.deepEqual(error.details.holdings, [{ cause: 'param.full', module: 'blocks.1', bytes: 400 }]);
    refusal(() => tf.tile(param, [3]));
    assert.equal(engine.memory.bytes, 400);
    param.dispose();
    engine.allocate([250], 'float32', ACTIVATION).dispose();
  });

  for (const engineCase of ENGINE_CASES) {
    test(`a kernel that runs out of memory half-way frees what it allocated (${engineCase.name})`, async () => {
      // 640 + 64 bytes are held, layerNorm's output needs 640 more, and its statistics do not fit.
      const engine = await engineCase.start({ memoryLimit: 1400 });
      const [x, w] = [tf.ones([10, 16]), tf.ones([16])];
      const held = engine.memory.bytes;
      refusal(() => layerNorm(x, w, w));
      // One operand is transposed, and either its copy or the matmul's output does not fit beside the other.
      refusal(() => tf.matMul(x, x, true, false));
      refusal(() => tf.cumsum(tf.concat([x, x])));
      assert.equal(engine.memory.bytes, held);
      tf.dispose([x, w]);
      assert.equal(engine.memory.bytes, 0);
    });

    test(`a full heap is the same error, and later work still succeeds (${engineCase.name})`, async () => {
      const engine = await engineCase.start();
      const tensors: tf.Tensor[] = [];
      const error = refusal(() => {
        for (;;) tensors.push(engine.allocate([512, 1 << 20], 'float32', ACTIVATION));
      });
      assert.ok(tensors.length < 2);
      assert.match(error.message, /wasm engine's heap ends at 4\.29 GB/);
      tf.dispose(tensors);
      assert.equal(engine.memory.bytes, 0);
      assert.equal(
        tf.tidy(() => tf.sum(tf.matMul(tf.ones([8, 8]), tf.ones([8, 8]))).dataSync()[0]),
        512,
      );
    });
  }
});

describe('the heap', () => {
  let engine: Engine;
  before(async () => {
    engine = (await ENGINE_CASES[1]?.start()) as Engine; // there are two
  });

  test('large buffers start at cache lines', () => {
    const tensors = [300, 5000, 1025].map((n) => engine.allocate([n], 'float32', engine.currentTag));
    const { dataIdMap } = tf.backend() as unknown as WasmBackend; // the engine's own backend
    for (const tensor of tensors) assert.equal((dataIdMap.get(tensor.dataId).memoryOffset ?? 1) % 64, 0);
    tf.dispose(tensors);
  });
});
