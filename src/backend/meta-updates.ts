import type { DType } from '../core/dtypes';
import type { KernelTensor } from './kernel-costs';
import type { FusedKernels } from './kernels/fused-kernels';

/** The arrays that an in-place update reads and writes: the number of flat arrays per type, all of the same length. */
interface Update {
  readonly name: string;
  /** Index of the number of elements among the arguments. */
  readonly length: number;
  readonly reads: readonly DType[];
  readonly writes: readonly DType[];
}

const FLOAT = 'float32';
/** The type of an 8-bit moment, without its scales. */
const CODE = 'bool';

const UPDATES: Readonly<Partial<Record<keyof FusedKernels, Update>>> = {
  addScaled: { name: 'addInto', length: 3, reads: [FLOAT, FLOAT], writes: [FLOAT] },
  scale: { name: 'scale', length: 2, reads: [FLOAT], writes: [FLOAT] },
  fill: { name: 'fill', length: 2, reads: [], writes: [FLOAT] },
  sumOfSquares: { name: 'sumOfSquares', length: 1, reads: [FLOAT], writes: [] },
  roundToBfloat16: { name: 'round', length: 1, reads: [FLOAT], writes: [FLOAT] },
  roundToFloat16: { name: 'round', length: 1, reads: [FLOAT], writes: [FLOAT] },
  adamW: {
    name: 'adamW',
    length: 4,
    reads: [FLOAT, FLOAT, FLOAT, FLOAT],
    writes: [FLOAT, FLOAT, FLOAT],
  },
  adamW8bit: {
    name: 'adamW8bit',
    length: 7,
    reads: [FLOAT, FLOAT, CODE, CODE],
    writes: [FLOAT, CODE, CODE],
  },
  // The momentum buffer is omitted if there is none.
  sgd: { name: 'sgd', length: 3, reads: [FLOAT, FLOAT, FLOAT], writes: [FLOAT, FLOAT] },
};

/** Gets an update, and lets its time pass. */
export type ChargeUpdate = (
  name: string,
  reads: readonly KernelTensor[],
  writes: readonly KernelTensor[],
) => void;

/**
 * The engine's kernels without values: sums are 0, no label or index is wrong (-1: no row), and nothing else happens.
 */
export function metaKernelFunctions(charge: ChargeUpdate): FusedKernels {
  const functions = new Map<string, (...values: readonly number[]) => number>();
  const functionOf = (name: string): ((...values: readonly number[]) => number) => {
    const result = name === 'sumOfSquares' ? 0 : -1;
    const update = UPDATES[name as keyof FusedKernels]; // undefined for unknown names
    if (update === undefined) return () => result;
    return (...values) => {
      const shape = [values[update.length] ?? 0];
      const isWithoutBuffer = name === 'sgd' && values[2] === 0;
      const told = (dtypes: readonly DType[]): KernelTensor[] =>
        dtypes.slice(isWithoutBuffer ? 1 : 0).map((dtype) => ({ shape, dtype, declared: undefined }));
      charge(update.name, told(update.reads), told(update.writes));
      return result;
    };
  };
  // Every member of the interface is such a function.
  return new Proxy({} as FusedKernels, {
    get: (_, name) => {
      const known = functions.get(String(name)) ?? functionOf(String(name));
      functions.set(String(name), known);
      return known;
    },
  });
}
