import type { Bytes } from '../core/units';
import { type MemoryOverTime, memoryAtPeak, memoryOverTime, totalBytes } from '../ledger/memory';
import type { StepRecord } from '../ledger/record';
import { temporaries } from '../ledger/temporaries';
import { timeline } from '../ledger/timeline';
import { createFigure, type Figure, titleOf } from './figure';
import { byteScale, counted, inUnit, timeScale } from './format';
import { titled } from './grammar/axes';
import { bold, safe, strong } from './grammar/ink';
import { line, pointed, rounded } from './grammar/marks';
import { STACK_ORDER } from './grammar/palette';
import { type Panel, plot } from './grammar/plot';
import type { Annotation, ScatterTrace } from './grammar/plotly';
import { STATIC_WIDTH } from './grammar/template';
import { causeAreas, causesIn, DOTTED, type MemoryScales, thinned } from './memory-areas';
import { recordOf, stepWithCurve } from './memory-case';
import { peakFinding, peakQuantities } from './memory-findings';
import { peakPanels } from './peak-panel';
import { phaseStrip, phases } from './phase-strip';
import { higherPeak, type RunView, recordsOfStep } from './run-view';
import { createTable, type Table } from './table';

export interface MemoryTimelineOptions {
  /** The rank whose causes are shown. Default: the one with the highest peak. */
  readonly rank?: number;
  /** Default: of those whose every allocation was kept the one nearest the medians of the last steps. */
  readonly step?: number;
}

const HEIGHT = 420;
const FRAME = { top: 92, left: 52, right: 10, foot: 46 } as const;
const PLOT_SHARE = 0.675;
const PLOT_PIXELS = (STATIC_WIDTH - FRAME.left - FRAME.right) * PLOT_SHARE;
const MAX_POINTS = 500;
/** More ranks than this are shown by the highest and the lowest only. */
const MAX_DOTTED = 8;

/** One rank's memory over one step by cause, with the step's phases above and the peak taken apart beside it. */
export function memoryTimeline(run: RunView, options: MemoryTimelineOptions = {}): Figure {
  const records = recordsOfStep(run.records, options.step ?? stepWithCurve(run));
  const record = options.rank === undefined ? records.reduce(higherPeak) : recordOf(records, options.rank);
  const curve = memoryOverTime(record);
  const bytes = byteScale(record.memory.peakBytes);
  const time = timeScale(record.end - record.start);
  const scales = { bytes, time };
  const atPeak = memoryAtPeak(record);
  const [finding, shorter] = peakFinding(atPeak, run.world);
  const others = otherRanks(records, record);
  const { ring } = temporaries(record).atPeak;
  const pixels = HEIGHT - FRAME.top - FRAME.foot;
  const seconds = Math.max(...[record, ...others.records].map(({ start, end }) => end - start));
  const strip = phaseStrip(phases(timeline(record)), (at) => at / time.divisor, {
    pixels: PLOT_PIXELS,
    seconds,
  });
  const main: Panel = {
    x: {
      domain: [0, PLOT_SHARE],
      range: [0, seconds / time.divisor || 1],
      ...titled(`${time.unit} in the step`),
    },
    y: {
      range: [0, (highest(records) / bytes.divisor) * 1.1 || 1],
      ...titled(`${bytes.unit} on the device`),
    },
    data: [
      ...causeAreas(curve, scales, { maxPoints: MAX_POINTS, extra: `rank ${record.rank}` }),
      ...others.records.map((other) => dotted(other, scales)),
    ],
    annotations: [...peakNote(record, scales), ...strip.annotations],
    shapes: strip.shapes,
  };
  return createFigure({
    title: titleOf(finding, shorter),
    subtitle: subtitleOf(run, record, others.said),
    ...plot({ ...FRAME, pixels }, [main, ...peakPanels({ atPeak, ring }, causesIn(curve), bytes, pixels)]),
    table: tableOf(record, curve),
    quantities: peakQuantities(atPeak),
  });
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

function dotted(record: StepRecord, { bytes, time }: MemoryScales): ScatterTrace {
  const curve = thinned(memoryOverTime(record), MAX_POINTS / 2);
  const points = {
    x: curve.seconds.map((seconds) => rounded(seconds / time.divisor)),
    y: curve.total.map((held) => rounded(held / bytes.divisor)),
  };
  const said = `<b>rank ${record.rank}</b> %{y:.2f} ${bytes.unit} at %{x:.2f} ${time.unit}<extra></extra>`;
  const spec = { ...DOTTED, width: 1.1, shape: 'hv' } as const;
  return line(points, spec, { name: `rank ${record.rank}`, hovertemplate: said });
}

/** Names the peak and where it is; to its right where there is room. */
function peakNote(record: StepRecord, { bytes, time }: MemoryScales): Annotation[] {
  const { peakBytes, peakSeconds } = record.memory;
  const seconds = record.end - record.start;
  if (peakBytes === 0 || seconds <= 0) return [];
  const text = `${bold(`peak ${inUnit(peakBytes, bytes)}`)} ${strong(safe(momentOf(record)))}`;
  const aside = peakSeconds > seconds * 0.55 ? -26 : 26;
  return [pointed(peakSeconds / time.divisor, peakBytes / bytes.divisor, text, { aside, rise: -11 })];
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
