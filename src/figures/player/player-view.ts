import { sumOf } from '../../core';
import { byteScale, type Scaled } from '../format';
import {
  CAUSE_FILL,
  COMM_FILL,
  type Fill,
  inkOn,
  type Pattern,
  PHASE_FILL,
  STACK_ORDER,
  WAIT_FILLS,
} from '../grammar/palette';
import { describePoint, KIND_WORDS, POINT_KINDS, type PointKind, positionText } from './point-words';
import type { SourcePlace, WalkedPoint, WalkPosition, WalkRecord } from './walk-record';

/** The fill of each kind of point: a collective has the colour of what it carries, and work has the colour of its phase. */
export const KIND_FILL: Readonly<Record<PointKind, Fill>> = {
  data: PHASE_FILL.data,
  gather: COMM_FILL.param,
  forward: PHASE_FILL.forward,
  loss: PHASE_FILL.loss,
  recompute: PHASE_FILL.recompute,
  backward: PHASE_FILL.backward,
  reduce: COMM_FILL.grad,
  reshard: CAUSE_FILL['param.shard'],
  optimizer: PHASE_FILL.optimizer,
  send: COMM_FILL.activation,
  collective: COMM_FILL.user,
};

/** The fill of a rank that waits within a point for other ranks. */
export const WAITING_FILL: Fill = WAIT_FILLS.peer;

/** A name of a legend with its fill as the value of CSS's property `background`. */
interface Swatch {
  readonly name: string;
  readonly css: string;
}

/** A row of the tree of modules. */
export interface ModuleRow {
  /** The full name; '' is the whole model. */
  readonly name: string;
  /** The last part of the name. */
  readonly label: string;
  readonly depth: number;
}

/** The range of points that a rank has passed, from `from` and below `to`, within which a module's parameters are whole. */
export interface WholeRange {
  readonly row: number;
  readonly from: number;
  readonly to: number;
}

export interface ViewedPoint {
  /** Index in the view's `kinds`. */
  readonly kind: number;
  /** Index in the view's `texts`: the point's short name. */
  readonly label: number;
  /** The rows of the tree that the point names. */
  readonly rows: readonly number[];
  /** Index in the view's `places`; null if no place is known. */
  readonly place: number | null;
  /** Bytes in the order of the view's `causes`. */
  readonly bytes: readonly number[];
}

export interface ViewedPosition extends Pick<WalkPosition, 'numReached' | 'state'> {
  /** Index in the view's `texts`: the sentence that says where the rank stands, without its first words "rank 0". */
  readonly sentence: number;
}

/** What a player shows of a walk: plain JSON with all words and colours, so that the code in the page only draws. */
export interface PlayerView {
  readonly title: string;
  readonly kinds: readonly Swatch[];
  readonly waiting: Swatch;
  readonly causes: readonly (Swatch & { readonly ink: string })[];
  readonly scale: Scaled;
  /** The most bytes that any rank holds at any of its points, with the first such rank. */
  readonly most: { readonly bytes: number; readonly rank: number };
  /** For each rank, its points in order. */
  readonly points: readonly (readonly ViewedPoint[])[];
  /** For each round, the positions of all ranks. */
  readonly rounds: readonly (readonly ViewedPosition[])[];
  readonly modules: readonly ModuleRow[];
  /** For each rank, where modules are whole; null if no point unshards parameters, so nothing is known. */
  readonly whole: readonly (readonly WholeRange[])[] | null;
  readonly places: readonly SourcePlace[];
  readonly texts: readonly string[];
  /** The marks of the tree: a rank has a module's whole parameters, or a shard of them. */
  readonly marks: { readonly whole: string; readonly shard: string };
}

