import { type Bytes, type CommCause, ConfigError, listed, sumOf } from '../core';
import type { CollectiveRecord, StepRecord } from '../ledger';
import { CAUSE_WORDS } from './comm-words';
import { createFigure, type Figure, quantity, type Title } from './figure';
import { byteScale, counted, inUnit, percent, type Scaled } from './format';
import { niceTicks, rowAxis, titled } from './grammar/axes';
import { plain, soft, strong, textWidth, unescaped, widestLabel } from './grammar/ink';
import { bars, dots, endLabel, note } from './grammar/marks';
import { CAUSE_FILL, type Fill, hatch, inkOn, NEUTRAL, NEUTRAL_FILL } from './grammar/palette';
import { type Panel, plot } from './grammar/plot';
import type { Annotation, MarkerSymbol } from './grammar/plotly';
import { nameOf, type RunView, recordsOfStep } from './run-view';
import { typicalStep } from './step-times';
import { createTable } from './table';

/** Options with which `comm({ as: 'traffic' })` draws bytes between ranks. */
export interface TrafficOptions {
  /** The step number. Default: the step nearest to the medians of the last steps. */
  readonly step?: number | undefined;
  /**
   * The number of ranks per machine, in rank order; bytes between machines are drawn separately. Default: the job's nodes, or all ranks if it
   * has none.
   */
  readonly ranksPerNode?: number | undefined;
}

/** Sizes in pixels, except two shares: `largest` is a share of a cell, `smallest` is a share of the largest mark. */
const SIZES = {
  matrix: 330,
  top: 98,
  right: 96,
  foot: 46,
  largest: 0.8,
  widest: 40,
  smallest: 0.3,
} as const;
/** Where the panels begin and end, as shares of the width. */
const SPLIT = { matrix: [0, 0.52], bars: [0.82, 1] } as const;
/** The height of a row of bars, as a share of the panels' height. */
const ROW_SHARE = 0.13;
/** The largest number of ranks for which the cells have numbers, and the largest for which every rank has a label. */
const MOST_WITH_NUMBERS = 8;
const MOST_NAMED = 16;
/** Axes with less than this share of the bytes are named, but not drawn in the matrix. */
const LEAST_SHARE = 0.001;

/**
 * Draws how many bytes each rank sends to each other rank in one step. The matrix has a mark per pair of ranks and axis of the
 * mesh; bars show the bytes per axis within and between machines. Throws: CONFIG without steps, if ranks are missing, or for a
 * wrong `ranksPerNode`.
 */
export function trafficMatrix(run: RunView, options: TrafficOptions = {}): Figure {
  const { step, ranksPerNode = run.ranksPerNode ?? run.world } = options;
  const records = recordsOfStep(run.records, step ?? typicalStep(run)[0]?.step);
  if (records.length < run.world) {
    throw new ConfigError(
      `traffic: only ${records.length} of ${run.world} ranks have records; give sl.plan(config, place, { count: true }) the option ranks: 'all'`,
    );
  }
  const traffic = trafficOf(records);
  const place = run.ranksPerNode === undefined ? 'machine' : 'node';
  const view = viewOf(traffic, run.world, { ranksPerNode, place });
  return createFigure({
    runName: nameOf(run),
    title: findingOf(view),
    subtitle: subtitleOf(run, view, records[0].step),
    ...plot(
      { top: SIZES.top, right: SIZES.right, foot: SIZES.foot, pixels: SIZES.matrix, left: leftOf(view) },
      view.axes.length === 0 ? [matrixPanel(view)] : [matrixPanel(view), axesPanel(view)],
    ),
    quantities: {
      outsideShare: quantity(view.outside * 100, '%', (share) => `${share} of the bytes leave a ${place}`),
      wireMB: quantity(
        view.total / run.world / 1e6,
        'MB',
        (mb) => `a rank receives ${mb} per step on average`,
      ),
    },
    table: createTable(
      traffic.flows.map(({ from, to, axis, bytes }) => ({
        from,
        to,
        axis,
        bytes,
        link: isInside(from, to, ranksPerNode) ? `within a ${place}` : `between ${place}s`,
      })),
    ),
  });
}

type View = ReturnType<typeof viewOf>;

function isInside(a: number, b: number, ranksPerNode: number): boolean {
  return Math.floor(a / ranksPerNode) === Math.floor(b / ranksPerNode);
}

