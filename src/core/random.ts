/** A seeded generator of random numbers: the same seed gives the same sequence on every machine. */
export interface Random {
  /** Returns a uniform number in [0, 1). */
  uniform(): number;
  /** Returns a standard normal number (Box-Muller). */
  normal(): number;
  /** Returns a uniform integer in [0, bound). */
  integer(bound: number): number;
  /** Skips `count` uniform numbers; a normal number uses two. */
  skip(count: number): void;
}

/**
 * Returns a generator for a seed and any number of stream labels; different labels give independent streams.
 * Source: sfc32 (C. Doty-Humphrey, PractRand), seeded by splitmix32 over the labels' characters.
 */
export function seeded(seed: number, ...labels: readonly (string | number)[]): Random {
  let [a, b, c, counter] = initialState(seed, labels);
  const next = (): number => {
    const t = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + t;
    c |= 0;
    return t >>> 0;
  };
  for (let i = 0; i < 12; i++) next();
  const uniform = (): number => next() / 2 ** 32;
  return {
    uniform,
    normal: () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()),
    integer: (bound) => Math.floor(uniform() * bound),
    skip(count) {
      for (let i = 0; i < count; i++) next();
    },
  };
}

function initialState(seed: number, labels: readonly (string | number)[]): [number, number, number, number] {
  let state = seed | 0;
  const mix = (): number => {
    state = (state + 0x9e3779b9) | 0;
    let z = state ^ (state >>> 16);
    z = Math.imul(z, 0x21f0aaad);
    z ^= z >>> 15;
    z = Math.imul(z, 0x735a2d97);
    return z ^ (z >>> 15);
  };
  for (const character of labels.join('\u0000')) {
    state ^= character.codePointAt(0) ?? 0;
    state = mix();
  }
  return [mix(), mix(), mix(), 1];
}
