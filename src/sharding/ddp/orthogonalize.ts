import type { Random } from '../../core';

/**
 * Makes the columns of a matrix orthonormal, in place (modified Gram-Schmidt, in float64). A column that is zero, or that depends
 * exactly on earlier columns, is replaced by a random direction, so that no direction is lost for later steps.
 * Shapes: matrix [rows, columns], row-major, columns ≤ rows. Source: torch's powerSGD_hook, _orthogonalize, which divides by
 * zero for such a column.
 */
export function orthogonalize(matrix: Float32Array, columns: number, random: Random): void {
  const rows = matrix.length / columns;
  const before: Float64Array[] = [];
  for (let column = 0; column < columns; column++) {
    const values = Float64Array.from({ length: rows }, (_, row) => matrix[row * columns + column] ?? 0);
    while (!normalized(values, before)) for (let i = 0; i < rows; i++) values[i] = random.normal();
    before.push(values);
    values.forEach((value, row) => {
      matrix[row * columns + column] = value;
    });
  }
}

/**
 * Makes a vector orthogonal to unit vectors and divides the result by its norm, in place. Returns false if the result is zero;
 * the caller then replaces the vector. A vector with infinity or NaN is not replaced.
 */
function normalized(values: Float64Array, unit: readonly Float64Array[]): boolean {
  for (const unitVector of unit) {
    const along = dot(values, unitVector);
    for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) - along * (unitVector[i] ?? 0);
  }
  const norm = Math.sqrt(dot(values, values));
  if (norm === 0) return false;
  for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) / norm;
  return true;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] ?? 0) * (b[i] ?? 0);
  return sum;
}
