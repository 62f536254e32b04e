import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as fc from 'fast-check';
import { ShardlabError } from '../../../src/core/errors';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import type { HostArray } from '../../../src/engine/backend/host-arrays';
import { HostHeap } from '../../../src/engine/backend/host-arrays';
import { createWasmEngine } from '../../../src/engine/backend/wasm-engine';
import { normals, valuesOf } from '../../support/close';
import { LiveBuffers } from '../../support/live-buffers';

const TAG = { cause: 'optimizer', module: 'blocks.1' } as const;
const SIZES = [1, 2, 3, 4, 5, 7, 8, 31, 1029];

let engine: Engine;
const onDevice = new LiveBuffers('device');
const onHost = new LiveBuffers('host');
before(async () => {
  engine = await createWasmEngine({ blas: 'none', memoryLimit: 1 << 20 });
  engine.observe(onDevice);
  engine.observe(onHost);
});

function hostOf(values: ArrayLike<number>): HostArray {
  const array = engine.host.allocate(values.length, TAG);
  array.view().set(values);
  return array;
}

test('host memory is reported with its tag, apart from device memory, and memoryLimit does not limit it', () => {
  const held = engine.memory.bytes;
  const arrays = [
    engine.host.allocate(1 << 20, TAG),
    engine.host.allocate(3, TAG),
    engine.host.allocate(5, TAG, 'bool'),
  ];
  assert.equal(engine.host.bytes, (4 << 20) + 12 + 5);
  assert.equal(onHost.bytes, engine.host.bytes);
  assert.equal(onHost.buffers.size, engine.host.numArrays);
  for (const { tag } of onHost.buffers.values()) assert.deepEqual(tag, TAG);
  assert.equal(engine.memory.bytes, held);
  assert.equal(onDevice.bytes, held);
  const late = new LiveBuffers('host');
  engine.observe(late);
  assert.deepEqual(late.buffers, onHost.buffers);
  for (const array of arrays) array.dispose();
  for (const array of arrays) array.dispose();
  assert.deepEqual([engine.host.bytes, engine.host.numArrays, onHost.bytes], [0, 0, 0]);
});

test('AdamW, sumOfSquares, scale, addInto and fill give the bits of the device', () => {
  for (const n of SIZES) {
    const names = ['param', 'grad', 'expAvg', 'expAvgSq'] as const;
    const starts = names.map((name) => normals(n, name).map((v) => (name === 'expAvgSq' ? v * v : v)));
    const tensors = starts.map((values) => tf.tensor1d(values));
    const arrays = starts.map(hostOf);
    const [param, grad, expAvg, expAvgSq] = tensors as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor];
    const [hostParam, hostGrad, hostAvg, hostAvgSq] = arrays as [HostArray, HostArray, HostArray, HostArray];
    const hyper = { lr: 0.1, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1, step: 3, gradScale: 0.7 };
    const offsets = { param: 1, grad: 0, expAvg: 1, expAvgSq: 0 };
    const length = n - 1;
    engine.adamW({ param, grad, expAvg, expAvgSq, offsets, length, ...hyper });
    engine.host.adamW({
      param: hostParam,
      grad: hostGrad,
      expAvg: hostAvg,
      expAvgSq: hostAvgSq,
      offsets,
      length,
      ...hyper,
    });
    assert.equal(engine.host.sumOfSquares(hostGrad, 1, length), engine.sumOfSquares(grad, 1, length));
    engine.addInto(grad, expAvg, 0.3);
    engine.host.addInto(hostGrad, hostAvg, 0.3);
    engine.scale(expAvg, 1 / 3);
    engine.host.scale(hostAvg, 1 / 3);
    arrays.forEach((array, i) => {
      assert.deepEqual(array.view(), valuesOf(tensors[i] as tf.Tensor), `${names[i]} of ${n}`);
    });
    engine.host.fill(hostGrad, -0.1);
    assert.deepEqual(hostGrad.view(), new Float32Array(n).fill(-0.1));
    tf.dispose(tensors);
    for (const array of arrays) array.dispose();
  }
});

