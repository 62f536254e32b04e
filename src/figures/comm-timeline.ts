import { COMM_CAUSES, type CommCause, type SpanName } from '../core/events';
import type { Seconds } from '../core/units';
import { overlappedSeconds } from '../ledger/communication';
import type { StepRecord } from '../ledger/record';
import { type MainSegment, type Timeline, timeline, waitSeconds, waitShare, type WireSegment } from '../ledger/timeline';
import { CAUSE_WORDS, spoken } from './comm-words';
import { createFigure, type Figure, titleOf } from './figure';
import { counted, percent, type Scaled, short, timeScale } from './format';
import { bold, safe, soft, strong } from './ink';
import { COMM_FILL, type Fill, inkOn, PHASE_FILL, WAIT_FILL, WAIT_LINE } from './palette';
import type { Annotation, BarTrace } from './plotly';
import { recordsOfStep, type RunView } from './run-view';
import { createTable } from './table';
import { fits } from './text-width';

export interface CommTimelineOptions {
  /** Default: the last step that all ranks finished. */
  readonly step?: number;
}

const MARGIN = { t: 68, l: 58, r: 82, b: 92 };
const ROW_PIXELS = 54;
const PLOT_PIXELS = 800 - MARGIN.l - MARGIN.r;
/** With more ranks only the slowest, the fastest and some between are drawn. */
const MAX_ROWS = 8;

/** Each rank's step in two lanes, the main thread over the wire, with the share that it waited at the row's end. */
export function commTimeline(run: RunView, options: CommTimelineOptions = {}): Figure {
  const records = recordsOfStep(run.records, options.step);
  if (records.length === 0) throw new RangeError('there is no recorded step yet; run a step first');
  const all = records.map(timeline);
  const rows = rowsOf(all);
  const longest = Math.max(...rows.map(({ seconds }) => seconds)) || 1e-3;
  const scale = timeScale(longest);
  const view = { scale, perSecond: PLOT_PIXELS / (longest * 1.01) };
  return createFigure({
    title: findingOf(records, all),
    subtitle: subtitleOf(run, records, rows.length),
    data: [...mainBars(rows, view), ...waitBars(rows, view), ...wireBars(rows, view)],
    layout: {
      height: MARGIN.t + MARGIN.b + Math.max(2, rows.length) * ROW_PIXELS,
      margin: MARGIN,
      barmode: 'overlay',
      showlegend: true,
      legend: { y: -48 / (Math.max(2, rows.length) * ROW_PIXELS) },
      xaxis: {
        range: [0, (longest * 1.01) / scale.divisor],
        title: { text: soft(`${scale.unit} in the step`), standoff: 2, font: { size: 11 } },
      },
      yaxis: {
        tickvals: rows.map((_, i) => i),
        ticktext: rows.map(({ rank }) => strong(`rank ${rank}`)),
        autorange: false,
        range: [Math.max(2, rows.length) - 0.45, -0.5],
        showgrid: false,
        ticks: '',
      },
      annotations: rows.map(shareNote),
    },
    quantities: {
      waitShare: { value: mean(all.map(waitShare)) * 100, unit: '%' },
      numCollectives: { value: mean(records.map(({ collectives }) => collectives.length)), unit: 'collectives' },
    },
    table: createTable(all.flatMap(tableRows)),
  });
}

/** All ranks while they are few; else the slowest, the fastest, and every so many between. */
function rowsOf(all: readonly Timeline[]): Timeline[] {
  if (all.length <= MAX_ROWS) return [...all];
  const bySpeed = [...all].sort((a, b) => a.seconds - b.seconds);
  const kept = new Set([bySpeed[0]?.rank, bySpeed.at(-1)?.rank]);
  const every = Math.ceil(all.length / (MAX_ROWS - 2));
  for (const lanes of all) if (lanes.rank % every === 0 && kept.size < MAX_ROWS) kept.add(lanes.rank);
  return all.filter((lanes) => kept.has(lanes.rank));
}

function findingOf(records: readonly StepRecord[], all: readonly Timeline[]): string {
  const events = records.flatMap(({ collectives }) => collectives);
  if (events.length === 0) return 'Nothing was communicated in this step';
  const seconds = mean(all.map((lanes) => lanes.seconds));
  const waited = mean(all.map(waitSeconds));
  const hidden = events.reduce((sum, event) => sum + overlappedSeconds(event), 0);
  const wire = events.reduce((sum, event) => sum + Math.max(0, event.ended - event.started), 0);
  const share = wire > 0 ? percent(hidden / wire).replaceAll('&lt;', '<').replaceAll('&gt;', '>') : '0%';
  const scale = timeScale(seconds);
  const cost = `${short(waited / scale.divisor)} of ${short(seconds / scale.divisor)} ${scale.unit}`;
  if (waited < seconds / 200) return titleOf(`No rank waits: ${share} of the wire time is hidden`);
  const top = costliest(events);
  return titleOf(
    `Ranks wait ${cost}, mostly for ${top}; ${share} of wire time is hidden`,
    `Ranks wait ${cost}, mostly for ${top}`,
    `Ranks wait ${cost}; ${share} of wire time is hidden`,
  );
}

