import type { Random } from '../../../../src/core/random';
import type { Row } from './rows';

type Value = number | 'N' | 'I' | '-I' | '-0';
type Input = Row['in'][number];

const SPECIAL: readonly Value[] = ['N', 'I', '-I', '-0', 0, 1, -1, 0.5, -2, 2, 20, -20, 1e-4, 6];
/** Values that no operation on int32 rounds or wraps in float32, which tfjs's JavaScript backend uses. */
const INTS: readonly number[] = [0, 1, -1, 2, -3, 7, 46, -100];

const UNARY =
  'abs acos acosh asin asinh atan atanh ceil cos cosh elu erf exp expm1 floor isFinite isInf isNaN leakyRelu log log1p neg onesLike ' +
  'reciprocal relu relu6 round rsqrt selu sigmoid sin sinh softplus sqrt square tan tanh zerosLike';
const BINARY =
  'add sub mul div maximum minimum squaredDifference atan2 equal notEqual less lessEqual greater greaterEqual';
const ON_INTS = 'abs neg sign square relu relu6 isFinite isInf isNaN onesLike zerosLike';
const PAIRS_ON_INTS =
  'add sub mul maximum minimum squaredDifference equal notEqual less lessEqual greater greaterEqual';
const REDUCTIONS = 'sum mean max min prod';