test('elements of any range are copied from a tensor to a host array and back unchanged', () => {
  const values = normals(50, 'travel');
  const [tensor, back] = [tf.tensor1d(values), tf.zeros([50])];
  const array = hostOf(new Float32Array(60));
  engine.host.fromDevice(tensor, 10, 30, array, 25);
  assert.deepEqual(array.view().slice(25, 55), values.slice(10, 40));
  assert.deepEqual([array.view()[24], array.view()[55]], [0, 0]);
  engine.host.toDevice(array, 25, 30, back, 5);
  assert.deepEqual(valuesOf(back).slice(5, 35), values.slice(10, 40));
  const ints = tf.tensor1d([1, -2, 3], 'int32');
  const hostInts = engine.host.allocate(3, TAG, 'int32');
  engine.host.fromDevice(ints, 0, 3, hostInts, 0);
  const [one, two, three] = new Int32Array(hostInts.bytesView().slice().buffer);
  assert.deepEqual([one, two, three], [1, -2, 3]);
  tf.dispose([tensor, back, ints]);
  array.dispose();
  hostInts.dispose();
});

test('a range out of bounds, a wrong type and a disposed array are errors that say so', () => {
  const tensor = tf.zeros([4]);
  const array = engine.host.allocate(3, TAG);
  assert.throws(
    () => engine.host.fromDevice(tensor, 0, 4, array, 0),
    /fromDevice: elements \[0, 4\) of a tensor float32 \[4\]/,
  );
  assert.throws(() => engine.host.toDevice(array, 2, 2, tensor, 0), { code: 'SHAPE' });
  const ints = engine.host.allocate(4, TAG, 'int32');
  assert.throws(() => engine.host.fromDevice(tensor, 0, 4, ints, 0), { code: 'SHAPE' });
  assert.throws(() => ints.view(), { code: 'SHAPE' });
  assert.throws(() => engine.host.scale(ints, 2), /scale needs float32 arrays.*int32 \[4\]/);
  array.dispose();
  assert.throws(() => array.view(), { code: 'CLOSED' });
  ints.dispose();
  tensor.dispose();
});

test('a full host heap is an error that lists what the host holds, and later work still succeeds', () => {
  const arrays: HostArray[] = [];
  assert.throws(
    () => {
      for (;;) arrays.push(engine.host.allocate(1 << 29, TAG));
    },
    (error) => {
      assert.ok(error instanceof ShardlabError);
      assert.equal(error.code, 'OUT_OF_MEMORY');
      assert.match(
        error.message,
        /2\.15 GB for optimizer of blocks\.1 .* the host's heap grows no further than/,
      );
      assert.match(error.message, /Held: optimizer of blocks\.1 2\.15 GB\./);
      return true;
    },
  );
  assert.equal(arrays.length, 1);
  for (const array of arrays) array.dispose();
  engine.host.allocate(1 << 29, TAG).dispose();
  assert.equal(engine.host.bytes, 0);
});

test("an engine's recovery does not free host arrays", () => {
  const array = hostOf([1, 2]);
  engine.recover();
  assert.deepEqual([...array.view()], [1, 2]);
  array.dispose();
});

test('blocks of the heap are aligned, never overlap, and freed space is reused', () => {
  const requests = fc.array(fc.record({ bytes: fc.nat(300_000), frees: fc.nat(3) }), { maxLength: 40 });
  fc.assert(
    fc.property(requests, (steps) => {
      const heap = new HostHeap();
      const live: { start: number; bytes: number }[] = [];
      for (const { bytes, frees } of steps) {
        const start = heap.allocate(bytes);
        assert.ok(start !== undefined && start > 0 && start % 16 === 0);
        assert.ok(start + bytes <= heap.memory.buffer.byteLength);
        for (const other of live)
          assert.ok(start >= other.start + other.bytes || start + bytes <= other.start);
        live.push({ start, bytes });
        for (const freed of live.splice(0, frees)) heap.free(freed.start);
      }
      for (const { start } of live) heap.free(start);
      const end = heap.bytes;
      assert.equal(heap.allocate(end - 16), 16, 'all free blocks were joined into one');
      assert.equal(heap.bytes, end);
    }),
    { seed: 1, numRuns: 60 },
  );
});
