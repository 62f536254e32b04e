import type { DType } from '../../core';
import type { KernelTensor } from './kernel-costs';
import type { FusedKernels } from './kernels/fused-kernels';

/** The types of the flat arrays that an in-place update reads and writes; all arrays have the same length. */
interface Update {
  readonly name: string;
  /** Index of the argument that is the number of elements. */
  readonly length: number;
  readonly reads: readonly DType[];
  readonly writes: readonly DType[];
}

const floats = (count: number): DType[] => Array<DType>(count).fill('float32');
/** Types of the two 8-bit moments; their scales are left out. */
const CODES: readonly DType[] = ['bool', 'bool'];

/** Index of adamW's argument for amsgrad's maxima; the argument is their byte offset, or 0 if there are none. */
const MAXIMA = 15;

const OPTIMIZERS = {
  adamW: { name: 'adamW', length: 4, reads: floats(4), writes: floats(3) },
  adamW8bit: {
    name: 'adamW8bit',
    length: 7,
    reads: [...floats(2), ...CODES],
    writes: [...floats(1), ...CODES],
  },
  lion: { name: 'lion', length: 3, reads: floats(3), writes: floats(2) },
  // If there is no momentum buffer, each list has one array less.
  sgd: { name: 'sgd', length: 3, reads: floats(3), writes: floats(2) },
} satisfies Partial<Record<keyof FusedKernels, Update>>;

/** Names of the updates of optimizers. */
export const OPTIMIZER_UPDATES: ReadonlySet<string> = new Set(
  Object.values(OPTIMIZERS).map(({ name }) => name),
);

const UPDATES: Readonly<Partial<Record<keyof FusedKernels, Update>>> = {
  addScaled: { name: 'addInto', length: 3, reads: floats(2), writes: floats(1) },
  scale: { name: 'scale', length: 2, reads: floats(1), writes: floats(1) },
  fill: { name: 'fill', length: 2, reads: [], writes: floats(1) },
  sumOfSquares: { name: 'sumOfSquares', length: 1, reads: floats(1), writes: [] },
  roundToBfloat16: { name: 'round', length: 1, reads: floats(1), writes: floats(1) },
  roundToFloat16: { name: 'round', length: 1, reads: floats(1), writes: floats(1) },
  ...OPTIMIZERS,
};

/** Advances the clock by the time of an update. */
export type ChargeUpdate = (
  name: string,
  reads: readonly KernelTensor[],
  writes: readonly KernelTensor[],
) => void;

/**
 * Returns the engine's kernels without values: sums are 0, no label or index is wrong (-1), and nothing is computed.
 */
export function metaKernelFunctions(charge: ChargeUpdate): FusedKernels {
  const functions = new Map<string, (...values: readonly number[]) => number>();
  const functionOf = (name: string): ((...values: readonly number[]) => number) => {
    const result = name === 'sumOfSquares' ? 0 : -1;
    const update = UPDATES[name as keyof FusedKernels]; // undefined if `name` is no update
    if (update === undefined) return () => result;
    return (...values) => {
      const shape = [values[update.length] ?? 0];
      const isWithoutBuffer = name === 'sgd' && values[2] === 0;
      const hasMaxima = name === 'adamW' && values[MAXIMA] !== 0;
      const describe = (dtypes: readonly DType[]): KernelTensor[] =>
        [...dtypes.slice(isWithoutBuffer ? 1 : 0), ...floats(hasMaxima ? 1 : 0)].map((dtype) => {
          return { shape, dtype, declared: undefined };
        });
      charge(update.name, describe(update.reads), describe(update.writes));
      return result;
    };
  };
  // Every member of FusedKernels is a function of numbers, like the results of functionOf.
  return new Proxy({} as FusedKernels, {
    get: (_, name) => {
      const known = functions.get(String(name)) ?? functionOf(String(name));
      functions.set(String(name), known);
      return known;
    },
  });
}
