import { COMM_CAUSES, type SpanName } from '../core/events';
import type { Seconds } from '../core/units';
import type { MainSegment, Timeline, WireSegment } from '../ledger/timeline';
import { WAIT_KINDS } from '../ledger/waits';
import { CAUSE_WORDS, spoken, WAIT_WORDS } from './comm-words';
import { type Scaled, short } from './format';
import { safe, soft } from './ink';
import { COMM_FILL, type Fill, inkOn, PHASE_FILL, WAIT_FILLS, WAIT_LINE } from './palette';
import type { BarTrace } from './plotly';
import { fits } from './text-width';

/** How a timeline's seconds become the figure's units and the picture's pixels. */
export interface TimelineView {
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

function blocks(
  name: string,
  fill: Fill,
  lane: typeof MAIN,
  items: readonly Block[],
  view: TimelineView,
): BarTrace[] {
  if (items.length === 0) return [];
  const { divisor, unit } = view.scale;
  return [
    {
      type: 'bar',
      orientation: 'h',
      x: items.map(({ start, end }) => Number(((end - start) / divisor).toPrecision(6))),
      base: items.map(({ start }) => Number((start / divisor).toPrecision(7))),
      y: items.map(({ row }) => row + lane.at),
      width: items.map(() => lane.width),
      text: items.map(({ text, start, end }) =>
        fits(text, 10, (end - start) * view.perSecond) ? safe(text) : '',
      ),
      textposition: 'inside',
      insidetextanchor: 'middle',
      textangle: 0,
      constraintext: 'none',
      textfont: { size: 10, color: inkOn(fill) },
      marker: {
        color: fill.color,
        pattern: fill.pattern ?? { shape: '' },
        line: Object.values(WAIT_FILLS).includes(fill)
          ? { width: 1.2, color: WAIT_LINE }
          : { width: 0.6, color: 'rgba(90,90,90,.8)' },
      },
      name: soft(name),
      customdata: items.map(
        ({ hover, start, end }) =>
          `${safe(hover)}<br>${short(start / divisor)} to ${short(end / divisor)} ${unit}`,
      ),
      hovertemplate: '%{customdata}<extra></extra>',
    },
  ];
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
export function mainBars(rows: readonly Timeline[], view: TimelineView): BarTrace[] {
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
export function waitBars(rows: readonly Timeline[], view: TimelineView): BarTrace[] {
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
export function wireBars(rows: readonly Timeline[], view: TimelineView): BarTrace[] {
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
