import type { ExpertPlacement, LayerPlacement } from '../../config';
import { ConfigError, isWhole } from '../../core';
import type { ModelParallel } from '../../wire';
import { type ExpertLoads, sumCounts } from './balance-experts';

/** Options of `placeExperts`. */
export interface PlacementOptions {
  /** The number of copies per layer, over all ranks of an `ep` group; the number of ranks must divide it. Default 0. */
  readonly redundantExperts?: number | undefined;
}

/** The number of rows of each expert, by layer. */
export type MeasuredLoads = Readonly<Record<string, readonly number[]>>;

/**
 * Places a model's experts by the loads of all ranks, so that the ranks of an `ep` group compute about equally many rows. Every
 * rank must call this function, with the loads that `balanceExperts` returned, and gets the same result. Throws: CONFIG for a
 * number of copies that the ranks do not divide.
 */
export function placeExperts(
  loads: ExpertLoads,
  { ep, dpCp, pp }: Pick<ModelParallel, 'ep' | 'dpCp' | 'pp'>,
  options: PlacementOptions = {},
): ExpertPlacement {
  const entries = Object.entries(loads);
  const own = entries.flatMap(([, { tokens }]) => tokens);
  // Ranks of other stages have other layers.
  const all = own.length === 0 ? [] : [dpCp, pp].reduce<readonly number[]>(sumCounts, own);
  let end = 0;
  const summed = entries.map(([layer, { tokens }]) => {
    end += tokens.length;
    return [layer, all.slice(end - tokens.length, end)];
  });
  return placementByUse(Object.fromEntries(summed), ep.size, options);
}

/**
 * Returns the experts and the copies of experts that each of `ranks` ranks gets, by measured loads. The expert with the most
 * rows per copy gets the next copy. Then experts and copies are placed, from the most used to the least used. Each goes to the
 * rank that has the fewest rows among the ranks with a free slot (Graham 1969, longest processing time first). Both steps are
 * as in DeepSeek's EPLB. An expert's rows are divided equally over its ranks. Throws: CONFIG for a number of copies that the
 * ranks do not divide or have no room for.
 */
export function placementByUse(
  loads: MeasuredLoads,
  ranks: number,
  { redundantExperts = 0 }: PlacementOptions = {},
): ExpertPlacement {
  return Object.fromEntries(
    Object.entries(loads).map(([layer, rows]) => {
      requireCopies(redundantExperts, rows.length, ranks);
      return [layer, placedLayer(rows, ranks, redundantExperts / ranks)];
    }),
  );
}

function requireCopies(redundantExperts: number, numExperts: number, ranks: number): void {
  const most = numExperts * (ranks - 1);
  if (isWhole(redundantExperts, 0) && redundantExperts % ranks === 0 && redundantExperts <= most) return;
  throw new ConfigError(
    `redundantExperts is ${redundantExperts}, but must be a multiple of ${ranks}, the number of ranks that share the experts, and at most ${most}: ` +
      'all ranks have equally many copies, and no rank has an expert twice',
    { redundantExperts, ranks, experts: numExperts },
  );
}

function placedLayer(rows: readonly number[], ranks: number, numCopies: number): LayerPlacement {
  const packed = pack(rows, ranks, copyCounts(rows, ranks, numCopies * ranks));
  if (packed !== null && numCopies === 0) return { ...packed, copies: [] };
  const filled = fill(rows, ranks, numCopies);
  return packed !== null && unevenness(rows, packed) <= unevenness(rows, filled) ? packed : filled;
}

/** Returns the number of copies of each expert. Each next copy goes to the expert with the most rows per rank. */
function copyCounts(rows: readonly number[], ranks: number, numCopies: number): number[] {
  const counts = rows.map(() => 0);
  const experts = rows.map((_, expert) => expert);
  for (let i = 0; i < numCopies; i++) {
    const free = experts.filter((expert) => (counts[expert] ?? 0) < ranks - 1);
    const next = smallest(free, (expert) => -(rows[expert] ?? 0) / ((counts[expert] ?? 0) + 1));
    counts[next] = (counts[next] ?? 0) + 1;
  }
  return counts;
}