/** Adds up the traffic by axis, the largest first. */
function viewOf(
  { flows, causes, coordinates }: Traffic,
  world: number,
  { ranksPerNode, place }: { readonly ranksPerNode: number; readonly place: 'machine' | 'node' },
) {
  const total = sumOf(flows, ({ bytes }) => bytes);
  const axes = [...new Set(flows.map(({ axis }) => axis))]
    .map((axis) => {
      const own = flows.filter((flow) => flow.axis === axis);
      const outside = sumOf(own, ({ from, to, bytes }) => (isInside(from, to, ranksPerNode) ? 0 : bytes));
      const bytes = sumOf(own, (flow) => flow.bytes);
      return {
        axis,
        style: styleOf(axis),
        flows: own,
        bytes,
        outside,
        share: bytes / total,
        carries: carriedText(causes.get(axis) ?? [], bytes),
      };
    })
    .sort((a, b) => b.bytes - a.bytes);
  const outside = total === 0 ? 0 : sumOf(axes, (axis) => axis.outside) / total;
  const largest = Math.max(0, ...flows.map(({ bytes }) => bytes));
  return {
    axes,
    total,
    outside,
    largest,
    /** The unit of the numbers in the matrix. */
    scale: byteScale(largest),
    coordinates,
    world,
    ranksPerNode,
    place,
    numNodes: Math.ceil(world / ranksPerNode),
  };
}

/**
 * Says what the bytes of an axis are for, as markup: 'parameters', or 'parameters 88%' with the other causes in a second line.
 * Causes with less than a hundredth of the bytes are left out.
 */
function carriedText(causes: readonly CausedBytes[], total: Bytes): string {
  const seen = causes.filter(({ bytes }, i) => i === 0 || bytes >= total / 100);
  const words = seen.map(({ cause, bytes }) => `${CAUSE_WORDS[cause]} ${percent(bytes / total)}`);
  const [first = '', ...rest] = words;
  if (rest.length === 0) return soft(CAUSE_WORDS[seen[0]?.cause ?? 'user']);
  return `${soft(`${first},`)}<br>${soft(rest.join(', '))}`;
}

function findingOf({ axes, total, outside, world, numNodes, place }: View): Title {
  const [most] = axes;
  if (most === undefined) return 'No bytes travelled between ranks';
  const isRing = axes.length === 1 && most.flows.length === world && numNodes === 1;
  if (isRing && most.flows.every(({ bytes }) => bytes === most.flows[0]?.bytes)) {
    const each = most.bytes / world;
    return [`Each rank receives ${inUnit(each, byteScale(each))}, all of it from one other rank`];
  }
  const who = most.axis === 'world' ? 'collectives of all ranks' : `${most.style.name} groups`;
  const carried = `${who} carry ${unescaped(percent(most.bytes / total))} of the bytes`;
  const sentence = `${carried[0]?.toUpperCase()}${carried.slice(1)}`;
  if (numNodes === 1) return [`${sentence}, all within one ${place}`, sentence];
  const share = unescaped(percent(outside));
  const leaving =
    outside === 0 ? 'No bytes leave' : `${outside < 0.2 ? 'Only ' : ''}${share} of the bytes leave`;
  return [
    `${leaving} a ${place}; ${carried}`,
    `${leaving} a ${place}; ${carried.replace(' of the bytes', '')}`,
    `${leaving} a ${place}`,
  ];
}

function subtitleOf(run: RunView, view: View, step: number): string {
  const hidden = view.axes.filter(({ share }) => share < LEAST_SHARE);
  const unit = run.world > MOST_WITH_NUMBERS ? 'bytes' : view.scale.unit;
  const first = `Step ${step} of ${counted(run.world, 'rank')}: ${unit} from a rank (row) to a rank (column), by the ring algorithm.`;
  const second = [
    ...(view.numNodes === 1
      ? []
      : [
          `Dashed: ${view.place}s of ${counted(view.ranksPerNode, 'rank')}; hatched: bytes between ${view.place}s.`,
        ]),
    ...(run.note === undefined || view.place === 'node'
      ? []
      : [`${counted(run.world, 'rank')}, ${run.note}.`]),
    ...(hidden.length === 0
      ? []
      : [`Not drawn: ${listed(hidden.map(({ style, carries }) => `${style.name} (${carries})`))}.`]),
  ];
  return second.length === 0 ? first : `${first}<br>${second.join(' ')}`;
}

