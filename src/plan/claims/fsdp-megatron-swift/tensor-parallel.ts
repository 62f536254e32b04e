import { ConfigError } from '../../../core/errors';
import { layoutOf } from '../../layout-of';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr } from '../finding';
import { changeCell } from '../plan-cell';

/** A matrix as a list of rows. */
type Matrix = readonly (readonly number[])[];

/** Two rows of d = 2, d to 4d and back; integers, so that sums are exact. */
const X: Matrix = [
  [1, -2],
  [3, 4],
];
const UP: Matrix = [
  [1, 0, -1, 2, 3, -2, 1, 1],
  [2, 1, 0, -1, 1, 2, -3, 0],
];
const DOWN: Matrix = UP.map((row) => [...row]).reduce<number[][]>(
  (columns, row) => row.map((value, i) => [...(columns[i] ?? []), value + i]),
  [],
);

/** The whole layer's output, and the outputs of the two halves into which tensor parallelism splits it. */
const WHOLE = multiply(relu(multiply(X, UP)), DOWN);
const HALVES = [0, 1].map((rank) => {
  const up = UP.map((row) => row.slice(4 * rank, 4 * rank + 4));
  const down = DOWN.slice(4 * rank, 4 * rank + 4);
  return { up: multiply(X, up), out: multiply(relu(multiply(X, up)), down) };
});

const SPLIT_CELL = `const outputs = [[1, 2], [0, 1], [-1, 0], [2, -1]].map(([a = 0, b = 0]) => 3 * a + 4 * b); // a column of weights each
({ whole: outputs, ofTwoRanks: [outputs.slice(0, 2), outputs.slice(2)] })`;

const ROW_CELL = `const products = [3 * 1, 4 * 0, -1 * -1, 2 * 2]; // inputs times weights, for one output
const [whole, ...ofTwoRanks] = [products, products.slice(0, 2), products.slice(2)].map((terms) => terms.reduce((sum, term) => sum + term));
({ whole, ofTwoRanks })`;

const FUSED: PlanRequestInput = {
  model: 'gpt2-xl',
  hardware: 'A100-80G',
  gpus: 8,
  parallel: { strategy: 'NO_SHARD', stack: 'fsdp2' },
  batch: { global: 32, micro: 4 },
  compile: true,
};

/** How a layer is split, what is reduced, what is fused, and what cannot be split. */
export const SWIFT_TENSOR_PARALLEL: readonly ClaimEntry[] = [
  {
    claim: claimOf('swift.tp.linear'),
    expected: { verdict: 'holds' },
    check: () => ({
      verdict: holdsOr(equal(sum(HALVES.map(({ out }) => out)), WHOLE), 'off'),
      unit: null,
      by: '',
      why:
        'The first matrix is split by columns, the second by rows: each rank applies the activation to its own part, and the partial outputs add ' +
        'up to the whole output, exactly for integers. This needs one all-reduce in forward and one in backward. In Megatron both layers also need config and init_method.',
      evidence: { kind: 'formula', source: ROW_CELL },
    }),
  },
  {
    claim: claimOf('swift.tp.column_allreduce'),
    expected: { verdict: 'off' },
    check() {
      const [left, right] = HALVES.map(({ up }) => up) as [Matrix, Matrix]; // two halves
      const isJoined = equal(
        left.map((row, i) => [...row, ...(right[i] ?? [])]),
        multiply(X, UP),
      );
      return {
        verdict: holdsOr(!isJoined, 'off'),
        unit: null,
        by: 'the parts are concatenated: by an all-gather, or not at all',
        why:
          'Each rank has different columns of the output, which a sum would mix. They are gathered, or stay separate because a row split ' +
          "follows. The all-reduce of a column split is in backward and sums the input's gradient.",
        evidence: { kind: 'formula', source: SPLIT_CELL },
      };
    },
  },
  {
    claim: claimOf('swift.tp.row'),
    expected: { verdict: 'off' },
    check: () => ({
      verdict: holdsOr(!equal(sum(HALVES.map(({ out }) => out)), WHOLE), 'off'),
      unit: null,
      by: 'it reduces outputs, in forward',
      why:
        'Each rank multiplies its slice of the input by its rows; an all-reduce sums the partial outputs. Backward needs no all-reduce, because ' +
        'each rank has the whole gradient of the sum.',
      evidence: { kind: 'formula', source: ROW_CELL },
    }),
  },
  {
    claim: claimOf('swift.tp.fused'),
    expected: { verdict: 'holds', value: -14, within: 4 },
    check(lab) {
      const [fused, eager] = [lab.predict(FUSED), lab.predict({ ...FUSED, compile: false })].map(
        ({ time }) => time.computeByCause.elementwise,
      ) as [number, number]; // two predictions
      const change = 100 * (fused / eager - 1);
      return {
        verdict: holdsOr(change < -5, 'off'),
        predicted: change,
        unit: '% of element-wise time',
        by: '',
        why:
          'The time of such operations depends on their bytes. After fusion a value is read and written once, not once per operation: the ' +
          'arithmetic is the same, with fewer bytes. Matmuls, which take most of the time, do not change.',
        evidence: {
          kind: 'prediction',
          source: changeCell(
            FUSED,
            { ...FUSED, compile: false },
            'prediction.time.computeByCause.elementwise',
          ),
        },
      };
    },
  },
  {
    claim: claimOf('swift.limit.tp'),
    expected: { verdict: 'holds', value: 5, within: 0 },
    check() {
      const legal = [2, 3, 4, 5, 6, 7, 8].filter((tp) => isLegal(tp));
      return {
        verdict: holdsOr(legal.length < 7, 'off'),
        predicted: legal[0] ?? 0,
        unit: 'is the smallest degree that divides GPT-2 XL',
        by: '',
        why:
          'Each head is on one rank, so the degree must divide the number of heads: GPT-2 XL has 25, which 2, 4 and 8 do not divide. ' +
          'Attention that mixes heads (talking heads) needs communication inside of it.',
        evidence: { kind: 'formula', source: '[2, 3, 4, 5, 6, 7, 8].find((tp) => 25 % tp === 0)' },
      };
    },
  },
];

function isLegal(tp: number): boolean {
  try {
    layoutOf({ model: 'gpt2-xl', gpus: tp, gpusPerNode: tp, parallel: { tp, strategy: 'NO_SHARD' } });
    return true;
  } catch (error) {
    if (error instanceof ConfigError) return false;
    throw error;
  }
}

function multiply(a: Matrix, b: Matrix): Matrix {
  return a.map((row) =>
    (b[0] ?? []).map((_, j) => row.reduce((total, value, k) => total + value * (b[k]?.[j] ?? 0), 0)),
  );
}

function relu(a: Matrix): Matrix {
  return a.map((row) => row.map((value) => Math.max(0, value)));
}

function sum(parts: readonly Matrix[]): Matrix {
  return parts.reduce((total, part) =>
    total.map((row, i) => row.map((value, j) => value + (part[i]?.[j] ?? 0))),
  );
}

function equal(a: Matrix, b: Matrix): boolean {
  return a.length === b.length && a.every((row, i) => row.every((value, j) => value === b[i]?.[j]));
}
