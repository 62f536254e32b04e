/** A matrix as a list of rows. */
type Matrix = readonly (readonly number[])[];

/** Two rows of d = 2, and a layer from d to 4d and back. All values are integers, so that sums are exact. */
const X: Matrix = [
  [1, -2],
  [3, 4],
];
const UP: Matrix = [
  [1, 0, -1, 2, 3, -2, 1, 1],
  [2, 1, 0, -1, 1, 2, -3, 0],
];
const DOWN: Matrix = (UP[0] ?? []).map((_, i) => UP.map((row) => (row[i] ?? 0) + i));

/** The halves of a layer that is split by columns and then by rows, on two ranks. */
const HALVES = [0, 1].map((rank) => {
  const up = multiply(
    X,
    UP.map((row) => row.slice(4 * rank, 4 * rank + 4)),
  );
  return { up, out: multiply(relu(up), DOWN.slice(4 * rank, 4 * rank + 4)) };
});

/**
 * Returns the largest difference between a whole output and the output of two ranks. The outputs of a split by columns are
 * concatenated; those of a split by rows are summed.
 */
export function differenceOfParts(split: 'columns' | 'rows'): number {
  const [first, second] = HALVES as [(typeof HALVES)[number], (typeof HALVES)[number]]; // two ranks
  if (split === 'rows') {
    return difference(
      multiply(relu(multiply(X, UP)), DOWN),
      combined(first.out, second.out, (a, b) => a.map((each, i) => each + (b[i] ?? 0))),
    );
  }
  return difference(
    multiply(X, UP),
    combined(first.up, second.up, (a, b) => [...a, ...b]),
  );
}

function combined(
  a: Matrix,
  b: Matrix,
  rows: (a: readonly number[], b: readonly number[]) => readonly number[],
): Matrix {
  return a.map((row, i) => rows(row, b[i] ?? []));
}

function difference(a: Matrix, b: Matrix): number {
  return Math.max(
    ...a.flatMap((row, i) => row.map((value, j) => Math.abs(value - (b[i]?.[j] ?? Number.NaN)))),
  );
}

function multiply(a: Matrix, b: Matrix): Matrix {
  return a.map((row) =>
    (b[0] ?? []).map((_, j) => row.reduce((total, value, k) => total + value * (b[k]?.[j] ?? 0), 0)),
  );
}

function relu(a: Matrix): Matrix {
  return a.map((row) => row.map((value) => Math.max(0, value)));
}
