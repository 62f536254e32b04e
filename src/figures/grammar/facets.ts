/** Where one of a grid's panels stand: shares of the picture's width and height. */
export interface Facet {
  readonly across: readonly [number, number];
  /** Pixels of its width. */
  readonly pixels: number;
  readonly isLeft: boolean;
  /** Whether nothing of its column lies below. */
  readonly isLow: boolean;
  /** The share of the height at this number of pixels below the facet's heading. */
  at(pixels: number): number;
  /** A domain between two such places. */
  down(from: number, to: number): readonly [number, number];
}

export interface FacetSizes {
  readonly width: number;
  readonly heading: number;
  readonly body: number;
  /** Between lines of facets. */
  readonly between: number;
  /** Between columns, a share of the width. */
  readonly gap: number;
}

const MAX_COLUMNS = 4;

/** A grid of `count` equal facets, four in a line; `pixels` high together. */
export function facets(count: number, { width, heading, body, between, gap }: FacetSizes) {
  const columns = Math.min(count, MAX_COLUMNS);
  const lines = Math.ceil(count / columns);
  const pixels = lines * (heading + body) + (lines - 1) * between;
  const share = (1 - (columns - 1) * gap) / columns;
  const all = Array.from({ length: count }, (_, index): Facet => {
    const column = index % columns;
    const top = Math.floor(index / columns) * (heading + body + between) + heading;
    const left = column * (share + gap);
    const at = (below: number): number => Math.max(0, 1 - (top + below) / pixels);
    return {
      across: [left, Math.min(1, left + share)],
      pixels: share * width,
      isLeft: column === 0,
      isLow: index + columns >= count,
      at,
      down: (from, to) => [at(to), at(from)],
    };
  });
  return { pixels, all };
}
