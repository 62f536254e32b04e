import { MEMORY_CAUSES } from '../../core';
import type { SourcePlace, WalkedPoint, WalkPosition, WalkRecord } from '../../figures';
import type { Supervisor } from '../../launch';

type Reached = Parameters<NonNullable<Parameters<Supervisor['run']>[2]['reached']>>[1];

/** What the ranks of a walk have reached, and where they stood in each round. */
export class WalkedPoints {
  readonly #title: string;
  readonly #points: WalkedPoint[][];
  readonly #rounds: (readonly WalkPosition[])[] = [];
  readonly #places: SourcePlace[] = [];
  /** The index of each place in `#places`. */
  readonly #placeOf = new Map<string, number>();

  constructor(title: string, numRanks: number) {
    this.#title = title;
    this.#points = Array.from({ length: numRanks }, () => []);
  }

  /** The number of points that each rank has reached. */
  get numReached(): readonly number[] {
    return this.#points.map(({ length }) => length);
  }

  /** The newest point of each rank; undefined before the first. */
  get newest(): readonly (WalkedPoint | undefined)[] {
    return this.#points.map((points) => points.at(-1));
  }

  /** The positions in the newest round. */
  get positions(): readonly WalkPosition[] {
    return this.#rounds.at(-1) ?? [];
  }

  add(index: number, { point, bytes, place }: Reached): void {
    this.#points[index]?.push({ point, bytes, place: place === null ? null : this.#indexOf(place) });
  }

  endRound(positions: readonly WalkPosition[]): void {
    this.#rounds.push(positions);
  }

  record(): WalkRecord {
    const modules = this.#points.flatMap((points) => points.map(({ point }) => point.module));
    return {
      title: this.#title,
      causes: MEMORY_CAUSES,
      modules: [...new Set(modules)],
      places: [...this.#places],
      points: this.#points.map((points) => [...points]),
      rounds: [...this.#rounds],
    };
  }

  #indexOf(place: SourcePlace): number {
    const known = this.#placeOf.get(place.title);
    if (known !== undefined) return known;
    this.#placeOf.set(place.title, this.#places.length);
    return this.#places.push(place) - 1;
  }
}
