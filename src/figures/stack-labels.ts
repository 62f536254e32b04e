/** Moves labels apart so that neighbours are at least `gap` apart and none leaves [low, high]; order is kept. */
export function spread(wanted: readonly number[], gap: number, low: number, high: number): number[] {
  const places = [...wanted];
  for (let i = 0; i < places.length; i++) {
    const least = i === 0 ? low : (places[i - 1] ?? low) + gap;
    places[i] = Math.max(places[i] ?? low, least);
  }
  for (let i = places.length - 1; i >= 0; i--) {
    const most = i === places.length - 1 ? high : (places[i + 1] ?? high) - gap;
    places[i] = Math.min(places[i] ?? high, most);
  }
  return places;
}
