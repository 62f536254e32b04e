import type { MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import { memoryAtPeak, memoryAtRest, totalBytes } from '../ledger/memory';
import { type BytesByCause, noBytes, type StepRecord } from '../ledger/record';
import { createFigure, type Figure, titleOf } from './figure';
import { byteScale, counted, inUnit, type Scaled, short } from './format';
import { titled } from './grammar/axes';
import { bold, soft, strong } from './grammar/ink';
import { columns, note, pointed } from './grammar/marks';
import { CAUSE_FILL, STACK_ORDER } from './grammar/palette';
import { plot } from './grammar/plot';
import type { Annotation, BarTrace } from './grammar/plotly';
import { STATIC_WIDTH } from './grammar/template';
import { fits } from './grammar/text-width';
import { peakFinding, peakQuantities } from './memory-findings';
import { type RunView, recordsOfStep } from './run-view';
import { createTable } from './table';

export interface MemoryRanksOptions {
  /** Default: the last step that all ranks finished. */
  readonly step?: number;
}

const FRAME = { top: 76, left: 52, right: 12, pixels: 218 } as const;
const WIDTH = STATIC_WIDTH - FRAME.left - FRAME.right;
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
    ...plot({ ...FRAME, foot: isWide ? 30 : 44, legend: 'plot', barmode: 'stack' }, [
      {
        x: {
          ...rankTicks(peaks.map(({ rank }) => rank)),
          range: [-0.6, peaks.length - 0.4],
          showgrid: false,
          ticks: '',
          ...(isWide ? {} : titled('rank', 4)),
        },
        y: { range: [0, top], ...titled(`${scale.unit} at the peak`) },
        data: causes.map((cause) => causeColumns(cause, peaks, { scale, isWide, top })),
        annotations: isWide ? totalsAbove(totals, scale) : ends(peaks, totals, scale),
      },
    ]),
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

interface ColumnStyle {
  readonly scale: Scaled;
  readonly isWide: boolean;
  /** The axis's end. */
  readonly top: number;
}

function causeColumns(
  cause: MemoryCause,
  peaks: readonly RankPeak[],
  { scale, isWide, top }: ColumnStyle,
): BarTrace {
  const { color, pattern } = CAUSE_FILL[cause];
  const slot = WIDTH / peaks.length;
  const label = (value: number): string => {
    const isTall = (value / top) * FRAME.pixels >= 13;
    return isWide && isTall && fits(short(value), 10, slot * 0.7) ? short(value) : '';
  };
  const items = peaks.map(({ bytes, rank }, at) => {
    const height = bytes[cause] / scale.divisor;
    return { at, height, text: label(height), said: rank };
  });
  const style = {
    name: cause,
    hover: `rank %{customdata}: <b>${cause}</b> %{y:.2f} ${scale.unit}<extra></extra>`,
  };
  // Hatches are finer than the bars of many ranks.
  if (!isWide) return columns(items, { ...style, fill: { color }, width: 1, line: { width: 0 } });
  const fill = pattern === undefined ? { color } : { color, pattern };
  return columns(items, { ...style, fill, width: Math.min(0.7, WIDEST_BAR / slot) });
}

function rankTicks(ranks: readonly number[]): { tickvals: number[]; ticktext: string[] } {
  const isFew = ranks.length <= MAX_WIDE_BARS;
  const every = isFew ? 1 : Math.max(4, 2 ** Math.ceil(Math.log2(ranks.length / 16)));
  const shown = ranks.map((_, i) => i).filter((i) => i % every === 0 || i === ranks.length - 1);
  const kept = shown.filter((i) => i === ranks.length - 1 || i + every / 2 < ranks.length);
  return { tickvals: kept, ticktext: kept.map((i) => soft(isFew ? `rank ${ranks[i]}` : String(ranks[i]))) };
}

function totalsAbove(totals: readonly Bytes[], scale: Scaled): Annotation[] {
  const place = { xanchor: 'center', yanchor: 'bottom' } as const;
  return totals.map((total, i) => {
    const value = total / scale.divisor;
    return note(i, value, bold(short(value)), place);
  });
}

/** Names the highest and the lowest of many ranks. */
function ends(peaks: readonly RankPeak[], totals: readonly Bytes[], scale: Scaled): Annotation[] {
  const most = totals.indexOf(Math.max(...totals));
  const least = totals.lastIndexOf(Math.min(...totals));
  const at = (i: number, text: string, rise: number): Annotation =>
    pointed(i, (totals[i] ?? 0) / scale.divisor, text, { aside: i > peaks.length * 0.6 ? -34 : 34, rise });
  const named = (i: number): string => `rank ${peaks[i]?.rank}: ${inUnit(totals[i] ?? 0, scale)}`;
  if (totals[most] === totals[least])
    return [at(most, `${bold(inUnit(totals[most] ?? 0, scale))} ${strong('on every rank')}`, -12)];
  const gap = ((totals[most] ?? 0) - (totals[least] ?? 0)) / Math.max(...totals);
  const rise = -12 - gap * FRAME.pixels * 0.85 - (Math.abs(most - least) < peaks.length / 4 ? 16 : 0);
  return [at(most, bold(named(most)), -12), at(least, soft(`least: ${named(least)}`), Math.max(rise, -70))];
}

function row(peak: RankPeak, record: StepRecord | undefined, total: Bytes) {
  const rest = record === undefined ? 0 : totalBytes(memoryAtRest(record));
  return { rank: peak.rank, ...peak.bytes, peakBytes: total, restBytes: rest };
}