/** Packs experts and their copies; null if the only free slots are on ranks that already have the expert. */
function pack(rows: readonly number[], ranks: number, counts: readonly number[]): LayerPlacement | null {
  const numCopies = counts.reduce((all, count) => all + count, 0);
  const [experts, copies] = [rows.length, numCopies].map((slots) =>
    Array.from({ length: ranks }, () => ({ list: [] as number[], room: slots / ranks })),
  ) as [Slots[], Slots[]]; // one list of slots for experts, one for copies
  const loads = new Array<number>(ranks).fill(0);
  const weightOf = (expert: number): number => (rows[expert] ?? 0) / ((counts[expert] ?? 0) + 1);
  const order = rows.map((_, expert) => expert).sort((a, b) => weightOf(b) - weightOf(a) || a - b);
  for (const expert of order) {
    const has = (rank: number): boolean => [experts, copies].some((all) => all[rank]?.list.includes(expert));
    const freeIn = (all: readonly Slots[]): number[] =>
      all.flatMap(({ list, room }, rank) => (has(rank) || list.length >= room ? [] : rank));
    for (let item = 0; item <= (counts[expert] ?? 0); item++) {
      const home = experts.find(({ list }) => list.includes(expert));
      const own = home === undefined ? undefined : copies[experts.indexOf(home)];
      const direct = freeIn(home === undefined ? experts : copies);
      // If no rank can take the copy, the expert may move to a free slot, and the copy takes a slot of the expert's old
      // rank.
      const isMoved = direct.length === 0 && own !== undefined && own.list.length < own.room;
      const free = isMoved ? freeIn(experts) : direct;
      if (free.length === 0) return null;
      const rank = smallest(free, (each) => loads[each] ?? 0);
      if (isMoved) {
        home?.list.splice(home.list.indexOf(expert), 1);
        own.list.push(expert);
      }
      (home === undefined || isMoved ? experts : copies)[rank]?.list.push(expert);
      loads[rank] = (loads[rank] ?? 0) + weightOf(expert);
    }
  }
  const listsOf = (all: readonly Slots[]): number[][] => all.map(({ list }) => ascending(list));
  return { experts: listsOf(experts), copies: listsOf(copies) };
}

/** The experts (or copies) that a rank has, and the number that it has room for. */
interface Slots {
  readonly list: number[];
  readonly room: number;
}

/**
 * Packs experts, then fills the slots of copies one by one so that ranks stay as even as possible. A rank with a free slot
 * always lacks at least one expert.
 */
function fill(rows: readonly number[], ranks: number, numCopies: number): LayerPlacement {
  const experts =
    pack(
      rows,
      ranks,
      rows.map(() => 0),
    )?.experts ?? [];
  const copies: number[][] = experts.map(() => []);
  for (let slot = 0; slot < numCopies * ranks; slot++) {
    const next = bestCopy(rows, { experts, copies }, numCopies);
    copies[next.rank]?.push(next.expert);
  }
  return { experts, copies: copies.map(ascending) };
}

interface Copy {
  readonly expert: number;
  readonly rank: number;
}

function bestCopy(rows: readonly number[], placement: LayerPlacement, numCopies: number): Copy {
  const { experts, copies } = placement;
  const candidates = experts.flatMap((_, rank) => {
    const there = [...(experts[rank] ?? []), ...(copies[rank] ?? [])];
    if ((copies[rank]?.length ?? 0) === numCopies) return [];
    return rows.flatMap((__, expert) => (there.includes(expert) ? [] : { expert, rank }));
  });
  return smallest(candidates, ({ expert, rank }) => {
    const more = copies.map((list, each) => (each === rank ? [...list, expert] : list));
    return unevenness(rows, { experts, copies: more });
  });
}

/** Returns the sum of squares of the ranks' rows, which is smallest if all are equal. */
function unevenness(rows: readonly number[], placement: LayerPlacement): number {
  return rankLoads(rows, placement).reduce((sum, load) => sum + load * load, 0);
}

/** Returns the number of rows of each rank; an expert's rows are divided equally over the ranks that have the expert. */
export function rankLoads(rows: readonly number[], { experts, copies }: LayerPlacement): number[] {
  const lists = experts.map((own, rank) => [...own, ...(copies[rank] ?? [])]);
  const numRanks = new Array<number>(rows.length).fill(0);
  for (const expert of lists.flat()) numRanks[expert] = (numRanks[expert] ?? 0) + 1;
  return lists.map((list) =>
    list.reduce((sum, expert) => sum + (rows[expert] ?? 0) / (numRanks[expert] ?? 1), 0),
  );
}

/** Returns the first item with the smallest key. */
function smallest<T>(items: readonly T[], keyOf: (item: T) => number): T {
  const keys = items.map(keyOf);
  return items[keys.indexOf(Math.min(...keys))] as T; // callers give at least one item
}

function ascending(list: readonly number[]): number[] {
  return [...list].sort((a, b) => a - b);
}
