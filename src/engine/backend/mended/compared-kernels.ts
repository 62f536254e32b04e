import {
  type Attributes,
  type Kernel,
  offsetOf,
  present,
  replaceKernel,
  sizeOf,
  type WasmContext,
} from '../wasm-context';
import { runsOf } from './broadcast-runs';

type Pairwise = (a: number, aStep: number, b: number, bStep: number, out: number, n: number) => void;

/**
 * Replaces kernels of tfjs that swallow NaN (maximum, minimum, clipByValue, relu6, prelu), take small numbers for 0 (sign),
 * compute int32 in float32 (abs, neg, floorDiv, pow), read the bits of int32 as float32 (isNaN and its like), or lose a large
 * divisor (mod).
 */
export function registerComparisons(context: WasmContext): void {
  const { maximum, minimum, prelu, sign } = context.kernels;
  replaceKernel('Maximum', () => pairwise(context, Math.max, maximum));
  replaceKernel('Minimum', () => pairwise(context, Math.min, minimum));
  replaceKernel('Mod', () => pairwise(context, remainder));
  replaceKernel('FloorDiv', (original) =>
    integersBy(
      pairwise(context, (a, b) => Math.floor(a / b)),
      original,
    ),
  );
  replaceKernel('Pow', (original) => integersBy(pairwise(context, integerPower), original));
  replaceKernel('Prelu', () => {
    const run = pairwise(context, (x, alpha) => (x > 0 ? x : Math.imul(x, alpha)), prelu);
    return ({ x, alpha }, attrs) => run({ a: present(x), b: present(alpha) }, attrs);
  });
  const clip = (attrs: Attributes) => [Number(attrs.clipValueMin), Number(attrs.clipValueMax)] as const;
  replaceKernel('ClipByValue', () => clamp(context, clip));
  replaceKernel('Relu6', () => clamp(context, () => [0, 6]));
  replaceKernel('Sign', () => unary(context, Math.sign, sign));
  for (const [name, compute] of Object.entries(INEXACT)) replaceKernel(name, () => unary(context, compute));
  for (const [name, compute] of Object.entries(INTEGER_FUNCTIONS))
    replaceKernel(name, (original) => integersBy(unary(context, compute), original));
  for (const [name, answer] of Object.entries(INTEGER_TESTS)) {
    replaceKernel(name, (original) =>
      integersBy(({ x }) => {
        const out = context.backend.makeOutput(present(x).shape, 'bool');
        context.backend.typedArrayFromHeap(out).fill(answer);
        return out;
      }, original),
    );
  }
}

/** Functions that tfjs computes inexactly for tiny or huge numbers. */
const INEXACT = { Selu: selu, Log1p: Math.log1p, Sin: Math.sin, Cos: Math.cos, Tan: Math.tan };

/** tfjs's difference of e^x and 1 has few digits near 0. Source: Klambauer et al. 2017. */
function selu(x: number): number {
  return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * Math.expm1(x));
}

const INTEGER_FUNCTIONS = { Abs: Math.abs, Neg: (x: number) => -x };
/** What whole numbers answer to a test of floats. */
const INTEGER_TESTS = { IsFinite: 1, IsInf: 0, IsNan: 0 };

/** Returns the remainder with the sign of the divisor, as torch.remainder. */
function remainder(a: number, b: number): number {
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
}

/** Returns base to the power of exponent modulo 2^32, as torch computes it; of a negative exponent, the truncated fraction. */
function integerPower(base: number, exponent: number): number {
  if (exponent < 0) return base === 1 || (base === -1 && exponent % 2 === 0) ? 1 : base === -1 ? -1 : 0;
  let [result, factor] = [1, base];
  for (let rest = exponent; rest > 0; rest >>>= 1) {
    if (rest % 2 === 1) result = Math.imul(result, factor);
    factor = Math.imul(factor, factor);
  }
  return result;
}

/** Returns a kernel that is `integers` if its first input is not float32, else tfjs's. */
function integersBy(integers: Kernel, original: Kernel | null): Kernel {
  return (inputs, attrs) => {
    const [first] = Object.values(inputs);
    return (present(first).dtype === 'float32' ? present(original) : integers)(inputs, attrs);
  };
}

/** Returns a kernel of two broadcast inputs; `floats` computes float32, if it is given. */
function pairwise(
  context: WasmContext,
  compute: (a: number, b: number) => number,
  floats?: Pairwise,
): Kernel {
  return ({ a, b }) => {
    const infos = [present(a), present(b)] as const;
    const { shape, length, aStep, bStep, all } = runsOf(infos[0].shape, infos[1].shape);
    const { backend } = context;
    const out = backend.makeOutput(shape, infos[0].dtype);
    if (!context.hasValues || length === 0) return out;
    if (floats !== undefined && out.dtype === 'float32') {
      const [from, by, to] = [
        offsetOf(context, infos[0]),
        offsetOf(context, infos[1]),
        offsetOf(context, out),
      ];
      for (const run of all) floats(from + 4 * run.a, aStep, by + 4 * run.b, bStep, to + 4 * run.out, length);
      return out;
    }
    const [from, by] = [backend.typedArrayFromHeap(infos[0]), backend.typedArrayFromHeap(infos[1])];
    const to = backend.typedArrayFromHeap(out);
    for (const run of all) {
      for (let i = 0; i < length; i++)
        to[run.out + i] = compute(from[run.a + i * aStep] as number, by[run.b + i * bStep] as number);
    }
    return out;
  };
}

/** Returns a kernel of one input; `floats` computes float32, if it is given. */
function unary(
  context: WasmContext,
  compute: (x: number) => number,
  floats?: (x: number, out: number, n: number) => void,
): Kernel {
  return ({ x }) => {
    const input = present(x);
    const out = context.backend.makeOutput(input.shape, input.dtype);
    if (!context.hasValues) return out;
    if (floats !== undefined && input.dtype === 'float32')
      floats(offsetOf(context, input), offsetOf(context, out), sizeOf(input.shape));
    else {
      const [from, to] = [context.backend.typedArrayFromHeap(input), context.backend.typedArrayFromHeap(out)];
      for (let i = 0; i < to.length; i++) to[i] = compute(from[i] as number);
    }
    return out;
  };
}

function clamp(context: WasmContext, limits: (attrs: Attributes) => readonly [number, number]): Kernel {
  return ({ x }, attrs) => {
    const [low, high] = limits(attrs);
    const floats = (from: number, out: number, n: number): void =>
      context.kernels.clamp(from, out, n, low, high);
    return unary(context, (value) => Math.min(high, Math.max(low, value)), floats)({ x: present(x) }, attrs);
  };
}
