import { seeded } from '../../src/core/random';

export const DIM = 6;
/** Rows of one rank's batch. */
export const ROWS = 3;
export const STEPS = 3;

/** The rows of `count` ranks from `first` on, in one batch. */
export function rowsOf(step: number, first: number, count: number): { x: Float32Array; y: Float32Array } {
  const random = seeded(11, 'tuple', step);
  random.skip(2 * first * ROWS * (DIM + 1));
  const rows = Array.from({ length: count * ROWS }, () => {
    return { x: Array.from({ length: DIM }, () => random.normal()), y: random.normal() };
  });
  return { x: Float32Array.from(rows.flatMap(({ x }) => x)), y: Float32Array.from(rows.map(({ y }) => y)) };
}