/** Computes what a player shows of a walk. */
export function playerView(record: WalkRecord): PlayerView {
  const texts = new TextTable();
  const all = record.points.flat();
  const kinds = POINT_KINDS.filter((kind) => all.some(({ point }) => describePoint(point).kind === kind));
  const order = STACK_ORDER.map((cause) => record.causes.indexOf(cause)).filter((index) =>
    all.some(({ bytes }) => (bytes[index] ?? 0) > 0),
  );
  const modules = moduleRows(record.modules);
  const totals = record.points.map((points) =>
    Math.max(0, ...points.map(({ bytes }) => sumOf(bytes, Number))),
  );
  const most = Math.max(0, ...totals);
  const viewed = ({ point, bytes, place }: WalkedPoint): ViewedPoint => {
    const { kind, label } = describePoint(point);
    return {
      kind: kinds.indexOf(kind),
      label: texts.indexOf(label),
      rows: rowsOf(point.module, modules),
      place,
      bytes: order.map((index) => bytes[index] ?? 0),
    };
  };
  return {
    title: record.title,
    kinds: kinds.map((kind) => ({ name: KIND_WORDS[kind], css: cssOf(KIND_FILL[kind]) })),
    waiting: { name: 'waits for other ranks', css: cssOf(WAITING_FILL) },
    causes: order.flatMap((index) => {
      const cause = record.causes[index];
      if (cause === undefined) return [];
      return [{ name: cause, css: cssOf(CAUSE_FILL[cause]), ink: inkOn(CAUSE_FILL[cause]) }];
    }),
    scale: byteScale(most),
    most: { bytes: most, rank: Math.max(0, totals.indexOf(most)) },
    points: record.points.map((points) => points.map(viewed)),
    rounds: record.rounds.map((positions) =>
      positions.map((position, rank) => ({
        numReached: position.numReached,
        state: position.state,
        sentence: texts.indexOf(positionText(position, reachedPoint(record, rank, position))),
      })),
    ),
    modules,
    whole: wholeRanges(record, modules),
    places: record.places,
    texts: texts.texts,
    marks: { whole: cssOf(CAUSE_FILL['param.full']), shard: cssOf(CAUSE_FILL['param.shard']) },
  };
}

/** Returns the point at which a rank stands; undefined before its first point. */
export function reachedPoint(
  { points }: WalkRecord,
  rank: number,
  { numReached }: WalkPosition,
): WalkedPoint | undefined {
  return points[rank]?.[numReached - 1];
}

/** The number of points that a rank has passed: it has not passed the point before or within which it stands. */
export function numPassed({ numReached, state }: Pick<WalkPosition, 'numReached' | 'state'>): number {
  return state === 'ended' ? numReached : Math.max(0, numReached - 1);
}

/** A view as pages get it: each point and each position is in a table once, because ranks often do the same. */
export interface PackedView extends Omit<PlayerView, 'points' | 'rounds'> {
  readonly steps: readonly ViewedPoint[];
  readonly stands: readonly ViewedPosition[];
  /** As in the view, with indices in `steps`. */
  readonly points: readonly (readonly number[])[];
  /** As in the view, with indices in `stands`. */
  readonly rounds: readonly (readonly number[])[];
}

/** Packs a view; the page unpacks it. */
export function packedView(view: PlayerView): PackedView {
  const [steps, stands] = [new TextTable(), new TextTable()];
  const indices = (table: TextTable, rows: readonly (readonly object[])[]) =>
    rows.map((row) => row.map((value) => table.indexOf(JSON.stringify(value))));
  const points = indices(steps, view.points);
  const rounds = indices(stands, view.rounds);
  // The texts are JSON of these types.
  return {
    ...view,
    points,
    rounds,
    steps: steps.texts.map((text) => JSON.parse(text) as ViewedPoint),
    stands: stands.texts.map((text) => JSON.parse(text) as ViewedPosition),
  };
}

/** Texts, each once. */
class TextTable {
  readonly texts: string[] = [];
  readonly #indices = new Map<string, number>();

