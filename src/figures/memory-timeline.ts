import type { MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import { leftAtPeak, type MemoryOverTime, memoryAtPeak, memoryOverTime, totalBytes } from '../ledger/memory';
import type { BytesByCause, StepRecord } from '../ledger/record';
import { temporaries } from '../ledger/temporaries';
import { timeline } from '../ledger/timeline';
import { createFigure, type Figure } from './figure';
import { byteScale, counted, inUnit, percent, type Scaled, short, timeScale } from './format';
import { titled } from './grammar/axes';
import { bold, safe, soft, strong } from './grammar/ink';
import { filled, note, pointed, spread } from './grammar/marks';
import { CAUSE_FILL, STACK_ORDER } from './grammar/palette';
import { type Panel, plot } from './grammar/plot';
import type { Annotation, Axis, BarTrace } from './grammar/plotly';
import { STATIC_WIDTH } from './grammar/template';
import { causeAreas, causesIn, hatchText, type MemoryScales, phaseStrip, totalLine } from './memory-areas';
import { chosenRecords, type MemoryChoice } from './memory-case';
import { peakFinding, peakQuantities } from './memory-findings';
import type { RunView } from './run-view';
import { createTable, type Table } from './table';

const HEIGHT = 420;
const FRAME = { top: 92, left: 52, right: 10, foot: 46 } as const;
const PLOT_SHARE = 0.675;
const PLOT_PIXELS = (STATIC_WIDTH - FRAME.left - FRAME.right) * PLOT_SHARE;
const MAX_POINTS = 500;
/** The most dotted lines. If there would be more, only the ranks with the highest and the lowest peak have dotted lines. */
const MAX_DOTTED = 8;

/** Draws one rank's memory over a step by cause, with the step's phases above it and the peak by cause beside it. */
export function memoryTimeline(run: RunView, choice: MemoryChoice = {}): Figure {
  const { records, record } = chosenRecords(run, choice);
  const curve = memoryOverTime(record);
  const bytes = byteScale(record.memory.peakBytes);
  const time = timeScale(record.end - record.start);
  const scales = { bytes, time };
  const atPeak = memoryAtPeak(record);
  const others = otherRanks(records, record);
  const { ring } = temporaries(record).atPeak;
  const pixels = HEIGHT - FRAME.top - FRAME.foot;
  const seconds = Math.max(...[record, ...others.records].map(({ start, end }) => end - start));
  const highest = Math.max(...records.map(({ memory }) => memory.peakBytes));
  const strip = phaseStrip(record, time, { pixels: PLOT_PIXELS, seconds });
  const main: Panel = {
    x: {
      domain: [0, PLOT_SHARE],
      range: [0, seconds / time.divisor || 1],
      ...titled(`${time.unit} in the step`),
    },
    y: { range: [0, (highest / bytes.divisor) * 1.1 || 1], ...titled(`${bytes.unit} on the device`) },
    data: [
      ...causeAreas(curve, scales, { maxPoints: MAX_POINTS, extra: `rank ${record.rank}` }),
      ...others.records.map((other) => totalLine(memoryOverTime(other), other.rank, scales, MAX_POINTS / 2)),
    ],
    annotations: [...peakNote(record, scales), ...strip.annotations],
    shapes: strip.shapes,
  };
  return createFigure({
    title: [...peakFinding(atPeak, leftAtPeak(record), run.world)],
    subtitle: subtitleOf(run, record, others.text),
    ...plot({ ...FRAME, pixels }, [main, ...peakPanels({ atPeak, ring }, causesIn(curve), bytes, pixels)]),
    table: tableOf(record, curve),
    quantities: peakQuantities(atPeak),
  });
}

/**
 * Returns the other ranks to draw as dotted lines, and a sentence about these ranks. Only ranks with a curve are drawn; if
 * there are many, only the ranks with the lowest and the highest peak.
 */
function otherRanks(all: readonly StepRecord[], { rank }: StepRecord) {
  const records = all.filter((other) => other.rank !== rank && other.memory.curve !== null);
  const ranks = records.map((other) => other.rank);
  if (records.length === 0) return { records, text: '' };
  if (records.length === 1) return { records, text: ` Dotted: total of rank ${ranks[0]}.` };
  if (records.length <= MAX_DOTTED) {
    const isRun = ranks.every((one, i) => i === 0 || one === (ranks[i - 1] ?? 0) + 1);
    const names = isRun ? `${ranks[0]} to ${ranks.at(-1)}` : ranks.join(', ');
    return { records, text: ` Dotted: totals of ranks ${names}.` };
  }
  const sorted = records.sort((a, b) => a.memory.peakBytes - b.memory.peakBytes);
  const ends = [...sorted.slice(0, 1), ...sorted.slice(-1)];
  const names = ends.map((end) => end.rank).join(' and ');
  return { records: ends, text: ` Dotted: ranks ${names}, lowest and highest.` };
}

function subtitleOf(run: RunView, record: StepRecord, dotted: string): string {
  const { rank, step, memory } = record;
  const what = `Rank ${rank}, step ${step} of ${run.strategy} on ${counted(run.world, 'rank')}.`;
  const missing = memory.curve === null ? ' Only the start, the peak and the end were stored.' : '';
  return `${what}${missing}${dotted}${hatchText([record])}`;
}

/** Labels the peak with its bytes and its moment in the step; the label is right of the peak if there is room. */
function peakNote(record: StepRecord, { bytes, time }: MemoryScales): Annotation[] {
  const { peakBytes, peakSeconds } = record.memory;
  const seconds = record.end - record.start;
  if (peakBytes === 0 || seconds <= 0) return [];
  const text = `${bold(`peak ${inUnit(peakBytes, bytes)}`)} ${strong(safe(momentOf(record)))}`;
  const aside = peakSeconds > seconds * 0.55 ? -26 : 26;
  return [pointed(peakSeconds / time.divisor, peakBytes / bytes.divisor, text, { aside, below: -11 })];
}

function momentOf(record: StepRecord): string {
  const at = record.memory.peakSeconds;
  const { main } = timeline(record);
  const now = main.findLast((segment) => segment.kind !== 'wait' && segment.start <= at + 1e-6);
  if (now === undefined) return 'before the forward pass';
  if (now.kind === 'loss') return 'in the loss';
  return now.module === '' || now.module.length > 18 ? `in ${now.kind}` : `in ${now.kind} of ${now.module}`;
}

function tableOf(record: StepRecord, { seconds, byCause, ring }: MemoryOverTime): Table {
  const { rank, step } = record;
  const rows = seconds.flatMap((at, i) =>
    STACK_ORDER.map((cause) => ({
      seconds: at,
      rank,
      step,
      cause,
      bytes: byCause[cause][i] ?? 0,
      ringBytes: cause === 'temp' ? (ring[i] ?? 0) : null,
    })),
  );
  const peak = memoryAtPeak(record);
  const atPeak = temporaries(record).atPeak;
  const causes = STACK_ORDER.map((cause) => `${cause} ${peak[cause]}`).join(', ');
  const title = `peak ${totalBytes(peak)} B: ${causes} (pool ${atPeak.pool}, ring ${atPeak.ring})`;
  return createTable(rows, { title });
}

const ABSENT_ROW = 18;
const LABEL_GAP = 14;
/** The x at which the labels begin, right of the bar's end. */
const LABEL = 0.58;
const ACROSS: Axis = { domain: [0.705, 1], range: [-0.5, 3.6], visible: false, fixedrange: true };
const UP: Axis = { visible: false, fixedrange: true };
/** If ring temporaries hold fewer bytes than this, the label does not show them. */
const LEAST_RING: Bytes = 1e3;

/**
 * Draws the peak as one bar whose labels are the figure's legend, and below it the causes that are absent at the peak. `ring`
 * is the bytes of temporaries that are passed from unit to unit; the other temporaries are freed within a unit.
 */
export function peakPanels(
  { atPeak, ring }: { readonly atPeak: BytesByCause; readonly ring: Bytes },
  seen: readonly MemoryCause[],
  { divisor, unit }: Scaled,
  pixels: number,
): Panel[] {
  const total = totalBytes(atPeak);
  const absent = seen.filter((cause) => atPeak[cause] === 0);
  const foot = (absent.length * ABSENT_ROW) / pixels;
  const [from, to] = [foot === 0 ? 0 : foot + 0.06, 0.96];
  let base = 0;
  const segments = seen.flatMap((cause) => {
    const bytes = atPeak[cause];
    base += bytes;
    const [held, share] = [short(bytes / divisor), percent(bytes / total)];
    return bytes > 0 ? [{ cause, bytes, start: base - bytes, held, share }] : [];
  });
  const perByte = ((to - from) * pixels) / total;
  const middles = segments.map(({ bytes, start }) => (start + bytes / 2) * perByte);
  // Each segment has a label at its middle; labels of thin segments are moved apart.
  const places = spread(middles, LABEL_GAP, 5, (to - from) * pixels - 4);
  const labels = segments.map(({ cause, held, share }, i) => {
    // The temporaries are the topmost segment (STACK_ORDER), so there is room beside their label.
    const ringText = cause === 'temp' && ring >= LEAST_RING ? soft(`, ring ${short(ring / divisor)}`) : '';
    const text = `${strong(cause)} ${bold(held)} ${soft(share)}${ringText}`;
    return note(LABEL, (places[i] ?? 0) / perByte / divisor, text);
  });
  const caption = { yref: 'paper', xshift: -3, yanchor: 'bottom' } as const;
  return [
    {
      x: ACROSS,
      y: { ...UP, domain: [from, to], range: [0, total / divisor || 1] },
      data: segments.map(({ cause, bytes, start, held, share }) => ({
        ...bar(cause, start / divisor, bytes / divisor),
        name: cause,
        hovertemplate: `<b>${cause}</b> ${held} ${unit}, ${share} of the peak<extra></extra>`,
      })),
      annotations: [
        ...(total > 0 ? [note(-0.45, 0.965, soft(`at the peak, ${unit}`), caption)] : []),
        ...labels,
      ],
    },
    {
      x: ACROSS,
      y: { ...UP, domain: [0, foot || 0.01], range: [-Math.max(1, absent.length), 0] },
      data: absent.map((cause, row) => ({ ...bar(cause, -row - 0.75, 0.5), hoverinfo: 'skip' })),
      annotations: absent.map((cause, row) =>
        note(LABEL, -row - 0.5, `${strong(cause)}${soft(' not at peak')}`),
      ),
    },
  ];
}

function bar(cause: MemoryCause, base: number, height: number): BarTrace {
  return { ...filled(CAUSE_FILL[cause]), width: 0.9, x: [0], y: [height], base: [base] };
}
