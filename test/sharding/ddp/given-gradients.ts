/** Parameters of the tests of compression, and their gradients: those of test/data/power_sgd_reference.py. */
export const SHAPES = { a: [8, 6], b: [5, 7], c: [7], d: [3, 2] } as const;
export const STEPS = 5;

/** Returns the gradient of parameter number `number` on a rank, as float32. */
export function gradientOf(rank: number, step: number, number: number, size: number): Float32Array {
  return Float32Array.from(
    { length: size },
    (_, i) => Math.sin(0.7 * i + 1.3 * step + 2.1 * rank + number) + 0.1 * Math.cos(i * i + rank),
  );
}
