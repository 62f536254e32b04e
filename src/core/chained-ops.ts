import * as core from '@tensorflow/tfjs-core';
import { clone } from './clone';
import { detach } from './detach';
import { ConfigError, ShardlabError } from './errors';
import { oneHot } from './one-hot';
import * as stable from './stable-ops';

/**
 * [Note: chained operations] `x.add(y)` does the same as `tf.add(x, y)`. In Node, only the package @tensorflow/tfjs defines
 * these methods, so this file defines the same methods; a test compares the two sets. Each name below is a function of the core
 * whose first argument is the tensor.
 */
const FUNCTIONS = `
  abs acos acosh add all any argMax argMin asin asinh atan atan2 atanh avgPool batchToSpaceND batchNorm
  broadcastTo ceil clipByValue conv1d conv2dTranspose conv2d cos cosh cumprod cumsum depthToSpace depthwiseConv2d
  dilation2d divNoNan div dot elu equal erf euclideanNorm exp expandDims expm1 fft floor floorDiv gather
  greaterEqual greater ifft irfft isFinite isInf isNaN leakyRelu lessEqual less localResponseNormalization
  logSigmoid logSoftmax logSumExp log log1p logicalAnd logicalNot logicalOr logicalXor matMul maxPool max maximum
  mean min minimum mirrorPad mod mul neg norm notEqual onesLike pad pool pow prelu prod reciprocal relu
  relu6 reshape reverse rfft round rsqrt selu separableConv2d sigmoid sign sin sinh slice softmax softplus
  spaceToBatchND split sqrt square squaredDifference squeeze step stridedSlice sub sum tan tanh tile topk
  transpose unique unsortedSegmentSum unstack zerosLike
`;

type Method = (this: core.Tensor, ...args: never[]) => unknown;

/** Methods whose names are not names of functions of the core. */
const OTHERS: Readonly<Record<string, Method>> = {
  asScalar() {
    core.util.assert(this.size === 1, () => 'The array must have only 1 element.');
    return core.reshape(this, []);
  },
  asType(dtype: core.DataType) {
    return core.cast(this, dtype);
  },
  as1D() {
    return flatten.call(this);
  },
  clone(): core.Tensor {
    return clone(this);
  },
  detach,
  flatten,
  item,
  oneHot(depth: number, ...values: OneHotValues) {
    return oneHot(this, depth, ...values);
  },
  ...Object.fromEntries(['as2D', 'as3D', 'as4D', 'as5D'].map((name) => [name, reshapeTo])),
  reshapeAs(template: core.Tensor) {
    return core.reshape(this, template.shape);
  },
  concat(others: core.Tensor | core.Tensor[], dim?: number) {
    return core.concat([this, ...listOf(others)], dim);
  },
  stack(others: core.Tensor | core.Tensor[], dim?: number) {
    return core.stack([this, ...listOf(others)], dim);
  },
  resizeBilinear(...args: Resizing) {
    return core.image.resizeBilinear(this as core.Tensor3D, ...args);
  },
  resizeNearestNeighbor(...args: Resizing) {
    return core.image.resizeNearestNeighbor(this as core.Tensor3D, ...args);
  },
  toBool: castTo('bool'),
  toFloat: castTo('float32'),
  toInt: castTo('int32'),
  where(condition: core.Tensor, otherwise: core.Tensor) {
    return core.where(condition, this, otherwise);
  },
};

type OneHotValues = [onValue?: number, offValue?: number, dtype?: core.NumericDataType];

type Resizing = [size: [number, number], alignCorners?: boolean, halfPixelCenters?: boolean];

/** Defines the methods on tfjs's class of tensors. See [Note: chained operations]. */
export function registerChainedOps(): void {
  // The names are known only at run time.
  const functions = { ...core, ...stable } as unknown as Readonly<
    Record<string, (...args: unknown[]) => unknown>
  >;
  for (const name of FUNCTIONS.trim().split(/\s+/)) {
    define(name, function (this: core.Tensor, ...args: unknown[]) {
      return functions[name]?.(this, ...args);
    });
  }
  for (const [name, method] of Object.entries(OTHERS)) define(name, method);
  Object.defineProperty(core.Tensor.prototype, Symbol.toPrimitive, { value: primitive, configurable: true });
}

/**
 * JavaScript calls this method if a tensor is the operand of an operator. Without it, `x + y` would join two texts, and `x * y`
 * would be NaN. Throws: CONFIG, except where a text is asked for, as in `${x}`.
 */
function primitive(this: core.Tensor, hint: 'number' | 'string' | 'default'): string {
  if (hint === 'string') return this.toString();
  throw new ConfigError(
    `a tensor [${this.shape}] stands beside an operator such as +, and JavaScript has operators only for numbers and texts: ` +
      'write a.add(b), a.sub(b), a.mul(b), a.div(b) or a.less(b); x.item() is the number of a tensor with one element, and ' +
      'String(x) its text',
  );
}

function define(name: string, method: Method): void {
  const value = function (this: core.Tensor, ...args: never[]): unknown {
    if (this.isDisposed) throw new Error('Tensor is disposed.'); // the core's own methods throw this too
    return method.apply(this, args);
  };
  Object.defineProperty(core.Tensor.prototype, name, {
    value,
    writable: true,
    configurable: true,
    enumerable: true,
  });
}

/** Joins the dims from `first` to `last` into one, as torch does; without arguments, all dims. */
function flatten(this: core.Tensor, first = 0, last = -1): core.Tensor {
  const { shape, rank } = this;
  const [from, to] = [first, last].map((dim) => (dim < 0 ? dim + Math.max(rank, 1) : dim)) as [
    number,
    number,
  ];
  const fits =
    Number.isInteger(from) && Number.isInteger(to) && 0 <= from && from <= to && to < Math.max(rank, 1);
  if (!fits) {
    const message = `flatten: dims ${first} to ${last} do not fit a tensor [${shape}]; x.flatten(1) keeps the first dim.`;
    throw new ShardlabError('SHAPE', message);
  }
  const joined = core.util.sizeFromShape(shape.slice(from, to + 1));
  return core.reshape(this, [...shape.slice(0, from), joined, ...shape.slice(to + 1)]);
}

function item(this: core.Tensor): number {
  const value = this.size === 1 ? this.dataSync()[0] : undefined;
  if (value === undefined) {
    throw new ShardlabError(
      'SHAPE',
      `item: a tensor [${this.shape}] has ${this.size} elements, not one; write x.arraySync() for all of them.`,
    );
  }
  return value;
}

function castTo(dtype: core.DataType): Method {
  return function (this: core.Tensor) {
    return core.cast(this, dtype);
  };
}

function reshapeTo(this: core.Tensor, ...shape: number[]): core.Tensor {
  return core.reshape(this, shape);
}

function listOf(tensors: core.Tensor | core.Tensor[]): core.Tensor[] {
  return tensors instanceof core.Tensor ? [tensors] : tensors;
}
