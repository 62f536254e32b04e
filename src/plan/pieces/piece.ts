import type { TracePoint } from './step-trace';

/** What differs between configs that share a piece: layers beyond the first run's, sequences beyond one, one over the ranks. */
export interface Extent {
  readonly layers: number;
  readonly batch: number;
  readonly share: number;
}

/** Dry runs at the corners that a piece is made of; null where that extent does not vary. */
export interface Corners {
  readonly base: readonly TracePoint[];
  readonly layer: readonly TracePoint[] | null;
  readonly batch: readonly TracePoint[];
  readonly share: readonly TracePoint[] | null;
  readonly layerBatch: readonly TracePoint[] | null;
  readonly layerShare: readonly TracePoint[] | null;
}

/** Shares at which a piece's runs are made: at two and at four ranks. */
export const BASE_SHARE = 1 / 2;
export const OTHER_SHARE = 1 / 4;

/** Bytes as a sum of products of extents: 1, layers, batch, share, layers × batch, layers × share. */
type Terms = readonly [number, number, number, number, number, number];

interface Moment {
  readonly total: Terms;
  readonly causes: readonly Terms[];
}

/**
 * The moments of a step whose bytes are known at every extent.
 *
 * [Note: pieces] Further layers of a kind repeat one layer's events, so what is held at a moment of the first or last layers
 * grows by the same bytes with each layer between them; activations are proportional to the batch, and shards of evenly
 * divisible tensors to one over the ranks. A moment's bytes are therefore a sum of products of the three, found exactly from
 * six dry runs of few layers. Of moments in between, none exceeds both its neighbours' layers.
 */
export class Piece {
  readonly #moments: readonly Moment[];

  private constructor(moments: readonly Moment[]) {
    this.#moments = moments;
  }

  /** null where the runs are not the same moments in the same order, so that nothing can be said between them. */
  static of(corners: Corners): Piece | null {
    const { base } = corners;
    const others = [corners.layer, corners.batch, corners.share, corners.layerBatch, corners.layerShare];
    if (others.some((other) => other !== null && !isAligned(base, other))) return null;
    const moments = base.map((point, at): Moment => {
      const causes = point.bytes.map((bytes, cause) => termsOf(bytes, corners, at, cause));
      return { causes, total: sumOf(causes) };
    });
    return new Piece(highest(moments));
  }

  /** Most that is held, and by what. */
  peak(extent: Extent): { readonly bytes: number; readonly byCause: readonly number[] } {
    let bytes = -1;
    let most: Moment | undefined;
    for (const moment of this.#moments) {
      const here = valueAt(moment.total, extent);
      if (here > bytes) {
        bytes = here;
        most = moment;
      }
    }
    const byCause = (most?.causes ?? []).map((terms) => Math.round(valueAt(terms, extent)));
    return { bytes: Math.round(bytes), byCause };
  }
}

function isAligned(a: readonly TracePoint[], b: readonly TracePoint[]): boolean {
  return a.length === b.length && a.every(({ label }, at) => label === b[at]?.label);
}

function termsOf(base: number, corners: Corners, at: number, cause: number): Terms {
  const bytes = (points: readonly TracePoint[] | null): number => points?.[at]?.bytes[cause] ?? base;
  const layer = bytes(corners.layer) - base;
  const batch = bytes(corners.batch) - base;
  const perShare = (difference: number): number => difference / (OTHER_SHARE - BASE_SHARE);
  const share = perShare(bytes(corners.share) - base);
  const layerBatch = corners.layerBatch === null ? 0 : bytes(corners.layerBatch) - base - layer - batch;
  const layerShare =
    corners.layerShare === null
      ? 0
      : perShare(bytes(corners.layerShare) - base - layer - (bytes(corners.share) - base));
  return [base - share * BASE_SHARE, layer - layerShare * BASE_SHARE, batch, share, layerBatch, layerShare];
}

function sumOf(causes: readonly Terms[]): Terms {
  const sum = (term: number): number => causes.reduce((total, terms) => total + (terms[term] ?? 0), 0);
  return [sum(0), sum(1), sum(2), sum(3), sum(4), sum(5)];
}

function valueAt(terms: Terms, { layers, batch, share }: Extent): number {
  return (
    terms[0] +
    terms[1] * layers +
    terms[2] * batch +
    terms[3] * share +
    terms[4] * layers * batch +
    terms[5] * layers * share
  );
}

/** Those that no other one reaches at every extent; of equal ones the first. */
function highest(moments: readonly Moment[]): Moment[] {
  const kept: Moment[] = [];
  for (const moment of moments) {
    if (kept.some(({ total }) => reaches(total, moment.total))) continue;
    const left = kept.filter(({ total }) => !reaches(moment.total, total));
    kept.splice(0, kept.length, ...left, moment);
  }
  return kept;
}

/** No extent is negative, so it is enough to compare term by term. */
function reaches(a: Terms, b: Terms): boolean {
  return a.every((value, term) => value >= (b[term] ?? 0));
}