/** Makes random rows without results: calls that tfjs's JavaScript backend and the engine must answer alike. */
export class RandomRows {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  row(): Row {
    return this.#of<() => Row>([
      () => ({ op: this.#of(UNARY.split(' ')), in: [this.#input('f', this.#shape(4, 0))] }),
      () => ({ op: this.#of(ON_INTS.split(' ')), in: [this.#input('i', this.#shape(4, 0))] }),
      () => ({ op: this.#of(BINARY.split(' ')), in: this.#pair('f') }),
      () => ({ op: this.#of(PAIRS_ON_INTS.split(' ')), in: this.#pair('i') }),
      () => this.#reduction(),
      () => this.#moved(),
      () => this.#product(),
      () => this.#window(),
    ])();
  }

  #whole(low: number, high: number): number {
    return low + Math.floor(this.#random.uniform() * (high - low + 1));
  }

  #of<T>(list: readonly T[]): T {
    return list[this.#whole(0, list.length - 1)] as T; // lists are not empty
  }

  #shape(mostAxes: number, least: number, leastAxes = 0): number[] {
    return Array.from({ length: this.#whole(leastAxes, mostAxes) }, () => this.#whole(least, 4));
  }

  #input(t: 'f' | 'i' | 'b', s: number[], special = 0.3): Input {
    const value = (): Value => {
      if (t === 'i') return this.#of(INTS);
      if (t === 'b') return this.#whole(0, 1);
      return this.#random.uniform() < special ? this.#of(SPECIAL) : Math.fround(this.#random.normal());
    };
    return { t, s, v: Array.from({ length: s.reduce((a, b) => a * b, 1) }, value) };
  }

  /** Two inputs that broadcast. */
  #pair(t: 'f' | 'i'): Input[] {
    const shape = this.#shape(4, 0);
    const part = (): number[] =>
      shape.slice(this.#whole(0, shape.length)).map((length) => (this.#random.uniform() < 0.3 ? 1 : length));
    const [left, right] = this.#random.uniform() < 0.5 ? [shape, part()] : [part(), shape];
    return [this.#input(t, left), this.#input(t, right)];
  }

  #reduction(): Row {
    const op = this.#of(REDUCTIONS.split(' '));
    // The JavaScript backend has other means and extremes of nothing; the rows of torch have them.
    const shape = this.#shape(4, op === 'sum' || op === 'prod' ? 0 : 1, 1);
    const axes = shape.map((_, i) => i).filter(() => this.#random.uniform() < 0.5);
    const t = this.#random.uniform() < 0.3 && op !== 'mean' ? 'i' : 'f';
    const a = { axis: axes.length === 0 ? null : axes, keep: this.#random.uniform() < 0.5 };
    return { op, in: [this.#input(t, shape)], a };
  }

  #moved(): Row {
    const t = this.#of(['f', 'i', 'b'] as const);
    const shape = this.#shape(4, 0, 1);
    const axis = this.#whole(0, shape.length - 1);
    const filled = shape.map((length) => Math.max(1, length));
    const x = this.#input(t, shape);
    const full = this.#input(t, filled);
    const wide = this.#input('f', filled);
    const size = filled.map((length) => this.#whole(1, length));
    return this.#of<() => Row>([
      () => ({ op: 'transpose', in: [x], a: { perm: this.#shuffled(shape.length) } }),
      () => ({ op: 'reverse', in: [this.#input(t === 'b' ? 'i' : t, shape)], a: { axis } }),
      () => ({ op: 'tile', in: [x], a: { reps: shape.map(() => this.#whole(0, 3)) } }),
      () => ({ op: 'concat', in: [x, this.#input(t, shape.with(axis, this.#whole(0, 3)))], a: { axis } }),
      () => ({
        op: 'slice',
        in: [full],
        a: { begin: filled.map((length, i) => length - (size[i] ?? 0)), size },
      }),
      () => ({ op: 'stridedSlice', in: [full], a: { begin: filled.map(() => 0), end: filled, step: size } }),
      () => ({
        op: 'gather',
        in: [full, { t: 'i', s: [3], v: [0, 0, 0].map(() => this.#whole(0, (filled[axis] ?? 1) - 1)) }],
        a: { axis },
      }),
      () => ({
        op: 'where',
        in: [this.#input('b', shape), this.#input('f', shape), this.#input('f', shape)],
      }),
      () => ({ op: 'cumsum', in: [wide], a: { axis, exclusive: t === 'f', reverse: t === 'b' } }),
      () => ({ op: 'clip', in: [wide], a: { low: -0.5, high: 1 } }),
      () => ({ op: 'softmax', in: [wide], a: { axis: -1 } }),
      () => ({ op: 'logSoftmax', in: [wide], a: { axis: -1 } }),
      () => ({ op: this.#of(['argMax', 'argMin']), in: [this.#input('f', filled, 0)], a: { axis } }),
    ])();
  }

  #shuffled(count: number): number[] {
    const left = Array.from({ length: count }, (_, i) => i);
    return Array.from({ length: count }, () => left.splice(this.#whole(0, left.length - 1), 1)[0] ?? 0);
  }

  #product(): Row {
    const [m, k, n] = [this.#whole(0, 4), this.#whole(1, 4), this.#whole(0, 4)];
    const batch = this.#of<[number[], number[]]>([
      [[], []],
      [[2], [2]],
      [[2], []],
    ]);
    return {
      op: 'matMul',
      in: [this.#input('f', [...batch[0], m, k], 0), this.#input('f', [...batch[1], k, n], 0)],
    };
  }

  #window(): Row {
    const [height, width, channels] = [this.#whole(1, 7), this.#whole(1, 7), this.#whole(1, 3)];
    const pad = this.#of(['valid', 'same'] as const);
    const size: [number, number] = [
      this.#whole(1, pad === 'valid' ? height : 4),
      this.#whole(1, pad === 'valid' ? width : 4),
    ];
    const stride: [number, number] = [this.#whole(1, 4), this.#whole(1, 4)];
    const x = (special: number): Input =>
      this.#input('f', [this.#whole(1, 2), height, width, channels], special);
    const filter = (outputs: number): Input => this.#input('f', [...size, channels, outputs], 0);
    const same = this.#whole(1, 3);
    return this.#of<() => Row>([
      () => ({ op: 'conv2d', in: [x(0), filter(this.#whole(1, 3))], a: { stride, dilation: [1, 1], pad } }),
      () => ({
        op: 'depthwiseConv2d',
        in: [x(0), filter(2)],
        a: { stride: [same, same], dilation: [1, 1], pad },
      }),
      () => ({ op: 'maxPool', in: [x(0)], a: { size, stride, pad } }),
      () => ({ op: 'avgPool', in: [x(0.1)], a: { size, stride, pad } }),
      () => ({
        op: 'resizeBilinear',
        in: [x(0)],
        a: { size: [same, this.#whole(1, 9)], corners: same === 2 },
      }),
      () => ({ op: 'resizeNearest', in: [x(0.1)], a: { size: [same, this.#whole(1, 9)] } }),
    ])();
  }
}
