import * as tf from '../../../../src/core/tf';
import * as F from '../../../../src/nn/names/functional-names';
import { LAYER_CALLS } from './layer-calls';
import { callModule, type ModuleArguments } from './module-calls';
import { STRUCTURE_CALLS, type StructureArguments } from './structure-calls';

/** The arguments of a row besides its inputs. */
export interface CallArguments extends Omit<StructureArguments, 'axis'>, ModuleArguments {
  readonly axis: number | number[] | null;
  readonly keep: boolean;
  readonly exclusive: boolean;
  readonly reverse: boolean;
  readonly low: number;
  readonly high: number;
  readonly to: 'f' | 'i' | 'b';
}

export type Call = (inputs: readonly tf.Tensor[], args: CallArguments) => tf.Tensor | readonly tf.Tensor[];

const DTYPES = { f: 'float32', i: 'int32', b: 'bool' } as const;

/** The operations of tfjs that take one tensor, by their names in rows. */
const UNARY =
  'abs acos acosh asin asinh atan atanh ceil cos cosh elu erf exp expm1 floor isFinite isInf isNaN leakyRelu log log1p neg onesLike ' +
  'reciprocal relu relu6 round rsqrt selu sigmoid sign sin sinh softplus sqrt square step tan tanh zerosLike logicalNot';
const BINARY =
  'add sub mul div maximum minimum pow mod floorDiv squaredDifference atan2 equal notEqual less lessEqual greater greaterEqual logicalAnd ' +
  'logicalOr logicalXor bitwiseAnd prelu';
const REDUCTIONS = 'sum mean max min prod logSumExp';

type Operation = (...given: unknown[]) => tf.Tensor;

function operation(name: string): Operation {
  const found: unknown = Reflect.get(tf, name);
  if (typeof found !== 'function') throw new Error(`there is no tf.${name}`);
  return found as Operation; // rows give each operation its own arguments
}

function named(names: string, call: (run: Operation) => Call): Record<string, Call> {
  return Object.fromEntries(names.split(' ').map((name) => [name, call(operation(name))]));
}

const axisOf = ({ axis }: CallArguments): number | number[] | undefined => axis ?? undefined;

/** This engine's counterpart of each operation of the rows. */
const CALLS: Readonly<Record<string, Call>> = {
  ...Object.fromEntries(
    Object.entries({ ...STRUCTURE_CALLS, ...LAYER_CALLS }).map(([name, call]): [string, Call] => [
      name,
      (inputs, args) => call([...inputs], { ...args, axis: args.axis as number }),
    ]),
  ),
  ...named(
    UNARY,
    (run) =>
      ([x]) =>
        run(x),
  ),
  ...named(
    BINARY,
    (run) =>
      ([a, b]) =>
        run(a, b),
  ),
  ...named(
    REDUCTIONS,
    (run) =>
      ([x], args) =>
        run(x, axisOf(args), args.keep),
  ),
  clip: ([x], { low, high }) => tf.clipByValue(given(x), low, high),
  cast: ([x], { to }) => tf.cast(given(x), DTYPES[to]),
  where: ([condition, a, b]) => tf.where(given(condition), given(a), given(b)),
  norm: ([x], args) => tf.norm(given(x), 'euclidean', axisOf(args), args.keep),
  moments: ([x], args) => {
    const { mean, variance } = tf.moments(given(x), axisOf(args), args.keep);
    return [mean, variance];
  },
  variance: ([x], args) => tf.moments(given(x), axisOf(args), args.keep).variance,
  detach: ([x]) => given(x).detach(),
  'F.gelu': ([x]) => F.gelu(given(x)),
  'F.geluTanh': ([x]) => F.gelu(given(x), { approximate: 'tanh' }),
  'F.silu': ([x]) => F.silu(given(x)),
  'F.mish': ([x]) => F.mish(given(x)),
  'F.logSigmoid': ([x]) => F.logSigmoid(given(x)),
  'F.softplus': ([x]) => F.softplus(given(x)),
  'F.elu': ([x]) => F.elu(given(x)),
  'F.normalize': ([x]) =>
    F.normalize(tf.reshape(given(x), [-1, given(x).size % 3 === 0 ? 3 : 1]), { dim: -1 }),
  ...named(
    'all any',
    (run) =>
      ([x], args) =>
        run(x, axisOf(args)),
  ),
  ...named(
    'argMax argMin softmax logSoftmax',
    (run) =>
      ([x], { axis }) =>
        run(x, axis),
  ),
  ...named(
    'cumsum cumprod',
    (run) =>
      ([x], { axis, exclusive, reverse }) =>
        run(x, axis, exclusive, reverse),
  ),
};

/** Returns this engine's counterpart of an operation of the rows. Throws if there is none. */
export function callOf(op: string): Call {
  if (op.startsWith('nn.')) return (inputs, args) => callModule(op.slice('nn.'.length), inputs, args);
  return given(CALLS[op], `there is no call named ${op}`);
}

function given<T>(value: T | undefined, problem = 'a row has fewer inputs than its operation takes'): T {
  if (value === undefined) throw new Error(problem);
  return value;
}
