import * as tf from '../../../core/tf';
import { present } from '../wasm-context';
import { sumTo } from './broadcast-runs';
import { CUMPROD_GRAD } from './scan-kernels';
import { STRUCTURE_GRADIENTS } from './structure-gradients';

/*
 * [Note: gradients of tfjs] tfjs's gradients of maximum, minimum and squaredDifference ignore broadcasts, those of max and min give
 * each of several equal elements the whole gradient, that of abs is -1 at 0, that of cumsum has other axes, and so on. The rules
 * here are torch's: a gradient has its input's shape, equal elements share it, and at the corner of abs it is 0.
 */

/**
 * Replaces gradients of tfjs that are wrong, missing, or slow. See [Note: gradients of tfjs]. For sums and means, tfjs multiplies
 * by an array of ones, as large as the input, which JavaScript makes outside of the engine; for a mean, tfjs then divides every
 * element. Here a kernel makes the ones, and for a mean only the gradient of the result is divided.
 */
export function mendGradients(): void {
  for (const [kernelName, config] of Object.entries({ ...GRADIENTS, ...STRUCTURE_GRADIENTS }))
    tf.registerGradient({ kernelName, ...config });
  fromStart('Prod');
  for (const kernelName of TO_LISTS) acceptOnePart(kernelName);
  for (const kernelName of BROADCAST) acceptNothing(kernelName);
}

type Saved = readonly tf.Tensor[];

function unaryGradient(
  saves: { readonly inputsToSave?: string[]; readonly outputsToSave?: boolean[] },
  compute: (dy: tf.Tensor, saved: Saved, attrs: tf.NamedAttrMap) => tf.Tensor,
): Omit<tf.GradConfig, 'kernelName'> {
  return { ...saves, gradFunc: (dy, saved, attrs) => ({ x: () => compute(dy as tf.Tensor, saved, attrs) }) };
}

const OF_X = { inputsToSave: ['x'] };

const GRADIENTS: Readonly<Record<string, Omit<tf.GradConfig, 'kernelName'>>> = {
  Sum: unaryGradient(OF_X, (dy, [x], { axis }) => repeatAlong(dy, present(x), axis as number[])),
  Mean: unaryGradient(OF_X, (dy, [x], { axis }) =>
    repeatAlong(tf.div(dy, present(x).size / Math.max(1, dy.size)), present(x), axis as number[]),
  ),
  Abs: unaryGradient(OF_X, (dy, [x]) => tf.mul(dy, tf.sign(present(x)))),
  Max: extremeGradient(),
  Min: extremeGradient(),
  Maximum: pairGradient((dy, a, b) => halfWhereEqual(dy, tf.greater(a, b), tf.equal(a, b))),
  Minimum: pairGradient((dy, a, b) => halfWhereEqual(dy, tf.less(a, b), tf.equal(a, b))),
  SquaredDifference: pairGradient((dy, a, b) => tf.mul(dy, tf.mul(tf.sub(a, b), 2))),
  // tfjs has the gradient of a division; a floor is flat.
  FloorDiv: pairGradient((dy) => tf.zerosLike(dy)),
  Select: {
    inputsToSave: ['condition'],
    gradFunc: (gradient, [condition]) => {
      const [dy, chosen] = [gradient as tf.Tensor, present(condition)];
      return {
        condition: () => tf.zerosLike(tf.cast(chosen, 'float32')),
        // A product would make NaN of the gradient's infinities where it is masked.
        t: () => tf.where(chosen, dy, tf.zerosLike(dy)),
        e: () => tf.where(chosen, tf.zerosLike(dy), dy),
      };
    },
  },
  Cumsum: unaryGradient({}, (dy, _, { axis, exclusive, reverse }) =>
    tf.cumsum(dy, Number(axis), exclusive === true, reverse !== true),
  ),
  Cumprod: unaryGradient(OF_X, (dy, [x], attrs) =>
    tf.engine().runKernel(CUMPROD_GRAD, { x: present(x), dy }, { ...attrs }),
  ),
  Rsqrt: unaryGradient({ outputsToSave: [true] }, (dy, [y]) =>
    tf.mul(tf.mul(dy, -0.5), tf.mul(present(y), tf.square(present(y)))),
  ),
  Tan: unaryGradient({ outputsToSave: [true] }, (dy, [y]) => tf.mul(dy, tf.add(tf.square(present(y)), 1))),
};

