import { formatBytes, MEMORY_CAUSES } from '../../core';
import {
  type Column,
  createTable,
  runFigures,
  type SourcePlace,
  type Table,
  type WalkedPoint,
  type WalkPosition,
  type WalkRecord,
} from '../../figures';
import type { CallSink, Supervisor } from '../../launch';

type Reached = Parameters<NonNullable<CallSink['reached']>>[1];

type Situations = Awaited<ReturnType<Supervisor['statuses']>>;

/** A collective in which a rank waits. */
export type Waiting = NonNullable<NonNullable<ReturnType<Situations['get']>>['waiting']>;

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

  /** The number of rounds so far; the ranks' first halt is round 0. */
  get numRounds(): number {
    return Math.max(0, this.#rounds.length - 1);
  }

  add(index: number, { point, bytes, place }: Reached): void {
    this.#points[index]?.push({ point, bytes, place: place === null ? null : this.#indexOf(place) });
  }

  /**
   * Whether a rank has called the collective in which another rank waits. `isHalted` says whether it stands before its last point.
   * Calls that are no points, such as the exchange of sizes, have numbers of their group too.
   */
  hasCalled(index: number, { op, group, number, ranks }: Waiting, isHalted: boolean): boolean {
    const opposite = op === 'send' ? 'recv' : op === 'recv' ? 'send' : undefined;
    const points = this.#points[index] ?? [];
    return points.some(({ point: { name, collective } }, at) => {
      if (collective?.group !== group) return false;
      const isPair = name === 'send' || name === 'recv';
      const isSame = opposite === undefined ? !isPair : name === opposite && collective.peer === ranks[0];
      const isLast = isHalted && at === points.length - 1;
      return isSame && (isLast ? collective.number > number : collective.number >= number);
    });
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

const COLUMNS: readonly Column[] = [
  { key: 'rank' },
  { key: 'round' },
  { key: 'point', align: 'left' },
  { key: 'bytes', title: 'device', format: (bytes) => formatBytes(Number(bytes)) },
  { key: 'place', align: 'left' },
];

/** Returns a table of the points of a record. */
export function pointsTable({ title, points, places, rounds }: WalkRecord, ranks: readonly number[]): Table {
  const rows = points.flatMap((own, i) =>
    own.map(({ point, bytes, place }, at) => ({
      rank: ranks[i] ?? i,
      round: rounds.findIndex((positions) => (positions[i]?.numReached ?? 0) > at),
      point: runFigures.walk.describePoint(point).label,
      bytes: bytes.reduce((sum, held) => sum + held, 0),
      place: place === null ? null : (places[place]?.title ?? null),
    })),
  );
  return createTable(rows, { title, columns: COLUMNS });
}