function costliest(events: readonly StepRecord['collectives'][number][]): string {
  const cost = new Map<CommCause, Seconds>();
  for (const { cause, exposed } of events) cost.set(cause, (cost.get(cause) ?? 0) + exposed);
  const [top] = [...cost].sort((a, b) => b[1] - a[1]);
  return CAUSE_WORDS[top?.[0] ?? 'user'];
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function subtitleOf(run: RunView, records: readonly StepRecord[], numRows: number): string {
  const note = run.note === undefined ? '' : `, ${safe(run.note)}`;
  const shown = numRows < records.length ? ` ${numRows} of ${records.length} shown.` : '';
  return `${run.strategy}, ${counted(run.world, 'rank')}${note}, step ${records[0]?.step}.${shown} Upper lane: main thread. Lower: wire.`;
}

interface View {
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

function blocks(name: string, fill: Fill, lane: typeof MAIN, items: readonly Block[], view: View): BarTrace[] {
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
      text: items.map(({ text, start, end }) => (fits(text, 10, (end - start) * view.perSecond) ? safe(text) : '')),
      textposition: 'inside',
      insidetextanchor: 'middle',
      textangle: 0,
      constraintext: 'none',
      textfont: { size: 10, color: inkOn(fill) },
      marker: {
        color: fill.color,
        pattern: fill.pattern ?? { shape: '' },
        line: fill === WAIT_FILL ? { width: 1.2, color: WAIT_LINE } : { width: 0.6, color: 'rgba(90,90,90,.8)' },
      },
      name: soft(name),
      customdata: items.map(
        ({ hover, start, end }) => `${safe(hover)}<br>${short(start / divisor)} to ${short(end / divisor)} ${unit}`,
      ),
      hovertemplate: '%{customdata}<extra></extra>',
    },
  ];
}

const PHASES: readonly Exclude<SpanName, 'step'>[] = ['data', 'forward', 'loss', 'recompute', 'backward', 'optimizer'];

function mainBars(rows: readonly Timeline[], view: View): BarTrace[] {
  return PHASES.flatMap((phase) => {
    const items = rows.flatMap(({ main, rank }, row) =>
      main
        .filter(({ kind }) => kind === phase)
        .map((segment) => ({ row, ...segment, text: label(segment), hover: `${phase} ${segment.module}, rank ${rank}` })),
    );
    return blocks(phase, PHASE_FILL[phase], MAIN, items, view);
  });
}

/** 'blocks.3' is 3; a phase without a module is named by itself. */
function label({ kind, module }: MainSegment): string {
  if (module === '') return kind === 'optimizer' ? 'step' : '';
  return kind === 'loss' ? 'loss' : (/\.(\d+)$/.exec(module)?.[1] ?? module);
}

function waitBars(rows: readonly Timeline[], view: View): BarTrace[] {
  const items = rows.flatMap(({ main, rank }, row) =>
    main
      .filter(({ kind }) => kind === 'wait')
      .map((segment) => ({ row, ...segment, text: '', hover: `waits for ${segment.module || 'root'}, rank ${rank}` })),
  );
  return blocks('exposed wait', WAIT_FILL, MAIN, items, view);
}

const SHORT_OPS: Readonly<Record<string, string>> = {
  allGather: 'AG',
  reduceScatter: 'RS',
  allReduce: 'AR',
  allToAll: 'A2A',
  broadcast: 'BC',
};

function wireBars(rows: readonly Timeline[], view: View): BarTrace[] {
  return COMM_CAUSES.flatMap((cause) => {
    const items = rows.flatMap(({ wire, rank }, row) =>
      wire
        .filter((segment) => segment.cause === cause)
        .map((segment) => ({ row, ...segment, text: wireLabel(segment), hover: wireHover(segment, rank) })),
    );
    const ops = [...new Set(rows.flatMap(({ wire }) => wire.filter((s) => s.cause === cause).map(({ op }) => op)))];
    return blocks(`${ops.map(spoken).join(', ')} (${CAUSE_WORDS[cause]})`, COMM_FILL[cause], WIRE, items, view);
  });
}

function wireLabel({ op, module }: WireSegment): string {
  const where = module === '' ? 'root' : (/\.(\d+)$/.exec(module)?.[1] ?? module);
  return `${SHORT_OPS[op] ?? op} ${where}`;
}

function wireHover({ op, cause, module, bytes, wireBytes }: WireSegment, rank: number): string {
  return `${spoken(op)} of ${cause} ${module || 'root'}, rank ${rank}: ${bytes} B, ${wireBytes} B received`;
}

function shareNote(lanes: Timeline, row: number): Annotation {
  return {
    x: 1.005,
    xref: 'paper',
    y: row,
    text: `${bold(percent(waitShare(lanes)))} ${soft('waits')}`,
    showarrow: false,
    xanchor: 'left',
    font: { size: 11 },
  };
}

function tableRows({ rank, main, wire }: Timeline) {
  const rows = [
    ...main.map(({ kind, module, start, end }) => ({ lane: 'main', op: kind as string, cause: null, module, bytes: null, start, end })),
    ...wire.map(({ op, cause, module, bytes, start, end }) => ({ lane: 'wire', op, cause, module, bytes, start, end })),
  ];
  return rows.map(({ start, end, ...rest }) => ({ rank, ...rest, startSeconds: start, endSeconds: end }));
}
