import { CHANNELS } from './image';

/** A picture of three bytes per pixel, row by row: red, green, blue. */
export interface Frame {
  readonly rows: number;
  readonly columns: number;
  readonly pixels: Uint8Array;
}

/**
 * Scales a picture until it covers `rows` x `columns` pixels, and cuts out its middle. Source: DiffSynth-Studio's
 * ImageCropAndResize (torchvision's resize and center_crop), which gives the same bytes.
 */
export function cropAndResize(frame: Frame, rows: number, columns: number): Frame {
  const scale = Math.max(columns / frame.columns, rows / frame.rows);
  const wide = weighted(frame.pixels, {
    ...{ numLines: frame.rows, ...middleOf(frame.columns, columns, scale) },
    ...{ lineStep: [frame.columns * CHANNELS, columns * CHANNELS], step: [CHANNELS, CHANNELS] },
  });
  const step = columns * CHANNELS;
  const pixels = weighted(wide, {
    ...{ numLines: columns, ...middleOf(frame.rows, rows, scale) },
    ...{ lineStep: [CHANNELS, CHANNELS], step: [step, step] },
  });
  return { rows, columns, pixels };
}

/** Returns which of a line's scaled pixels are the `to` pixels of its middle. */
function middleOf(
  from: number,
  to: number,
  scale: number,
): Pick<Lines, 'from' | 'scaled' | 'skipped' | 'to'> {
  const scaled = roundHalfEven(from * scale);
  return { from, scaled, skipped: roundHalfEven((scaled - to) / 2), to };
}

/** Rounds as Python's round does: a half goes to the even neighbour. */
function roundHalfEven(value: number): number {
  const below = Math.floor(value);
  if (value - below !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

/** How lines of pixels are scaled. Of each pair, the first number is for the source, the second for the result. */
interface Lines {
  readonly numLines: number;
  /** Number of pixels of a line: in the source, when it is scaled, that are left out before its middle, and in the result. */
  readonly from: number;
  readonly scaled: number;
  readonly skipped: number;
  readonly to: number;
  /** Bytes from a line to the next. */
  readonly lineStep: readonly [number, number];
  /** Bytes from a pixel of a line to the next. */
  readonly step: readonly [number, number];
}

/** Weights are whole multiples of 2^-22. Source: Pillow's PRECISION_BITS. */
const ONE = 2 ** 22;

/** Scales lines. Source: Pillow's Image.resize with BILINEAR, which gives the same bytes. */
function weighted(source: Uint8Array, lines: Lines): Uint8Array {
  const { numLines, from, scaled, skipped, to, lineStep, step } = lines;
  const result = new Uint8Array(numLines * to * CHANNELS);
  for (let at = 0; at < to; at++) {
    const { first, weights } = weightsAt(at + skipped, from, scaled);
    for (let line = 0; line < numLines; line++) {
      const start = line * lineStep[0] + first * step[0];
      const target = line * lineStep[1] + at * step[1];
      for (let channel = 0; channel < CHANNELS; channel++) {
        let sum = ONE / 2;
        for (let i = 0; i < weights.length; i++)
          sum += (weights[i] ?? 0) * (source[start + i * step[0] + channel] ?? 0);
        result[target + channel] = Math.min(255, Math.floor(sum / ONE));
      }
    }
  }
  return result;
}

/** Returns the weights of the source's pixels in a pixel of the result: a triangle around its middle, as wide as the scale. */
function weightsAt(
  at: number,
  from: number,
  to: number,
): { readonly first: number; readonly weights: number[] } {
  const scale = from / to;
  const width = Math.max(1, scale);
  const middle = (at + 0.5) * scale;
  const first = Math.max(0, Math.trunc(middle - width + 0.5));
  const end = Math.min(from, Math.trunc(middle + width + 0.5));
  const heights = Array.from({ length: end - first }, (_, i) =>
    Math.max(0, 1 - Math.abs((i + first - middle + 0.5) / width)),
  );
  const sum = heights.reduce((all, height) => all + height, 0);
  return { first, weights: heights.map((height) => Math.trunc(0.5 + (height / sum) * ONE)) };
}
