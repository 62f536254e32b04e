/** Moves a simplex downhill from the origin; `step` is its first edge. Source: Nelder and Mead 1965. */
export function nelderMead(
  cost: (at: readonly number[]) => number,
  size: number,
  { step, rounds }: { readonly step: number; readonly rounds: number },
): readonly number[] {
  const corner = (edge: number): number[] => Array.from({ length: size }, (_, i) => (i === edge ? step : 0));
  let simplex = Array.from({ length: size + 1 }, (_, i) => scored(cost, corner(i - 1)));
  for (let round = 0; round < rounds; round++) {
    simplex.sort((a, b) => a.cost - b.cost);
    simplex = moved(cost, simplex);
  }
  return simplex.reduce((a, b) => (b.cost < a.cost ? b : a)).at;
}

interface Corner {
  readonly at: readonly number[];
  readonly cost: number;
}

function scored(cost: (at: readonly number[]) => number, at: readonly number[]): Corner {
  return { at, cost: cost(at) };
}

/** One round over corners from best to worst. */
function moved(cost: (at: readonly number[]) => number, simplex: readonly Corner[]): Corner[] {
  const kept = simplex.slice(0, -1);
  const [best, worst, next] = [simplex[0], simplex.at(-1), kept.at(-1)];
  if (best === undefined || worst === undefined || next === undefined) return [...simplex];
  const middle = worst.at.map((_, i) => kept.reduce((sum, { at }) => sum + (at[i] ?? 0), 0) / kept.length);
  const along = (share: number): Corner =>
    scored(
      cost,
      middle.map((value, i) => value + share * ((worst.at[i] ?? 0) - value)),
    );
  const reflected = along(-1);
  if (reflected.cost < best.cost) {
    const further = along(-2);
    return [...kept, further.cost < reflected.cost ? further : reflected];
  }
  if (reflected.cost < next.cost) return [...kept, reflected];
  const nearer = along(0.5);
  if (nearer.cost < worst.cost) return [...kept, nearer];
  return [
    best,
    ...simplex.slice(1).map(({ at }) =>
      scored(
        cost,
        at.map((value, i) => (value + (best.at[i] ?? 0)) / 2),
      ),
    ),
  ];
}
