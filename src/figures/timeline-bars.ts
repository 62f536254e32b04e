import { COMM_CAUSES, type SpanName } from '../core/events';
import type { Seconds } from '../core/units';
import type { MainSegment, Timeline, WireSegment } from '../ledger/timeline';
import { WAIT_KINDS } from '../ledger/waits';
import { CAUSE_WORDS, spoken, WAIT_WORDS } from './comm-words';
import { type Scaled, short, timeScale } from './format';
import { rowAxis, titled } from './grammar/axes';
import { safe } from './grammar/ink';
import { bars, note } from './grammar/marks';
import { COMM_FILL, type Fill, PHASE_FILL, WAIT_FILLS, WAIT_OUTLINE } from './grammar/palette';
import { plot } from './grammar/plot';
import type { BarTrace } from './grammar/plotly';
import { STATIC_WIDTH } from './grammar/template';
import { fits } from './grammar/text-width';

/** One row: a rank's step. */
export interface LaneRow {
  readonly lanes: Timeline;
  /** Markup, left of the row and right of it. */
  readonly name: string;
  readonly note: string;
}

export interface LaneSizes {
  readonly left: number;
  readonly right: number;
  /** Pixels of a row. */
  readonly row: number;
  /** The time that the axis reaches to. */
  readonly longest: Seconds;
}

const TOP = 68;
/** Ticks and title of the time axis. */
const AXIS_ROOM = 48;

/** Rows of two lanes each, the main thread over the wire, on one clock. */
export function plotLanes(rows: readonly LaneRow[], { left, right, row, longest }: LaneSizes) {
  const scale = timeScale(longest);
  const width = STATIC_WIDTH - left - right;
  const view = { scale, perSecond: width / (longest * 1.01) };
  const lanes = rows.map((one) => one.lanes);
  const panel = {
    x: { range: [0, (longest * 1.01) / scale.divisor], ...titled(`${scale.unit} in the step`, 2) },
    y: rowAxis(rows.map(({ name }) => name)),
    data: [...mainBars(lanes, view), ...waitBars(lanes, view), ...wireBars(lanes, view)],
    annotations: rows.map((one, i) => note(1.006, i, one.note, { xref: 'paper', align: 'left' })),
  } as const;
  const pixels = rows.length * row;
  return plot({ top: TOP, left, right, pixels, foot: AXIS_ROOM, legend: 'plot' }, [panel]);
}

/** How a timeline's seconds become the figure's units and the picture's pixels. */
interface TimelineView {
  readonly scale: Scaled;
  readonly perSecond: number;
}

interface Block {
  readonly row: number;
  readonly start: Seconds;
  readonly end: Seconds;
  readonly text: string;
  readonly hover: string;
}

const MAIN = { at: -0.2, width: 0.44 };
const WIRE = { at: 0.2, width: 0.3 };
const OUTLINE = { width: 0.6, color: 'rgba(90,90,90,.8)' } as const;

function blocks(
  name: string,
  fill: Fill,
  lane: typeof MAIN,
  items: readonly Block[],
  view: TimelineView,
): BarTrace[] {
  if (items.length === 0) return [];
  const { divisor, unit } = view.scale;
  const placed = items.map(({ row, start, end, text, hover }) => ({
    row: row + lane.at,
    length: (end - start) / divisor,
    from: start / divisor,
    text: fits(text, 10, (end - start) * view.perSecond) ? safe(text) : '',
    said: `${safe(hover)}<br>${short(start / divisor)} to ${short(end / divisor)} ${unit}`,
  }));
  const line = Object.values(WAIT_FILLS).includes(fill) ? WAIT_OUTLINE : OUTLINE;
  const width = items.map(() => lane.width);
  return [bars(placed, { name, fill, width, line, hover: '%{customdata}<extra></extra>' })];
}

const PHASES: readonly Exclude<SpanName, 'step'>[] = [
  'data',
  'forward',
  'loss',
  'recompute',
  'backward',
  'optimizer',
];

/** What the main thread computed, a trace a phase. */
function mainBars(rows: readonly Timeline[], view: TimelineView): BarTrace[] {
  return PHASES.flatMap((phase) => {
    const items = rows.flatMap(({ main, rank }, row) =>
      main
        .filter(({ kind }) => kind === phase)
        .map((segment) => ({
          row,
          ...segment,
          text: label(segment),
          hover: `${phase} ${segment.module}, rank ${rank}`,
        })),
    );
    return blocks(phase, PHASE_FILL[phase], MAIN, items, view);
  });
}

/** 'blocks.3' is 3; a phase without a module is named by itself. */
function label({ kind, module }: MainSegment): string {
  if (module === '') return kind === 'optimizer' ? 'step' : '';
  return kind === 'loss' ? 'loss' : (/\.(\d+)$/.exec(module)?.[1] ?? module);
}

/** Where the main thread stood still, a trace for each thing that it waited for. */
function waitBars(rows: readonly Timeline[], view: TimelineView): BarTrace[] {
  return WAIT_KINDS.flatMap((waited) => {
    const items = rows.flatMap(({ main, rank }, row) =>
      main
        .filter(({ waitsFor }) => waitsFor === waited)
        .map((segment) => ({
          row,
          ...segment,
          text: '',
          hover: `waits ${WAIT_WORDS[waited]}, in ${segment.module || 'root'}, rank ${rank}`,
        })),
    );
    return blocks(`waits ${WAIT_WORDS[waited]}`, WAIT_FILLS[waited], MAIN, items, view);
  });
}

const SHORT_OPS: Readonly<Record<string, string>> = {
  allGather: 'AG',
  reduceScatter: 'RS',
  allReduce: 'AR',
  allToAll: 'A2A',
  broadcast: 'BC',
};

/** Collectives on the wire, a trace a cause. */
function wireBars(rows: readonly Timeline[], view: TimelineView): BarTrace[] {
  return COMM_CAUSES.flatMap((cause) => {
    const items = rows.flatMap(({ wire, rank }, row) =>
      wire
        .filter((segment) => segment.cause === cause)
        .map((segment) => ({ row, ...segment, text: wireLabel(segment), hover: wireHover(segment, rank) })),
    );
    const ops = [
      ...new Set(rows.flatMap(({ wire }) => wire.filter((s) => s.cause === cause).map(({ op }) => op))),
    ];
    return blocks(
      `${ops.map(spoken).join(', ')} (${CAUSE_WORDS[cause]})`,
      COMM_FILL[cause],
      WIRE,
      items,
      view,
    );
  });
}

function wireLabel({ op, module }: WireSegment): string {
  const where = module === '' ? 'root' : (/\.(\d+)$/.exec(module)?.[1] ?? module);
  return `${SHORT_OPS[op] ?? op} ${where}`;
}

function wireHover({ op, cause, module, bytes, wireBytes }: WireSegment, rank: number): string {
  return `${spoken(op)} of ${cause} ${module || 'root'}, rank ${rank}: ${bytes} B, ${wireBytes} B received`;
}
