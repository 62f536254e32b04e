import { ConfigError } from '../core';
import { leftAtPeak, memoryAtPeak, memoryAtRest, type StepRecord, totalBytes } from '../ledger';
import { createFigure, type Figure } from './figure';
import { byteScale, counted, inUnit, type Scaled, short } from './format';
import { ticks, titled } from './grammar/axes';
import { bold, fits, soft, strong } from './grammar/ink';
import { columns, note, pointed } from './grammar/marks';
import { CAUSE_FILL, STACK_ORDER } from './grammar/palette';
import { plot } from './grammar/plot';
import type { Annotation } from './grammar/plotly';
import { STATIC_WIDTH } from './grammar/template';
import { hatchText } from './memory-areas';
import { memorySpaces, memoryTimeline } from './memory-timeline';
import { peakQuantities, type RankPeak, ranksFinding } from './memory-words';
import { nameOf, type RunView, recordsOfStep } from './run-view';
import { type Cases, extremes } from './runs';
import { createTable } from './table';

/** Options of `run.memory()`. */
export interface MemoryOptions {
  /** 'time' draws one rank over one step; 'ranks' (default) draws every rank at the rank's own peak. */
  readonly over?: 'time' | 'ranks';
  /** 'both' draws the device above the host, over time. Default 'device'. */
  readonly space?: 'device' | 'both';
  /** The rank that 'time' draws; if it is given, the default of `over` is 'time'. Default: the rank with the highest peak. */
  readonly rank?: number;
  /** The step to show. Default: for 'time', the most typical of the last steps; for 'ranks', the last step. */
  readonly step?: number;
}

/** Draws a run's memory, for `run.memory()`. Throws: CONFIG for 'ranks' with 'both'. */
export function memoryFigure(run: RunView, { over, space, rank, step }: MemoryOptions = {}): Figure {
  if (space === 'both' && over === 'ranks') {
    throw new ConfigError("over: 'ranks' shows only the device; with space: 'both', set over: 'time'");
  }
  if (space === 'both') return memorySpaces(run, { rank, step });
  const isOverTime = over === 'time' || (over === undefined && rank !== undefined);
  return isOverTime ? memoryTimeline(run, { rank, step }) : memoryRanks(run, step);
}

const FRAME = { top: 76, left: 52, right: 12, pixels: 218 } as const;
const WIDTH = STATIC_WIDTH - FRAME.left - FRAME.right;
/** If there are more ranks than this, bars touch and have no numbers. */
const MAX_WIDE_BARS = 12;
const WIDEST_BAR = 150;

/**
 * Draws each rank's memory at the rank's own peak in a step (default: the last step), as a bar by cause. If there are many
 * ranks, only the highest and the lowest bar have labels.
 */
export function memoryRanks(run: RunView, step?: number): Figure {
  const [first, ...rest] = recordsOfStep(run.records, step);
  const peakOf = (record: typeof first) => {
    const bytes = memoryAtPeak(record);
    return {
      rank: record.rank,
      bytes,
      leftBytes: leftAtPeak(record),
      total: totalBytes(bytes),
      rest: totalBytes(memoryAtRest(record)),
    };
  };
  const peaks: Cases<RankPeak> = [peakOf(first), ...rest.map(peakOf)];
  const { most } = extremes(peaks, ({ total }) => total);
  const scale = byteScale(most.total);
  const isWide = peaks.length <= MAX_WIDE_BARS;
  const top = (most.total / scale.divisor) * (isWide ? 1.1 : 1.18) || 1;
  const rankTitle = isWide ? {} : titled('rank', 4);
  const range = [-0.6, peaks.length - 0.4] as const;
  return createFigure({
    runName: nameOf(run),
    title: ranksFinding(peaks, run.world, scale),
    subtitle: subtitleOf(peaks, run, [first, ...rest]),
    ...plot({ ...FRAME, foot: isWide ? 30 : 44, legend: 'plot', barmode: 'stack' }, [
      {
        x: { ...rankTicks(peaks), range, showgrid: false, ticks: '', ...rankTitle },
        y: { range: [0, top], ...titled(`${scale.unit} at the peak`) },
        data: causeColumns(peaks, scale, top),
        annotations: isWide ? totalsAbove(peaks, scale) : ends(peaks, scale),
      },
    ]),
    quantities: peakQuantities(most.bytes),
    table: createTable(
      peaks.map(({ rank, bytes, total, rest }) => ({ rank, ...bytes, peakBytes: total, restBytes: rest })),
    ),
  });
}

