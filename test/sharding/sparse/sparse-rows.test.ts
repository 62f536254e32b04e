import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as fc from 'fast-check';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { moe } from '../../../src/nn/models/gpt';
import { maskWords, rowTables, touchedRows } from '../../../src/sharding/sparse/row-masks';
import { piecesOfRows, slicePieces, touchedRanges } from '../../../src/sharding/sparse/row-pieces';
import type { Piece } from '../../../src/wire/dist/types';
import { testEngine } from '../../support/wasm-test-engine';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

test('a row counts as touched if one of its values is not zero', () => {
  const grad = tf.tensor2d([
    [0, 0],
    [0, 1e-30],
    [0, 0],
    [Number.NaN, 0],
  ]);
  assert.deepEqual([...touchedRows(engine, grad, 4)], [0, 1, 0, 1]);
  assert.deepEqual([...touchedRows(engine, grad, 1)], [1]);
  assert.deepEqual([...touchedRows(engine, null, 3)], [0, 0, 0]);
  grad.dispose();
});

test('neighbouring touched rows are sent as one piece, directly from their tensor', () => {
  const tensor = tf.zeros([6, 3]);
  const pieces = piecesOfRows(tensor, Uint8Array.of(1, 1, 0, 0, 1, 0));
  assert.deepEqual(
    pieces.map((piece) => ('tensor' in piece ? [piece.offset, piece.length] : [])),
    [
      [0, 6],
      [12, 3],
    ],
  );
  tensor.dispose();
});

test('flags of 1,000 rows take 400 bytes between 4 ranks, and 10 bits each between 1,000 ranks', () => {
  assert.equal(4 * maskWords(1000, 4), 400);
  assert.equal(maskWords(1000, 1), 33);
  assert.equal(maskWords(9, 1000), 3);
});

test('slices of pieces are the elements of the ranges, whatever the pieces are', () => {
  const tensor = tf.zeros([100]);
  const list = fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 9 })), { maxLength: 9 });
  fc.assert(
    fc.property(list, fc.array(fc.boolean(), { minLength: 81, maxLength: 81 }), (parts, flags) => {
      let offset = 0;
      const pieces = parts.map(([isPadding, length]): Piece => {
        const piece = isPadding ? { padding: length } : { tensor, offset, length };
        offset += length + 1;
        return piece;
      });
      const total = parts.reduce((sum, [, length]) => sum + length, 0);
      const mask = Uint8Array.from(flags.slice(0, total), Number);
      const elements = spread(pieces).filter((_, i) => mask[i] === 1);
      assert.deepEqual(spread(slicePieces(pieces, touchedRanges(mask, 1))), elements);
    }),
    { seed: 4, numRuns: 300 },
  );
  tensor.dispose();
});

/** Each element's index in the tensor; -1 for padding. */
function spread(pieces: readonly Piece[]): number[] {
  return pieces.flatMap((piece) =>
    'padding' in piece
      ? new Array<number>(piece.padding).fill(-1)
      : Array.from({ length: piece.length }, (_, i) => piece.offset + i),
  );
}

test("embedding tables are sparse by rows, experts' parameters as a whole, and others not at all", () => {
  const model = moe({ layers: 1, dim: 8, heads: 2, vocab: 32, seq: 4, experts: 2 });
  const found = rowTables(model).map(({ parameter, rows }) => `${parameter.name} ${rows}`);
  const expert = (i: number): string[] =>
    ['fc1.weight', 'fc1.bias', 'fc2.weight', 'fc2.bias'].map((name) => `blocks.0.moe.experts.${i}.${name} 1`);
  assert.deepEqual(found.sort(), ['wte.weight 32', 'wpe.weight 4', ...expert(0), ...expert(1)].sort());
  model.dispose();
});
