import { COMM_CAUSES, type Seconds } from '../core';
import { type MainSegment, type Timeline, WAIT_KINDS, type WireSegment } from '../ledger';
import { CAUSE_WORDS, spoken } from './comm-words';
import { short, timeScale } from './format';
import { rowAxis, titled } from './grammar/axes';
import { fits, safe } from './grammar/ink';
import { type BarStyle, bars, note } from './grammar/marks';
import { COMM_FILL, PHASE_FILL, WAIT_FILLS, WAIT_OUTLINE } from './grammar/palette';
import { plot } from './grammar/plot';
import { STATIC_WIDTH } from './grammar/template';
import { WAIT_WORDS } from './wait-words';

/** A row: one rank's step. */
export interface LaneRow {
  readonly lanes: Timeline;
  /** The markup beside the row: `name` is left of the row, and `note` is right of the row. */
  readonly name: string;
  readonly note: string;
}

interface LaneSizes {
  readonly left: number;
  readonly right: number;
  /** The height of a row, in pixels. */
  readonly row: number;
  /** The time at which the axis ends. */
  readonly longest: Seconds;
}

const TOP = 68;
/** The height of the time axis's ticks and title, in pixels. */
const AXIS_ROOM = 48;

/** Draws rows of two lanes each, the main thread above the wire; all rows have the same time axis. */
export function plotLanes(rows: readonly LaneRow[], { left, right, row, longest }: LaneSizes) {
  const { divisor, unit } = timeScale(longest);
  const perSecond = (STATIC_WIDTH - left - right) / (longest * 1.01);
  const traceOf = ({ lane, itemsOf, ...style }: Series) => {
    const items = rows.flatMap(({ lanes }, i) =>
      itemsOf(lanes).map(({ start, end, text, hover }) => ({
        at: i + lane.at,
        length: (end - start) / divisor,
        from: start / divisor,
        text: fits(text, 10, (end - start) * perSecond) ? safe(text) : '',
        said: `${safe(`${hover(lanes.rank)}`)}<br>${short(start / divisor)} to ${short(end / divisor)} ${unit}`,
      })),
    );
    const hover = '%{customdata}<extra></extra>';
    return items.length === 0 ? [] : [bars(items, { line: OUTLINE, ...style, width: lane.width, hover })];
  };
  const panel = {
    x: { range: [0, (longest * 1.01) / divisor], ...titled(`${unit} in the step`, 2) },
    y: rowAxis(rows.map(({ name }) => name)),
    data: seriesOf(rows).flatMap(traceOf),
    annotations: rows.map((one, i) => note(1.006, i, one.note, { xref: 'paper', align: 'left' })),
  } as const;
  const pixels = rows.length * row;
  return plot({ top: TOP, left, right, pixels, foot: AXIS_ROOM, legend: 'edge' }, [panel]);
}

const MAIN = { at: -0.2, width: 0.44 };
const WIRE = { at: 0.2, width: 0.3 };
const OUTLINE = { width: 0.6, color: 'rgba(90,90,90,.8)' } as const;

/** The bars of one kind in all rows. */
interface Series extends Pick<BarStyle, 'fill' | 'line'> {
  readonly name: string;
  readonly lane: typeof MAIN;
  itemsOf(lanes: Timeline): readonly Block[];
}

interface Block {
  readonly start: Seconds;
  readonly end: Seconds;
  readonly text: string;
  readonly hover: (rank: number) => string;
}

const PHASES = ['data', 'forward', 'loss', 'recompute', 'backward', 'optimizer'] as const;

/** Returns the kinds of bars: the main thread's phases, its waits by kind, and collectives by cause. */
function seriesOf(rows: readonly LaneRow[]): Series[] {
  const phases = PHASES.map((phase) => ({
    name: phase,
    fill: PHASE_FILL[phase],
    lane: MAIN,
    itemsOf: ({ main }: Timeline) => main.filter(({ kind }) => kind === phase).map(mainBlock),
  }));
  const waits = WAIT_KINDS.map((waited) => ({
    name: `waits ${WAIT_WORDS[waited]}`,
    fill: WAIT_FILLS[waited],
    line: WAIT_OUTLINE,
    lane: MAIN,
    itemsOf: ({ main }: Timeline) => main.filter(({ waitsFor }) => waitsFor === waited).map(mainBlock),
  }));
  const wires = COMM_CAUSES.map((cause) => {
    const itemsOf = ({ wire }: Timeline) => wire.filter((segment) => segment.cause === cause);
    const ops = new Set(rows.flatMap(({ lanes }) => itemsOf(lanes).map(({ op }) => spoken(op))));
    return {
      name: `${[...ops].join(', ')} (${CAUSE_WORDS[cause]})`,
      fill: COMM_FILL[cause],
      lane: WIRE,
      itemsOf: (lanes: Timeline) => itemsOf(lanes).map(wireBlock),
    };
  });
  return [...phases, ...waits, ...wires];
}

/**
 * Returns a bar of the main lane. The bar's text is '3' for the module 'blocks.3'. Without a module, the text is 'loss' or
 * 'step'; for a wait, it is ''.
 */
function mainBlock({ kind, waitsFor, module, start, end }: MainSegment): Block {
  const hover = (rank: number): string =>
    waitsFor === undefined
      ? `${kind} ${module}, rank ${rank}`
      : `waits ${WAIT_WORDS[waitsFor]}, in ${module || 'root'}, rank ${rank}`;
  const unnamed = kind === 'optimizer' ? 'step' : '';
  const named = kind === 'loss' ? 'loss' : numberOf(module);
  return { start, end, text: kind === 'wait' ? '' : module === '' ? unnamed : named, hover };
}

const SHORT_OPS: Readonly<Record<string, string>> = {
  allGather: 'AG',
  reduceScatter: 'RS',
  allReduce: 'AR',
  allToAll: 'A2A',
  broadcast: 'BC',
};

function wireBlock({ op, cause, module, bytes, wireBytes, start, end }: WireSegment): Block {
  const text = `${SHORT_OPS[op] ?? op} ${numberOf(module) || 'root'}`;
  const what = `${spoken(op)} of ${cause} ${module || 'root'}`;
  return { start, end, text, hover: (rank) => `${what}, rank ${rank}: ${bytes} B, ${wireBytes} B received` };
}

function numberOf(module: string): string {
  return /\.(\d+)$/.exec(module)?.[1] ?? module;
}
