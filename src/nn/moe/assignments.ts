/** The indices of each expert's rows, in ascending order. */
export type RowsByExpert = readonly (readonly number[])[];

/** The scores of all pairs of row and expert, row by row. */
export interface ScoreTable {
  readonly values: ArrayLike<number>;
  readonly experts: number;
}

/** Sends every row to the `k` experts with the highest scores; if scores are equal, the first expert's score counts as higher. */
export function topExperts({ values, experts }: ScoreTable, k: number): number[][] {
  const rowsOf: number[][] = Array.from({ length: experts }, () => []);
  const order = Array.from({ length: experts }, (_, expert) => expert);
  for (let row = 0; row * experts < values.length; row++) {
    for (const expert of largest(order, k, (i) => values[row * experts + i] ?? 0)) rowsOf[expert]?.push(row);
  }
  return rowsOf;
}

/** Gives every expert its `k` rows with the highest scores; if scores are equal, the first row's score counts as higher. */
export function topRows({ values, experts }: ScoreTable, k: number): number[][] {
  const rows = Array.from({ length: values.length / experts }, (_, row) => row);
  return Array.from({ length: experts }, (_, expert) =>
    largest(rows, k, (row) => values[row * experts + expert] ?? 0).sort((a, b) => a - b),
  );
}

/** Returns the first `capacity` rows of each expert, without its other rows. If `capacity` is null, returns all rows. */
export function withinCapacity(rowsOf: RowsByExpert, capacity: number | null): RowsByExpert {
  return capacity === null ? rowsOf : rowsOf.map((rows) => rows.slice(0, capacity));
}

/**
 * Returns the scores that a dry run assumes. With these scores, `topExperts` spreads rows evenly: row i goes to the experts i·k
 * to i·k + k − 1, modulo the number of experts. See [Note: values in a dry run].
 */
export function evenScores(rows: number, experts: number, k: number): Float32Array {
  const scores = new Float32Array(rows * experts);
  for (let i = 0; i < rows * k; i++) scores[Math.floor(i / k) * experts + (i % experts)] = 1;
  return scores;
}

function largest(indices: readonly number[], k: number, scoreOf: (index: number) => number): number[] {
  return [...indices].sort((a, b) => scoreOf(b) - scoreOf(a) || a - b).slice(0, k);
}