/** The gradient of max and min: equal elements share it. */
function extremeGradient(): Omit<tf.GradConfig, 'kernelName'> {
  return unaryGradient({ ...OF_X, outputsToSave: [true] }, (dy, [x, y], attrs) => {
    const axes = tf.util.parseAxisParam((attrs.reductionIndices ?? attrs.axis) as number[], present(x).shape);
    const kept = tf.backend_util.expandShapeToKeepDim(
      present(x).shape.filter((_, i) => !axes.includes(i)),
      axes,
    );
    const chosen = tf.cast(tf.equal(present(x), tf.reshape(present(y), kept)), 'float32');
    return tf.mul(chosen, tf.div(tf.reshape(dy, kept), tf.sum(chosen, axes, true)));
  });
}

/** A gradient of two broadcast inputs: `compute` returns that of the first from (dy, first, second), in the result's shape. */
function pairGradient(
  compute: (dy: tf.Tensor, own: tf.Tensor, factor: tf.Tensor) => tf.Tensor,
): Omit<tf.GradConfig, 'kernelName'> {
  return {
    inputsToSave: ['a', 'b'],
    gradFunc: (dy, saved) => {
      const [a, b] = [present(saved[0]), present(saved[1])];
      return {
        a: () => sumTo(compute(dy as tf.Tensor, a, b), a.shape),
        b: () => sumTo(compute(dy as tf.Tensor, b, a), b.shape),
      };
    },
  };
}

/** Returns dy where `wins`, half of it where `ties`, else 0. */
function halfWhereEqual(dy: tf.Tensor, wins: tf.Tensor, ties: tf.Tensor): tf.Tensor {
  return tf.mul(dy, tf.add(tf.cast(wins, 'float32'), tf.mul(tf.cast(ties, 'float32'), 0.5)));
}

/** The other kernels with two broadcast inputs that have a gradient. */
const BROADCAST = ['Add', 'Sub', 'Multiply', 'RealDiv', 'Pow', 'Mod', 'Atan2'];

/** tfjs does not see that an axis of length 1 was broadcast to length 0; the gradients of a result without elements are 0. */
function acceptNothing(kernelName: string): void {
  const { gradFunc, ...config } = present(tf.getGradient(kernelName));
  tf.unregisterGradient(kernelName);
  tf.registerGradient({
    ...config,
    gradFunc: (dy, saved, attrs) => {
      if (Array.isArray(dy) || dy.size > 0) return gradFunc(dy, saved, attrs);
      const [a, b] = [present(saved[0]), present(saved[1])];
      return { a: () => tf.zerosLike(a), b: () => tf.zerosLike(b) };
    },
  });
}

/** tfjs's gradient of a product takes no axis that counts from the end. */
function fromStart(kernelName: 'Prod'): void {
  const { gradFunc, ...config } = present(tf.getGradient(kernelName));
  tf.unregisterGradient(kernelName);
  tf.registerGradient({
    ...config,
    gradFunc: (dy, saved, { axis, ...attrs }) =>
      gradFunc(dy, saved, {
        ...attrs,
        axis: tf.util.parseAxisParam(axis as number[], present(saved[0]).shape),
      }),
  });
}

/** The kernels with a list of outputs that have a gradient. */
const TO_LISTS = ['Unpack', 'SplitV'] as const;

/** tfjs passes the gradient of a single output as a tensor, but the gradients of these kernels read a list. */
function acceptOnePart(kernelName: (typeof TO_LISTS)[number]): void {
  const { gradFunc, ...config } = present(tf.getGradient(kernelName));
  tf.unregisterGradient(kernelName);
  tf.registerGradient({
    ...config,
    gradFunc: (dy, saved, attrs) => gradFunc(Array.isArray(dy) ? dy : [dy], saved, attrs),
  });
}

/** Repeats `dy` along the reduced axes, to the shape of `x`; the values of `x` are not used. */
function repeatAlong(dy: tf.Tensor, x: tf.Tensor, axis: number | number[]): tf.Tensor {
  const axes = tf.util.parseAxisParam(axis, x.shape);
  const kept = x.shape.map((length, index) => (axes.includes(index) ? 1 : length));
  return tf.mul(tf.reshape(dy, kept), tf.fill(x.shape, 1));
}
