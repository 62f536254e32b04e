import type * as tf from '../../core/tf';
import type { Piece, PieceList } from '../../wire';
import type { RowMask } from './row-masks';

/** The elements [start, start + length) of a tensor or a list of pieces. */
export interface ElementRange {
  readonly start: number;
  readonly length: number;
}

/** Returns the touched rows of [from, to) as ranges of elements, relative to row `from`; adjacent rows are one range. */
export function touchedRanges(mask: RowMask, width: number, from = 0, to = mask.length): ElementRange[] {
  const ranges: ElementRange[] = [];
  for (let row = from; row < to; ) {
    if (mask[row] === 0) {
      row++;
      continue;
    }
    const first = row;
    while (row < to && mask[row] !== 0) row++;
    ranges.push({ start: (first - from) * width, length: (row - first) * width });
  }
  return ranges;
}

/** Returns the touched rows of a tensor [rows, …] as pieces of the tensor itself. */
export function piecesOfRows(tensor: tf.Tensor, mask: RowMask): Piece[] {
  const width = tensor.size / mask.length;
  return touchedRanges(mask, width).map(({ start, length }) => ({ tensor, offset: start, length }));
}

/** Returns the parts of a list of pieces that are in the ranges; ranges must ascend and must not overlap. */
export function slicePieces(pieces: PieceList, ranges: readonly ElementRange[]): Piece[] {
  const sliced: Piece[] = [];
  let at = 0;
  let next = 0;
  for (const piece of pieces) {
    const length = 'padding' in piece ? piece.padding : piece.length;
    for (; next < ranges.length; next++) {
      const range = ranges[next];
      if (range === undefined || range.start >= at + length) break;
      const from = Math.max(at, range.start);
      const to = Math.min(at + length, range.start + range.length);
      if (to > from) sliced.push(part(piece, from - at, to - from));
      // The rest of the range continues in the next piece.
      if (range.start + range.length > at + length) break;
    }
    at += length;
  }
  return sliced;
}

function part(piece: Piece, offset: number, length: number): Piece {
  return 'padding' in piece
    ? { padding: length }
    : { tensor: piece.tensor, offset: piece.offset + offset, length };
}