  indexOf(text: string): number {
    const known = this.#indices.get(text);
    if (known !== undefined) return known;
    this.#indices.set(text, this.texts.length);
    return this.texts.push(text) - 1;
  }
}

/** A unit of several modules has all their names. */
function partsOf(module: string): readonly string[] {
  return module.split(', ');
}

/** Returns the tree of modules in the order of their first appearance, each below its parent. */
export function moduleRows(modules: readonly string[]): readonly ModuleRow[] {
  const children = new Map<string, string[]>();
  const known = new Set<string>(['']);
  const add = (name: string): void => {
    if (known.has(name)) return;
    known.add(name);
    const parent = parentOf(name);
    add(parent);
    children.set(parent, [...(children.get(parent) ?? []), name]);
  };
  for (const name of modules.flatMap(partsOf)) add(name);
  const below = (name: string, depth: number): ModuleRow[] => [
    { name, label: name === '' ? 'the whole model' : name.slice(name.lastIndexOf('.') + 1), depth },
    ...(children.get(name) ?? []).flatMap((child) => below(child, depth + 1)),
  ];
  return below('', 0);
}

function parentOf(name: string): string {
  const dot = name.lastIndexOf('.');
  return dot < 0 ? '' : name.slice(0, dot);
}

function rowsOf(module: string, rows: readonly ModuleRow[]): readonly number[] {
  return partsOf(module).flatMap((part) => {
    const index = rows.findIndex(({ name }) => name === part);
    return index < 0 ? [] : [index];
  });
}

/**
 * Returns where modules are whole: after a rank has passed a unit's all-gather of parameters, until it has passed the unit's
 * reshard. A unit whose first such point is a reshard was whole at the walk's begin.
 */
function wholeRanges(record: WalkRecord, rows: readonly ModuleRow[]): PlayerView['whole'] {
  let isKnown = false;
  const ranges = record.points.map((points) => {
    const since = new Map<number, number | null>();
    const closed: WholeRange[] = [];
    points.forEach(({ point }, index) => {
      const { kind } = describePoint(point);
      if (kind !== 'reshard' && (kind !== 'gather' || point.name !== 'allGather')) return;
      isKnown = true;
      for (const row of rowsOf(point.module, rows)) {
        const from = since.has(row) ? since.get(row) : kind === 'reshard' ? 0 : null;
        if (kind === 'reshard') {
          if (from !== null && from !== undefined) closed.push({ row, from, to: index + 1 });
          since.set(row, null);
        } else if (from === null || from === undefined) since.set(row, index + 1);
      }
    });
    const open = [...since].flatMap(([row, from]) =>
      from === null ? [] : [{ row, from, to: Number.MAX_SAFE_INTEGER }],
    );
    return [...closed, ...open];
  });
  return isKnown ? ranges : null;
}

/** Returns a fill as the value of CSS's property `background`. */
export function cssOf({ color, pattern }: Fill): string {
  return pattern === undefined || pattern.shape === '' ? color : `${hatches(pattern)}, ${color}`;
}

/** Returns a hatch as CSS gradients, whose lines have the distances of the pattern in pictures. */
function hatches({ shape, size, fgcolor }: Pattern): string {
  const line = (degrees: number, distance: number): string =>
    `repeating-linear-gradient(${degrees}deg, ${fgcolor} 0 1px, transparent 1px ${distance}px)`;
  const diagonal = Math.round((size / Math.SQRT2) * 10) / 10;
  switch (shape) {
    case '':
      return 'none';
    case '/':
      return line(-45, diagonal);
    case '\\':
      return line(45, diagonal);
    case 'x':
      return `${line(45, diagonal)}, ${line(-45, diagonal)}`;
    case '-':
      return line(0, size);
    case '+':
      return `${line(0, size)}, ${line(90, size)}`;
    case '.':
      return `radial-gradient(${fgcolor} 1px, transparent 1.4px) 0 0 / ${size}px ${size}px`;
    default:
      return shape satisfies never;
  }
}