function matrixPanel(view: View): Panel {
  const { axes, world, ranksPerNode, numNodes, largest, scale } = view;
  const drawn = axes.filter(({ share }) => share >= LEAST_SHARE);
  const cell = SIZES.matrix / world;
  const sizeOf = (bytes: Bytes): number =>
    Math.round(
      Math.max(
        4,
        Math.min(SIZES.widest, cell * SIZES.largest) * Math.max(SIZES.smallest, Math.sqrt(bytes / largest)),
      ),
    );
  const labelled = Array.from({ length: world }, (_, rank) => rank).filter(
    (rank) => rank % Math.ceil(world / MOST_NAMED) === 0,
  );
  const axis = { showgrid: false, ticks: '', tickvals: labelled } as const;
  return {
    x: {
      domain: SPLIT.matrix,
      range: [-0.5, world - 0.5],
      ...axis,
      ticktext: labelled.map(String),
      ...titled('to rank', 4),
    },
    y: {
      range: [world - 0.5, -0.5],
      ...axis,
      ticktext: labelled.map((rank) => rankName(view, rank)),
      ...titled('from rank', 4),
    },
    data: drawn.flatMap(({ style, flows }) => marksOf(style, flows, sizeOf)),
    shapes: Array.from({ length: numNodes === 1 ? 0 : numNodes }, (_, node) => {
      const low = node * ranksPerNode - 0.5;
      const high = Math.min(world, (node + 1) * ranksPerNode) - 0.5;
      return {
        type: 'rect',
        x0: low,
        x1: high,
        y0: low,
        y1: high,
        line: { width: 1.2, color: NEUTRAL, dash: 'dash' },
      };
    }),
    annotations: world > MOST_WITH_NUMBERS ? [] : numbersOf(drawn, scale, { sizeOf, cell }),
  };
}

/** Returns the width, in pixels, of the room for the ranks' names. */
function leftOf(view: View): number {
  const names = Array.from({ length: view.world }, (_, rank) => plain(rankName(view, rank)));
  return 38 + widestLabel(names); // with the room of the axis title
}

/** Returns a rank's number; if there are few ranks, the rank's coordinates come first: 'dp 1, tp 1 · 3'. */
function rankName({ coordinates, world }: View, rank: number): string {
  const isCut = coordinates.has('dpShard');
  const own = [...coordinates].flatMap(([axis, positions]) => {
    const isWhole = axis === 'world' || axis.includes('_') || (axis === 'dp' && isCut);
    return isWhole || positions[rank] === undefined ? [] : [`${axis} ${positions[rank]}`];
  });
  return own.length === 0 || world > MOST_NAMED
    ? strong(String(rank))
    : `${soft(`${own.join(', ')} ·`)} ${strong(String(rank))}`;
}

/** Makes one trace per size of mark, because a trace's marks have one size. */
function marksOf({ color, symbol }: AxisStyle, flows: readonly Flow[], sizeOf: (bytes: Bytes) => number) {
  return [...new Set(flows.map(({ bytes }) => sizeOf(bytes)))].flatMap((size) => {
    const items = flows
      .filter(({ bytes }) => sizeOf(bytes) === size)
      .map(({ from, to, bytes }) => ({
        x: to,
        y: from,
        text: `rank ${from} → ${to}: ${inUnit(bytes, byteScale(bytes))}`,
      }));
    return dots(items, { size, color, symbol }, { showlegend: false });
  });
}

/** Writes the bytes of each pair with one mark: into the mark if there is room, else below it in the cell, else beside it. */
function numbersOf(
  drawn: View['axes'],
  { divisor }: Scaled,
  { sizeOf, cell }: { readonly sizeOf: (bytes: Bytes) => number; readonly cell: number },
): Annotation[] {
  const flows = drawn.flatMap(({ style, flows: own }) => own.map((flow) => ({ ...flow, style })));
  const marksAt = (from: number, to: number): number =>
    flows.filter((flow) => flow.from === from && flow.to === to).length;
  return flows.flatMap(({ from, to, bytes, style: { color, symbol } }) => {
    if (marksAt(from, to) > 1) return [];
    const text = String(Number((bytes / divisor).toPrecision(3)));
    const half = sizeOf(bytes) / 2;
    const [font, width] = [{ size: 10 }, textWidth(text, 10)];
    const isOpen = symbol === 'circle-open';
    if (width < 2 * half && (isOpen || symbol === 'square' || symbol === 'circle')) {
      const inked = isOpen ? soft(text) : `<span style="color:${inkOn({ color })}">${text}</span>`;
      return note(to, from, inked, { xanchor: 'center', font });
    }
    if (half + 12 <= cell / 2 && width < cell)
      return note(to, from, soft(text), { xanchor: 'center', yshift: -half - 6, font });
    return marksAt(from, to + 1) > 0 ? [] : note(to, from, soft(text), { xshift: half + 3, font });
  });
}

