import type { MemoryCause } from '../core/events';
import type { Bytes, Seconds } from '../core/units';
import { type MemoryOverTime, memoryAtPeak, memoryOverTime, totalBytes } from '../ledger/memory';
import type { StepRecord } from '../ledger/record';
import { temporaries } from '../ledger/temporaries';
import { timeline } from '../ledger/timeline';
import { thinned } from './envelope';
import { createFigure, type Figure, titleOf } from './figure';
import { byteScale, counted, inUnit, type Scaled, timeScale } from './format';
import { bold, safe, soft, strong } from './ink';
import { recordOf, stepWithCurve } from './memory-case';
import { peakFinding, peakQuantities } from './memory-findings';
import { CAUSE_FILL, NEUTRAL, STACK_ORDER } from './palette';
import { peakPanel } from './peak-panel';
import { phaseStrip, phases } from './phase-strip';
import type { Annotation, ScatterTrace } from './plotly';
import { higherPeak, type RunView, recordsOfStep } from './run-view';
import { STATIC_WIDTH } from './static-svg';
import { createTable, type Table } from './table';

export interface MemoryTimelineOptions {
  /** The rank whose causes are shown. Default: the one with the highest peak. */
  readonly rank?: number;
  /** Default: of those whose every allocation was kept the one nearest the medians of the last steps. */
  readonly step?: number;
}

const HEIGHT = 420;
const MARGIN = { t: 92, r: 10, l: 52, b: 46 };
const PLOT_SHARE = 0.675;
const MAX_POINTS = 500;
/** More ranks than this are shown by the highest and the lowest only. */
const MAX_DOTTED = 8;

/** One rank's memory over one step by cause, with the step's phases above and the peak taken apart beside it. */
export function memoryTimeline(run: RunView, options: MemoryTimelineOptions = {}): Figure {
  const records = recordsOfStep(run.records, options.step ?? stepWithCurve(run));
  const record = options.rank === undefined ? records.reduce(higherPeak) : recordOf(records, options.rank);
  const curve = memoryOverTime(record);
  const scale = byteScale(record.memory.peakBytes);
  const time = timeScale(record.end - record.start);
  const atPeak = memoryAtPeak(record);
  const seen = STACK_ORDER.filter((cause) => curve.byCause[cause].some((bytes) => bytes > 0));
  const [finding, shorter] = peakFinding(atPeak, run.world);
  const others = otherRanks(records, record);
  const axes = { scale, time, plotPixels: (STATIC_WIDTH - MARGIN.l - MARGIN.r) * PLOT_SHARE };
  const thin = thinned(curve, MAX_POINTS);
  const { ring } = temporaries(record).atPeak;
  const panel = peakPanel({ atPeak, ring }, seen, scale, HEIGHT - MARGIN.t - MARGIN.b);
  const strip = phaseStrip(phases(timeline(record)), (seconds) => seconds / time.divisor, {
    pixels: axes.plotPixels,
    seconds: longest([record, ...others.records]),
  });
  return createFigure({
    title: titleOf(finding, shorter),
    subtitle: subtitleOf(run, record, others.said),
    data: [
      ...seen.map((cause) => area(cause, thin, axes, record.rank)),
      ...others.records.map((other) => dotted(other, axes)),
      ...panel.data,
    ],
    layout: {
      height: HEIGHT,
      margin: MARGIN,
      barmode: 'overlay',
      xaxis: {
        domain: [0, PLOT_SHARE],
        range: [0, longest([record, ...others.records]) / time.divisor || 1],
        title: { text: soft(`${time.unit} in the step`), standoff: 8, font: { size: 11 } },
      },
      yaxis: {
        range: [0, (highest(records) / scale.divisor) * 1.1 || 1],
        title: { text: soft(`${scale.unit} on the device`), standoff: 8, font: { size: 11 } },
      },
      ...panel.axes,
      annotations: [...panel.annotations, ...peakNote(record, axes), ...strip.annotations],
      shapes: strip.shapes,
    },
    table: tableOf(record, curve),
    quantities: peakQuantities(atPeak),
  });
}

function longest(records: readonly StepRecord[]): Seconds {
  return Math.max(...records.map((record) => record.end - record.start));
}

function highest(records: readonly StepRecord[]): Bytes {
  return Math.max(...records.map((record) => record.memory.peakBytes));
}

interface Others {
  readonly records: readonly StepRecord[];
  readonly said: string;
}

function otherRanks(records: readonly StepRecord[], record: StepRecord): Others {
  const others = records.filter((other) => other.rank !== record.rank && other.memory.curve !== null);
  if (others.length === 0) return { records: [], said: '' };
  const ranks = others.map((other) => other.rank);
  if (others.length === 1) return { records: others, said: `Dotted: total of rank ${ranks[0]}.` };
  if (others.length <= MAX_DOTTED)
    return { records: others, said: `Dotted: totals of ranks ${spanOf(ranks)}.` };
  const sorted = [...others].sort((a, b) => a.memory.peakBytes - b.memory.peakBytes);
  const ends = [sorted[0], sorted.at(-1)].filter((end) => end !== undefined);
  return {
    records: ends,
    said: `Dotted: lowest and highest of the others (${ends.map((end) => end.rank).join(', ')}).`,
  };
}

