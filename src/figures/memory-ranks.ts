import type { MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import { memoryAtPeak, memoryAtRest, totalBytes } from '../ledger/memory';
import { type BytesByCause, noBytes, type StepRecord } from '../ledger/record';
import { createFigure, type Figure, titleOf } from './figure';
import { byteScale, counted, inUnit, type Scaled, short } from './format';
import { bold, soft, strong } from './ink';
import { peakFinding, peakQuantities } from './memory-findings';
import { CAUSE_FILL, inkOn, NEUTRAL, STACK_ORDER } from './palette';
import type { Annotation, BarTrace } from './plotly';
import { type RunView, recordsOfStep } from './run-view';
import { createTable } from './table';
import { fits } from './text-width';

export interface MemoryRanksOptions {
  /** Default: the last step that all ranks finished. */
  readonly step?: number;
}

const HEIGHT = 370;
const MARGIN = { t: 76, r: 12, l: 52, b: 76 };
const PLOT_PIXELS = 800 - MARGIN.l - MARGIN.r;
const PLOT_HEIGHT = HEIGHT - MARGIN.t - MARGIN.b;
/** With more ranks bars touch and carry no numbers. */
const MAX_WIDE_BARS = 12;
const WIDEST_BAR = 150;

/** Every rank's memory at its own peak as a stacked bar by cause; the highest and the lowest rank are named. */
export function memoryRanks(run: RunView, options: MemoryRanksOptions = {}): Figure {
  const records = recordsOfStep(run.records, options.step);
  const peaks = records.map((record) => ({ rank: record.rank, bytes: memoryAtPeak(record) }));
  const totals = peaks.map(({ bytes }) => totalBytes(bytes));
  const most = Math.max(...totals);
  const scale = byteScale(most);
  const causes = STACK_ORDER.filter((cause) => peaks.some(({ bytes }) => bytes[cause] > 0));
  const isWide = peaks.length <= MAX_WIDE_BARS;
  const top = (most / scale.divisor) * (isWide ? 1.1 : 1.18) || 1;
  return createFigure({
    title: findingOf(peaks, totals, run, scale),
    subtitle: subtitleOf(peaks, run, records[0]?.step),
    data: causes.map((cause) => bars(cause, peaks, { scale, isWide, top })),
    layout: {
      height: HEIGHT,
      margin: MARGIN,
      barmode: 'stack',
      bargap: isWide ? Math.max(0.3, 1 - WIDEST_BAR / (PLOT_PIXELS / peaks.length)) : 0,
      showlegend: true,
      legend: { y: isWide ? -0.14 : -0.2 },
      xaxis: {
        ...rankTicks(peaks.map(({ rank }) => rank)),
        range: [-0.6, peaks.length - 0.4],
        showgrid: false,
        ticks: '',
        title: { text: isWide ? '' : soft('rank'), standoff: 4, font: { size: 11 } },
      },
      yaxis: {
        range: [0, top],
        title: { text: soft(`${scale.unit} at the peak`), standoff: 8, font: { size: 11 } },
      },
      annotations: isWide ? totalsAbove(totals, scale) : ends(peaks, totals, scale),
    },
    quantities: peakQuantities((peaks[totals.indexOf(most)] ?? peaks[0])?.bytes ?? noBytes()),
    table: createTable(peaks.map((peak, i) => row(peak, records[i], totals[i] ?? 0))),
  });
}

function subtitleOf(peaks: readonly RankPeak[], run: RunView, step: number | undefined): string {
  const who =
    peaks.length === 1
      ? `Rank ${peaks[0]?.rank} at its peak`
      : `Each of ${counted(peaks.length, 'rank')} at its own peak`;
  const hatched = peaks.length <= MAX_WIDE_BARS ? ' Hatched: transient.' : '';
  return `${who}, step ${step} of ${run.strategy}, held bytes.${hatched}`;
}

interface RankPeak {
  readonly rank: number;
  readonly bytes: BytesByCause;
}

function findingOf(
  peaks: readonly RankPeak[],
  totals: readonly Bytes[],
  run: RunView,
  scale: Scaled,
): string {
  const most = Math.max(...totals);
  const least = Math.min(...totals);
  const top = peaks[totals.indexOf(most)];
  if (top === undefined || most === 0) return 'Nothing was held on the device';
  const low = peaks[totals.indexOf(least)];
  if (most > least * 1.05 && low !== undefined) {
    const factor = least > 0 ? `${(most / least).toPrecision(2)}×` : 'more than';
    const cause = STACK_ORDER.reduce((a, b) => (growth(b, top, low) > growth(a, top, low) ? b : a));
    return titleOf(`Rank ${top.rank} needs ${factor} the memory of rank ${low.rank}: ${cause} differs most`);
  }
  const [finding, shorter] = peakFinding(top.bytes, run.world);
  if (peaks.length === 1) return titleOf(finding, shorter);
  const alike = most === least ? 'exactly' : 'within 5%';
  return titleOf(`All ranks peak alike, ${alike}: ${inUnit(most, scale)}; ${shorter}`, finding, shorter);
}

function growth(cause: MemoryCause, top: RankPeak, low: RankPeak): Bytes {
  return top.bytes[cause] - low.bytes[cause];
}

interface BarStyle {
  readonly scale: Scaled;
  readonly isWide: boolean;
  /** The axis's end. */
  readonly top: number;
}

function bars(cause: MemoryCause, peaks: readonly RankPeak[], { scale, isWide, top }: BarStyle): BarTrace {
  const fill = CAUSE_FILL[cause];
  const values = peaks.map(({ bytes }) => bytes[cause] / scale.divisor);
  const barPixels = (PLOT_PIXELS / peaks.length) * 0.7;
  const label = (value: number): string => {
    const tall = (value / top) * PLOT_HEIGHT >= 13;
    return isWide && tall && fits(short(value), 10, barPixels) ? short(value) : '';
  };
  return {
    type: 'bar',
    x: peaks.map((_, i) => i),
    y: values.map((value) => Number(value.toPrecision(6))),
    name: soft(cause),
    text: values.map(label),
    textposition: 'inside',
    insidetextanchor: 'middle',
    textangle: 0,
    textfont: { size: 10, color: inkOn(fill) },
    marker: {
      color: fill.color,
      // Hatches are finer than the bars of many ranks.
      pattern: isWide ? (fill.pattern ?? { shape: '' }) : { shape: '' },
      line: isWide ? { width: 0.5, color: NEUTRAL } : { width: 0 },
    },
    customdata: peaks.map(({ rank }) => rank),
    hovertemplate: `rank %{customdata}: <b>${cause}</b> %{y:.2f} ${scale.unit}<extra></extra>`,
  };
}

function rankTicks(ranks: readonly number[]): { tickvals: number[]; ticktext: string[] } {
  const isFew = ranks.length <= MAX_WIDE_BARS;
  const every = isFew ? 1 : Math.max(4, 2 ** Math.ceil(Math.log2(ranks.length / 16)));
  const shown = ranks.map((_, i) => i).filter((i) => i % every === 0 || i === ranks.length - 1);
  const kept = shown.filter((i) => i === ranks.length - 1 || i + every / 2 < ranks.length);
  return { tickvals: kept, ticktext: kept.map((i) => soft(isFew ? `rank ${ranks[i]}` : String(ranks[i]))) };
}

function totalsAbove(totals: readonly Bytes[], scale: Scaled): Annotation[] {
  return totals.map((total, i) => ({
    x: i,
    y: total / scale.divisor,
    text: bold(short(total / scale.divisor)),
    showarrow: false,
    yanchor: 'bottom',
    font: { size: 11 },
  }));
}

/** Names the highest and the lowest of many ranks. */
function ends(peaks: readonly RankPeak[], totals: readonly Bytes[], scale: Scaled): Annotation[] {
  const most = totals.indexOf(Math.max(...totals));
  const least = totals.lastIndexOf(Math.min(...totals));
  const note = (i: number, text: string, rise: number): Annotation => {
    const isRight = i > peaks.length * 0.6;
    return {
      x: i,
      y: (totals[i] ?? 0) / scale.divisor,
      text,
      ax: isRight ? -34 : 34,
      ay: rise,
      showarrow: true,
      arrowhead: 0,
      arrowwidth: 1,
      arrowcolor: NEUTRAL,
      xanchor: isRight ? 'right' : 'left',
      font: { size: 11 },
    };
  };
  const named = (i: number): string => `rank ${peaks[i]?.rank}: ${inUnit(totals[i] ?? 0, scale)}`;
  const highest = note(most, bold(named(most)), -12);
  if (totals[most] === totals[least])
    return [{ ...highest, text: `${bold(inUnit(totals[most] ?? 0, scale))} ${strong('on every rank')}` }];
  const gap = ((totals[most] ?? 0) - (totals[least] ?? 0)) / Math.max(...totals);
  const rise = -12 - gap * PLOT_HEIGHT * 0.85 - (Math.abs(most - least) < peaks.length / 4 ? 16 : 0);
  return [highest, note(least, soft(`least: ${named(least)}`), Math.max(rise, -70))];
}

function row(peak: RankPeak, record: StepRecord | undefined, total: Bytes) {
  const rest = record === undefined ? 0 : totalBytes(memoryAtRest(record));
  return { rank: peak.rank, ...peak.bytes, peakBytes: total, restBytes: rest };
}