/** Draws the bytes per axis: plain within a machine, hatched between machines. */
function axesPanel({ axes, world, numNodes, place }: View): Panel {
  const scale = byteScale(Math.max(...axes.map(({ bytes }) => bytes / world)));
  const lengthOf = (bytes: Bytes): number => bytes / world / scale.divisor;
  const most = Math.max(...axes.map(({ bytes }) => lengthOf(bytes)));
  const between: Partial<Fill> = { pattern: hatch('/', 'rgba(255,255,255,.8)') };
  const inside = numNodes === 1 ? '' : ` within a ${place}`;
  return {
    heading: 'Received per rank',
    aside: `, ${scale.unit}`,
    x: { domain: SPLIT.bars, range: [0, most * 1.04], tickvals: niceTicks([0, most], 2) },
    y: {
      domain: [0.94 - axes.length * ROW_SHARE, 0.94],
      ...rowAxis(
        axes.map(({ style, carries }) => `${keyOf(style)}${strong(style.name)}${soft(':')} ${carries}`),
      ),
    },
    data: axes.flatMap(({ style, bytes, outside }, at) => [
      bars([{ at, length: lengthOf(bytes - outside) }], {
        fill: { color: style.color },
        width: 0.5,
        hover: `%{x:.3f} ${scale.unit}${inside}<extra></extra>`,
      }),
      bars([{ at, length: lengthOf(outside), from: lengthOf(bytes - outside) }], {
        fill: { color: style.color, ...between },
        width: 0.5,
        hover: `%{x:.3f} ${scale.unit} between ${place}s<extra></extra>`,
      }),
    ]),
    annotations: axes.map(({ bytes, share }, at) =>
      endLabel(lengthOf(bytes), at, inUnit(bytes / world, byteScale(bytes / world)), percent(share)),
    ),
  };
}

/** The style in which an axis of a mesh is drawn. */
interface AxisStyle {
  readonly name: string;
  readonly color: string;
  readonly symbol: MarkerSymbol;
}

/** The styles of the axes of meshes: each axis has a hue, a shape and a word. */
const AXES: Readonly<Record<string, AxisStyle>> = {
  tp: { name: 'tensor', color: CAUSE_FILL.activation.color, symbol: 'square' },
  pp: { name: 'pipeline', color: CAUSE_FILL['param.shard'].color, symbol: 'diamond' },
  cp: { name: 'context', color: CAUSE_FILL.optimizer.color, symbol: 'triangle-up' },
  ep: { name: 'expert', color: CAUSE_FILL.comm.color, symbol: 'x' },
  dp: { name: 'data', color: CAUSE_FILL['grad.shard'].color, symbol: 'circle' },
  dp_cp: { name: 'data × context', color: CAUSE_FILL['grad.shard'].color, symbol: 'circle' },
  edp: { name: 'expert data', color: CAUSE_FILL.buffer.color, symbol: 'circle' },
  dpShard: { name: 'shard', color: CAUSE_FILL['param.shard'].color, symbol: 'square' },
  dpReplicate: { name: 'replica', color: CAUSE_FILL['grad.shard'].color, symbol: 'circle' },
  local: { name: 'local', color: CAUSE_FILL['param.shard'].color, symbol: 'square' },
  node: { name: 'cross-node', color: CAUSE_FILL['grad.shard'].color, symbol: 'circle' },
  world: { name: 'all ranks', color: NEUTRAL_FILL.color, symbol: 'circle-open' },
};

/** Returns an axis's style by the name of its groups. */
const styleOf = (axis: string): AxisStyle =>
  AXES[axis] ?? { name: axis, color: CAUSE_FILL.buffer.color, symbol: 'diamond-open' };

/** Returns the shape of an axis's marks as a character, in the axis's colour. */
function keyOf({ color, symbol }: AxisStyle): string {
  return `<span style="color:${color}">${KEYS[symbol]}</span> `;
}

const KEYS: Readonly<Record<MarkerSymbol, string>> = {
  square: '■',
  circle: '●',
  'circle-open': '○',
  diamond: '◆',
  'diamond-open': '◇',
  'triangle-up': '▲',
  x: '✕',
  'line-ew-open': '—',
};