function spanOf(ranks: readonly number[]): string {
  const isRun = ranks.every((rank, i) => i === 0 || rank === (ranks[i - 1] ?? 0) + 1);
  return isRun ? `${ranks[0]} to ${ranks.at(-1)}` : ranks.join(', ');
}

function subtitleOf(run: RunView, record: StepRecord, dottedSaid: string): string {
  const what = `Rank ${record.rank}, step ${record.step} of ${run.strategy} on ${counted(run.world, 'rank')}, held bytes.`;
  const missing = record.memory.curve === null ? 'Only start, peak and end were kept.' : '';
  return [what, missing, dottedSaid, 'Hatched: transient.'].filter((part) => part !== '').join(' ');
}

interface Axes {
  readonly scale: Scaled;
  readonly time: Scaled;
  readonly plotPixels: number;
}

function area(cause: MemoryCause, curve: MemoryOverTime, { scale, time }: Axes, rank: number): ScatterTrace {
  const fill = CAUSE_FILL[cause];
  return {
    type: 'scatter',
    x: curve.seconds.map((seconds) => rounded(seconds / time.divisor)),
    y: curve.byCause[cause].map((bytes) => rounded(bytes / scale.divisor)),
    name: cause,
    stackgroup: 'causes',
    mode: 'lines',
    line: { width: 0.5, color: 'rgba(255,255,255,.6)', shape: 'hv' },
    fillcolor: fill.color,
    fillpattern: fill.pattern ?? { shape: '' },
    hoveron: 'points+fills',
    hovertemplate: `<b>${cause}</b> %{y:.2f} ${scale.unit} at %{x:.2f} ${time.unit}<extra>rank ${rank}</extra>`,
  };
}

function dotted(record: StepRecord, { scale, time }: Axes): ScatterTrace {
  const curve = thinned(memoryOverTime(record), MAX_POINTS / 2);
  return {
    type: 'scatter',
    x: curve.seconds.map((seconds) => rounded(seconds / time.divisor)),
    y: curve.total.map((bytes) => rounded(bytes / scale.divisor)),
    name: `rank ${record.rank}`,
    mode: 'lines',
    line: { width: 1.1, color: 'rgba(128,128,128,.95)', shape: 'hv', dash: 'dot' },
    hovertemplate: `<b>rank ${record.rank}</b> %{y:.2f} ${scale.unit} at %{x:.2f} ${time.unit}<extra></extra>`,
  };
}

function rounded(value: number): number {
  return Number(value.toPrecision(6));
}

/** Names the peak and where it is; to its right where there is room. */
function peakNote(record: StepRecord, { scale, time }: Axes): Annotation[] {
  const { peakBytes, peakSeconds } = record.memory;
  const seconds = record.end - record.start;
  if (peakBytes === 0 || seconds <= 0) return [];
  const isLate = peakSeconds > seconds * 0.55;
  const text = `${bold(`peak ${inUnit(peakBytes, scale)}`)} ${strong(safe(momentOf(record)))}`;
  return [
    {
      x: peakSeconds / time.divisor,
      y: peakBytes / scale.divisor,
      text,
      ax: isLate ? -26 : 26,
      ay: -11,
      showarrow: true,
      arrowhead: 0,
      arrowwidth: 1,
      arrowcolor: NEUTRAL,
      xanchor: isLate ? 'right' : 'left',
      font: { size: 11 },
    },
  ];
}

function momentOf(record: StepRecord): string {
  const at = record.memory.peakSeconds;
  const lanes = timeline(record).main;
  const now = lanes.findLast((segment) => segment.kind !== 'wait' && segment.start <= at + 1e-6);
  if (now === undefined) return 'before the forward pass';
  if (now.kind === 'loss') return 'in the loss';
  return now.module === '' || now.module.length > 18 ? `in ${now.kind}` : `in ${now.kind} of ${now.module}`;
}

function tableOf(record: StepRecord, curve: MemoryOverTime): Table {
  const rows = curve.seconds.flatMap((seconds, i) =>
    STACK_ORDER.map((cause) => ({
      seconds,
      rank: record.rank,
      step: record.step,
      cause,
      bytes: curve.byCause[cause][i] ?? 0,
      ringBytes: cause === 'temp' ? (curve.ring[i] ?? 0) : null,
    })),
  );
  const peak = memoryAtPeak(record);
  const { pool, ring } = temporaries(record).atPeak;
  const causes = STACK_ORDER.map((cause) => `${cause} ${peak[cause]}`).join(', ');
  const title = `peak ${totalBytes(peak)} B: ${causes} (pool ${pool}, ring ${ring})`;
  return createTable(rows, { title });
}
