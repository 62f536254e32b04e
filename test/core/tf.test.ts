import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '../../src/core/tf';

type Methods = Readonly<Record<string, (...args: unknown[]) => tf.Tensor | tf.Tensor[] | object>>;

/** Names of the union package that `shardlab/tf` leaves out. */
const LEFT_OUT =
  'data deregisterOp forceHalfFloat GPGPUContext gpgpu_util GraphModel loadGraphModel loadGraphModelSync MathBackendWebGL ' +
  'registerOp setWebGLContext version_converter version_webgl webgl webgl_util';

// The union package registers its own chained operations, so ours are taken before it loads.
const prototype = tf.Tensor.prototype;
const ours = methodsOf(prototype);
const union = require('@tensorflow/tfjs') as typeof tf;
const theirs = methodsOf(prototype);

before(() => tf.setBackend('cpu'));

test('tensors have the chained operations of @tensorflow/tfjs', () => {
  assert.deepEqual(Object.keys(ours).sort(), Object.keys(theirs).sort());
  assert.ok(Object.keys(ours).length > 130);
});

test('tf has every name of @tensorflow/tfjs except the readers of files, graph models and WebGL', () => {
  const missing = Object.keys(union).filter((name) => !(name in tf));
  assert.deepEqual(missing.sort(byName), LEFT_OUT.split(' ').sort(byName));
});

test('a tensor beside an operator is an error that names the methods; its text is asked for by a template', () => {
  const [x, y] = [tf.ones([2]) as never, tf.ones([2]) as never];
  for (const use of [
    () => x + y,
    () => x * y,
    () => ['loss', x].reduce((a, b) => a + b),
    () => x > 1,
    () => +x,
  ])
    assert.throws(use, /^ShardlabError\[CONFIG\]: a tensor \[2\] stands beside an operator .* a\.add\(b\)/);
  assert.match(`${x}`, /^Tensor/);
  assert.equal(String(x), (x as tf.Tensor).toString());
});

test('item returns the element of a tensor with one element, as torch does', () => {
  assert.equal(tf.scalar(1.5).item(), 1.5);
  assert.equal(tf.tensor2d([[7]], [1, 1], 'int32').item(), 7);
  for (const shape of [[2], [0], [1, 3]]) {
    assert.throws(
      () => tf.zeros(shape).item(),
      /^ShardlabError\[SHAPE\]: item: a tensor \[[\d,]+\] has \d elements/,
    );
  }
});

test('chained operations that have no function of the same name give the results of @tensorflow/tfjs', () => {
  const matrix = tf.tensor2d([1.5, 0, -2, 3], [2, 2]);
  const image = tf.range(0, 12).reshape([2, 2, 3]);
  const one = tf.tensor1d([7]);
  const calls: readonly [string, tf.Tensor, ...unknown[]][] = [
    ['asScalar', one],
    ['asType', matrix, 'int32'],
    ['as1D', matrix],
    ['as2D', matrix, 1, 4],
    ['as3D', matrix, 1, 4, 1],
    ['as4D', matrix, 1, 2, 1, 2],
    ['as5D', matrix, 1, 2, 1, 2, 1],
    ['flatten', matrix],
    ['reshapeAs', matrix, tf.zeros([4, 1])],
    ['concat', matrix, matrix, 1],
    ['concat', matrix, [matrix, matrix]],
    ['stack', matrix, matrix, 1],
    ['stack', matrix, [matrix, matrix]],
    ['resizeBilinear', image, [3, 3]],
    ['resizeNearestNeighbor', image, [3, 3], true],
    ['toBool', matrix],
    ['toFloat', matrix.toInt()],
    ['toInt', matrix],
    ['where', matrix, tf.tensor2d([1, 0, 0, 1], [2, 2], 'bool'), tf.zeros([2, 2])],
    ['oneHot', tf.tensor1d([0, 2], 'int32'), 3],
  ];
  for (const [name, tensor, ...args] of calls) {
    const [own, other] = [ours, theirs].map((methods) => described(methods[name]?.call(tensor, ...args)));
    assert.deepEqual(own, other, name);
  }
  for (const methods of [ours, theirs]) assert.throws(() => methods.asScalar?.call(matrix), /only 1 element/);
});

test('flatten joins the dims that its arguments name, as in torch', () => {
  const shapeOf = (shape: number[], ...dims: number[]) =>
    (ours.flatten?.call(tf.zeros(shape), ...dims) as tf.Tensor | undefined)?.shape;
  assert.deepEqual(shapeOf([2, 3, 4, 5], 1), [2, 60]);
  assert.deepEqual(shapeOf([2, 3, 4, 5], -3, 2), [2, 12, 5]);
  assert.deepEqual(shapeOf([]), [1]);
  assert.deepEqual(shapeOf([2, 0, 3], 1), [2, 0]);
  for (const dims of [[4], [2, 1], [0.5]])
    assert.throws(() => shapeOf([2, 3, 4, 5], ...dims), /flatten: dims .* do not fit a tensor \[2,3,4,5\]/);
});

test('a chained operation of a disposed tensor throws', () => {
  const gone = tf.ones([2]);
  gone.dispose();
  assert.throws(() => ours.add?.call(gone, 1), /Tensor is disposed/);
});

function methodsOf(prototype: object): Methods {
  return Object.fromEntries(
    Object.keys(prototype).map((name) => [name, (prototype as Methods)[name] as Methods[string]]),
  );
}

function described(value: unknown): unknown {
  assert.ok(value instanceof tf.Tensor);
  return { shape: value.shape, dtype: value.dtype, values: [...value.dataSync()] };
}

function byName(a: string, b: string): number {
  return a.toLowerCase() < b.toLowerCase() ? -1 : 1;
}

test("oneHot has a depth of 1 too, as torch's one_hot", () => {
  const zeros = tf.tensor1d([0, 0], 'int32');
  const hot = tf.oneHot(zeros, 1);
  assert.deepEqual([hot.shape, hot.dtype, [...hot.dataSync()]], [[2, 1], 'int32', [1, 1]]);
  assert.deepEqual([...tf.oneHot([0, 1, -1], 1).dataSync()], [1, 0, 0]);
  assert.deepEqual([...tf.oneHot([0, 1], 2).dataSync()], [1, 0, 0, 1]);
});