/** Bytes that a rank receives from another rank per step, for one axis of a mesh. */
interface Flow {
  readonly from: number;
  readonly to: number;
  /** The axis's name as in the group's name ('tp' of 'tp[0,1]'); 'world' for all ranks. */
  readonly axis: string;
  readonly bytes: Bytes;
}

/** The bytes that all ranks receive for one cause. */
interface CausedBytes {
  readonly cause: CommCause;
  readonly bytes: Bytes;
}

/** The traffic between ranks in one step. */
export interface Traffic {
  readonly flows: readonly Flow[];
  /** The causes of each axis's bytes; the cause with the most bytes is first. */
  readonly causes: ReadonlyMap<string, readonly CausedBytes[]>;
  /**
   * Each rank's position on each axis (the rank's index in the axis's group). The groups of the last axis have neighbouring
   * ranks.
   */
  readonly coordinates: ReadonlyMap<string, readonly number[]>;
}

/**
 * Adds up how many bytes each rank receives from each other rank. Collectives count as the ring algorithm, in which a rank
 * receives from the rank before it in its group. In an all-to-all, a rank receives equal parts from all other ranks. `records`
 * are the records of all ranks in one step.
 */
export function trafficOf(records: readonly StepRecord[]): Traffic {
  const nameOf = namesOfGroups(records);
  const flows = new Map<string, { from: number; to: number; axis: string; bytes: Bytes }>();
  const causes = new Map<string, Map<CommCause, Bytes>>();
  const coordinates = new Map<string, number[]>();
  const strides = new Map<string, number>();
  for (const { rank, collectives } of records) {
    for (const event of collectives) {
      const { ranks, cause, wireBytes } = event;
      const axis = nameOf(event);
      const position = coordinates.get(axis) ?? [];
      position[rank] = ranks.indexOf(rank);
      coordinates.set(axis, position);
      strides.set(axis, (ranks[1] ?? 0) - (ranks[0] ?? 0));
      const byCause = causes.get(axis) ?? new Map<CommCause, Bytes>();
      causes.set(axis, byCause.set(cause, (byCause.get(cause) ?? 0) + wireBytes));
      for (const { from, bytes } of sourcesOf(event, rank)) {
        const key = `${axis} ${from} ${rank}`;
        const flow = flows.get(key) ?? { from, to: rank, axis, bytes: 0 };
        flow.bytes += bytes;
        flows.set(key, flow);
      }
    }
  }
  const byStride = [...coordinates].sort(([a], [b]) => (strides.get(b) ?? 0) - (strides.get(a) ?? 0));
  const mostFirst = (byCause: ReadonlyMap<CommCause, Bytes>): CausedBytes[] =>
    [...byCause].map(([cause, bytes]) => ({ cause, bytes })).sort((a, b) => b.bytes - a.bytes);
  return {
    flows: [...flows.values()],
    causes: new Map([...causes].map(([axis, byCause]) => [axis, mostFirst(byCause)])),
    coordinates: new Map(byStride),
  };
}

/**
 * Returns a function that names the axis of a group: 'tp' of 'tp[0,1]'. If several groups have the same ranks, the function
 * returns the shortest of their names for each of them.
 */
function namesOfGroups(records: readonly StepRecord[]): (event: CollectiveRecord) => string {
  const names = new Map<string, string>();
  for (const { group, ranks } of records.flatMap(({ collectives }) => collectives)) {
    const name = group.replace(/[[ ].*$/, '');
    const known = names.get(ranks.join());
    if (known === undefined || name.length < known.length) names.set(ranks.join(), name);
  }
  return ({ ranks }) => names.get(ranks.join()) ?? '';
}

function sourcesOf(
  event: CollectiveRecord,
  rank: number,
): { readonly from: number; readonly bytes: Bytes }[] {
  const { op, ranks, wireBytes, peer } = event;
  if (wireBytes === 0 || op === 'send') return [];
  if (op === 'recv')
    return [{ from: peer ?? ranks.find((member) => member !== rank) ?? rank, bytes: wireBytes }];
  const others = ranks.filter((member) => member !== rank);
  if (op === 'scatter') return [{ from: peer ?? rank, bytes: wireBytes }];
  if (op === 'allToAll' || op === 'gather')
    return others.map((from) => ({ from, bytes: wireBytes / others.length }));
  return [{ from: ranks.at(ranks.indexOf(rank) - 1) ?? rank, bytes: wireBytes }];
}
