import type * as tf from '../../core/tf';
import { readValues } from '../../engine';
import { fromBegin, type PositionRange } from '../positions';

/**
 * Computes one number per row: the seed of the row's noise.
 *
 * [Note: noise by row] A gate's noise must be the same when backward runs forward again. It must not depend on how rows are
 * distributed over ranks and microbatches; otherwise sharded training could not be compared with unsharded training. So the
 * noise is not drawn from a sequence; it is a function of seed, gate and row.
 */
export type RowKeys = (x_ND: tf.Tensor) => Uint32Array;

/** Computes keys from all bits of the rows' values. */
export const valueKeys: RowKeys = (x_ND) => {
  const [rows = 0, width = 1] = x_ND.shape;
  const values = readValues(x_ND, () => new Float32Array(x_ND.size));
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  return Uint32Array.from({ length: rows }, (_, row) => {
    let key = 0;
    for (let i = row * width; i < (row + 1) * width; i++) key = mixed(key ^ (bits[i] ?? 0));
    return key;
  });
};

/** Computes a row's key from its token and all earlier tokens, so that rounding of rows does not change the key. */
export class TokenKeys {
  #keys = new Uint32Array(0);

  /** Sets the tokens of the next rows: the tokens at these positions, in the order of the ranges. Shapes: ids [B, T] int32. */
  read(ids_BT: tf.Tensor, positions?: readonly PositionRange[]): void {
    const [batch = 0, seq = 0] = ids_BT.shape;
    const ids = readValues(ids_BT, () => new Int32Array(ids_BT.size));
    const keys = new Uint32Array(batch * seq);
    for (let sequence = 0; sequence < batch; sequence++) {
      let key = 0;
      for (let i = sequence * seq; i < (sequence + 1) * seq; i++) {
        key = mixed(key ^ (ids[i] ?? 0));
        keys[i] = key;
      }
    }
    const rows = Array.from({ length: batch }, (_, sequence) => sequence * seq);
    const own = positions ?? fromBegin(seq);
    this.#keys = Uint32Array.from(
      rows.flatMap((row) =>
        own.flatMap(({ start, length }) => [...keys.subarray(row + start, row + start + length)]),
      ),
    );
  }

  /** Returns the keys of B·T rows; for another number of rows, computes the keys from the rows' values. */
  readonly of: RowKeys = (x_ND) => (x_ND.shape[0] === this.#keys.length ? this.#keys : valueKeys(x_ND));
}

/** Hashes a value: each bit of the result depends on all bits of the value. Source: splitmix32. */
export function mixed(value: number): number {
  let z = (value + 0x9e3779b9) | 0;
  z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return (z ^ (z >>> 15)) >>> 0;
}