function subtitleOf(peaks: Cases<RankPeak>, run: RunView, records: Cases<StepRecord>): string {
  const all = `Each of ${counted(peaks.length, 'rank')} at its own peak`;
  const who = peaks.length === 1 ? `Rank ${peaks[0].rank} at its peak` : all;
  const hatched = peaks.length <= MAX_WIDE_BARS ? hatchText(records) : '';
  return `Held bytes. ${who}, step ${records[0].step} of ${run.strategy}.${hatched}`;
}

function causeColumns(peaks: Cases<RankPeak>, { divisor, unit }: Scaled, top: number) {
  const isWide = peaks.length <= MAX_WIDE_BARS;
  const slot = WIDTH / peaks.length;
  const label = (value: number): string => {
    const isTall = (value / top) * FRAME.pixels >= 13;
    return isWide && isTall && fits(short(value), 10, slot * 0.7) ? short(value) : '';
  };
  return STACK_ORDER.filter((cause) => peaks.some(({ bytes }) => bytes[cause] > 0)).map((cause) => {
    const items = peaks.map(({ bytes, rank }, at) => {
      const length = bytes[cause] / divisor;
      return { at, length, text: label(length), said: rank };
    });
    const hover = `rank %{customdata}: <b>${cause}</b> %{y:.2f} ${unit}<extra></extra>`;
    const fill = CAUSE_FILL[cause];
    // If there are many ranks, a bar is narrower than a hatch, so bars have no hatch.
    const style = isWide
      ? { fill, width: Math.min(0.7, WIDEST_BAR / slot) }
      : { fill: { color: fill.color }, width: 1, line: { width: 0 } };
    return columns(items, { ...style, name: cause, hover });
  });
}

function rankTicks(peaks: Cases<RankPeak>) {
  const isFew = peaks.length <= MAX_WIDE_BARS;
  const every = isFew ? 1 : Math.max(4, 2 ** Math.ceil(Math.log2(peaks.length / 16)));
  const last = peaks.length - 1;
  const kept = [...peaks.keys()].filter((i) => i === last || (i % every === 0 && i + every / 2 <= last));
  return ticks(kept, (i) => soft(isFew ? `rank ${peaks[i]?.rank}` : String(peaks[i]?.rank)));
}

function totalsAbove(peaks: Cases<RankPeak>, { divisor }: Scaled): Annotation[] {
  const place = { xanchor: 'center', yanchor: 'bottom' } as const;
  return peaks.map(({ total }, i) => note(i, total / divisor, bold(short(total / divisor)), place));
}

/** Labels the ranks with the highest and the lowest peak, if there are many ranks. */
function ends(peaks: Cases<RankPeak>, scale: Scaled): Annotation[] {
  const totals = peaks.map(({ total }) => total);
  const [high, low] = [Math.max(...totals), Math.min(...totals)];
  const [most, least] = [totals.indexOf(high), totals.lastIndexOf(low)];
  const at = (i: number, text: string, below: number): Annotation => {
    const aside = i > peaks.length * 0.6 ? -34 : 34;
    return pointed(i, (totals[i] ?? 0) / scale.divisor, text, { aside, below });
  };
  if (high === low) return [at(most, `${bold(inUnit(high, scale))} ${strong('on every rank')}`, -12)];
  const named = (i: number): string => `rank ${peaks[i]?.rank}: ${inUnit(totals[i] ?? 0, scale)}`;
  const gap = (high - low) / high;
  const below = -12 - gap * FRAME.pixels * 0.85 - (Math.abs(most - least) < peaks.length / 4 ? 16 : 0);
  return [at(most, bold(named(most)), -12), at(least, soft(`least: ${named(least)}`), Math.max(below, -70))];
}
