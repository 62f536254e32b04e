import { type Bytes, ConfigError } from '../../core';
import type { Estimate } from '../../planner';
import { createFigure, type Figure, type Quantities, quantity, type Title } from '../figure';
import { byteScale, counted, inUnit, quoted, short, timeScale } from '../format';
import { columnAxis, titled } from '../grammar/axes';
import { bold, fits, safe, soft, strong, wrapped, wrappedMarkup } from '../grammar/ink';
import { columns, line, note, ruleY } from '../grammar/marks';
import { type Fill, NEUTRAL_FILL, OVER, PHASE_FILL } from '../grammar/palette';
import { type Facet, type Panel, plotFacets } from '../grammar/plot';
import type { Annotation, Axis, BarTrace, ScatterTrace } from '../grammar/plotly';
import { STATIC_WIDTH } from '../grammar/template';
import { createTable, type Table } from '../table';

const FRAME = { top: 70, left: 56, right: 14, foot: 14 } as const;
/** Heights of a row of panels, top to bottom, in pixels. */
const HEADING = 22;
const TIME = 116;
const GAP = 14;
const MEMORY = 100;
const TICKS = 26;
/** The height of the lowest bar that has room for its number. */
const LEAST_BAR = 22;
/** The fill of a setting that does not fit. */
const TOO_MUCH: Fill = { color: 'rgba(128,128,128,.28)' };

/** One of the two panels of a knob: time or memory. */
interface Row {
  readonly title: string;
  readonly fill: Fill;
  readonly divisor: number;
  /** The largest value on the axis, in the axis's unit. */
  readonly most: number;
  /** The panel's distance from the heading and its height (`pixels`), both in pixels. */
  readonly from: number;
  readonly pixels: number;
  of(setting: WhatIfSetting): Estimate;
}

/**
 * Draws small multiples: per knob, a panel of iteration times, and below it a panel of peaks with a line at the usable memory.
 * Settings that do not fit are grey. Throws: CONFIG without a setting.
 */
export function whatIfFigure(
  knobs: readonly WhatIfKnob[],
  { capacityBytes, subtitle }: { readonly capacityBytes: Bytes; readonly subtitle: string },
): Figure {
  const settings = knobs.flatMap((knob) => knob.settings);
  if (settings.length === 0) throw new ConfigError('no knob to change; pass at least one with a setting');
  const longest = Math.max(...settings.map(({ seconds }) => seconds.high));
  const largest = Math.max(capacityBytes, ...settings.map(({ memoryBytes }) => memoryBytes.high));
  const [time, bytes] = [timeScale(longest), byteScale(largest)];
  const timeRow: Row = {
    title: `same tokens, ${time.unit}`,
    fill: PHASE_FILL.backward,
    divisor: time.divisor,
    most: longest / time.divisor,
    from: 0,
    pixels: TIME,
    of: ({ seconds }) => seconds,
  };
  const memoryRow: Row = {
    title: `peak, ${bytes.unit}`,
    fill: NEUTRAL_FILL,
    divisor: bytes.divisor,
    most: largest / bytes.divisor,
    from: TIME + GAP,
    pixels: MEMORY,
    of: ({ memoryBytes }) => memoryBytes,
  };
  const dashed = { width: 1.5, color: OVER, dash: 'dash' } as const;
  const panelsOf = (knob: WhatIfKnob, facet: Facet): Panel[] => {
    const below = knobPanel(knob, facet, memoryRow);
    const across = [-0.5, knob.settings.length - 0.5] as const;
    return [
      {
        ...knobPanel(knob, facet, timeRow),
        heading: wrappedMarkup(knob.knob, 12, facet.pixels - 6, safe),
      },
      {
        ...below,
        x: { ...below.x, ...namesOf(knob, facet) },
        shapes: [ruleY(capacityBytes / bytes.divisor, across, dashed)],
      },
    ];
  };
  return createFigure({
    title: whatIfFinding(knobs),
    subtitle: `${subtitle} Dashed: ${inUnit(capacityBytes, bytes)} usable.`,
    ...plotFacets(knobs, FRAME, { heading: HEADING, body: bodyOf(knobs), between: 14, gap: 0.03 }, panelsOf),
    table: settingsTable(knobs),
    quantities: settingQuantities(settings),
  });
}

/** Returns the height of a knob's panels, with room for the longest name of a setting. */
function bodyOf(knobs: readonly WhatIfKnob[]): number {
  const width = STATIC_WIDTH - FRAME.left - FRAME.right;
  const numLines = knobs.flatMap(({ settings }) => {
    const slot = width / Math.min(knobs.length, 4) / settings.length - 10;
    return settings.map(({ name }) => wrapped(name, 10, slot).length);
  });
  return TIME + GAP + MEMORY + TICKS + (Math.max(...numLines) - 1) * 12.5;
}

/** A setting's bar; its values are in the row's unit. */
interface Bar extends Estimate {
  readonly name: string;
  readonly fits: boolean;
}

function knobPanel({ settings }: WhatIfKnob, facet: Facet, row: Row): Panel {
  const shown = settings.map((setting): Bar => {
    const { value, low, high } = row.of(setting);
    const { divisor } = row;
    return { ...setting, value: value / divisor, low: low / divisor, high: high / divisor };
  });
  return {
    x: { ...columnAxis(null, shown.length), domain: facet.across },
    y: {
      ...(facet.isLeft ? titled(row.title) : { showticklabels: false, ticks: '' }),
      range: [0, row.most * 1.06],
      domain: facet.down(row.from, row.from + row.pixels),
    },
    data: [...settingColumns(shown, row.fill), whiskers(shown)],
    annotations: values(shown, facet, row),
  };
}

function settingColumns(shown: readonly Bar[], fill: Fill): BarTrace[] {
  return [true, false].flatMap((isFitting) => {
    const items = shown.flatMap((bar, at) =>
      bar.fits === isFitting ? [{ at, length: bar.value, said: hover(bar) }] : [],
    );
    const style = { fill: isFitting ? fill : TOO_MUCH, width: 0.64, hover: '%{customdata}<extra></extra>' };
    return items.length === 0 ? [] : [columns(items, style)];
  });
}

function whiskers(shown: readonly Bar[]): ScatterTrace {
  const ranged = shown.flatMap(({ low, high }, i) => (low < high ? [{ i, low, high }] : []));
  const points = {
    x: ranged.flatMap(({ i }) => [i, i, Number.NaN]),
    y: ranged.flatMap(({ low, high }) => [low, high, Number.NaN]),
  };
  return line(points, { width: 1.2, color: '#8a8a8a' }, { hoverinfo: 'skip' });
}

function hover({ name, fits: isFitting, value, low, high }: Bar): string {
  const range = low < high ? ` (${short(low)} to ${short(high)})` : '';
  return `<b>${safe(name)}</b>: ${short(value)}${range}${isFitting ? '' : ', does not fit'}`;
}

function namesOf({ settings }: WhatIfKnob, { pixels }: Facet): Axis {
  const names = settings.map(({ name, isBase }) => {
    const mark = isBase === true ? bold : soft;
    return wrappedMarkup(name, 10, pixels / settings.length - 4, (line) => mark(safe(line)));
  });
  return { ...columnAxis(names, settings.length), showticklabels: true, tickfont: { size: 10 } };
}

/** Writes numbers at the foot of the bars, or above low bars; writes none if they do not fit beside each other. */
function values(shown: readonly Bar[], facet: Facet, row: Row): Annotation[] {
  const place = { xanchor: 'center', yanchor: 'bottom', font: { size: 10 } } as const;
  if (shown.some(({ value }) => !fits(short(value), 10, facet.pixels / shown.length))) return [];
  return shown.map(({ value, high, fits: isFitting }, i) => {
    const isInside = (value / row.most) * row.pixels > LEAST_BAR;
    const onBar = `<span style="color:${isFitting ? '#fff' : '#111'}">${short(value)}</span>`;
    return note(i, isInside ? 0 : Math.max(value, high), isInside ? onBar : strong(short(value)), place);
  });
}

/** The figure's layout, in which one knob has another value. */
export interface WhatIfSetting {
  /** The knob's value as text: '4'. */
  readonly name: string;
  readonly seconds: Estimate;
  readonly memoryBytes: Estimate;
  readonly fits: boolean;
  /** Whether the figure's layout itself has this value. */
  readonly isBase: boolean;
  /** Whether this setting changes the tokens per iteration, so that `seconds` was scaled to the tokens of the layout. */
  readonly isScaled: boolean;
}

/** A knob, and the values to which it is set while the other knobs do not change. */
export interface WhatIfKnob {
  readonly knob: string;
  readonly settings: readonly WhatIfSetting[];
}

/** Makes a table with a row per setting. */
function settingsTable(knobs: readonly WhatIfKnob[]): Table {
  return createTable(
    knobs.flatMap(({ knob, settings }) =>
      settings.map(({ name, seconds, memoryBytes, fits, isBase, isScaled }) => ({
        knob,
        setting: name,
        seconds: seconds.value,
        lowSeconds: seconds.low,
        highSeconds: seconds.high,
        memoryBytes: memoryBytes.value,
        lowMemoryBytes: memoryBytes.low,
        highMemoryBytes: memoryBytes.high,
        fits,
        isBase,
        isScaled,
      })),
    ),
  );
}

/** Returns the numbers that a reader may guess. */
function settingQuantities(settings: readonly WhatIfSetting[]): Quantities {
  const fitting = settings.filter((setting) => setting.fits);
  const times = fitting.map(({ seconds }) => seconds.value);
  const spread = times.length === 0 ? 1 : Math.max(...times) / Math.min(...times);
  return {
    numFitting: quantity(fitting.length, '', (count) => `${count} of ${settings.length} settings fit`),
    timeSpread: quantity(
      spread,
      '×',
      (times) => `the slowest setting that fits takes ${times} as long as the fastest`,
    ),
  };
}

/** Names the knobs that change time and peak most. */
function whatIfFinding(knobs: readonly WhatIfKnob[]): Title {
  const time = widest(knobs, ({ seconds }) => seconds.value);
  const memory = widest(knobs, ({ memoryBytes }) => memoryBytes.value);
  const settings = knobs.flatMap((knob) => knob.settings);
  const fitting = settings.filter(({ fits }) => fits).length;
  const count = `${fitting} of ${counted(settings.length, 'setting')} fit`;
  if (time.ratio < 1.005 && memory.ratio < 1.005) return [`No knob changes the time or the peak; ${count}`];
  const peaks = rangeText(memory.low, memory.high);
  if (time.knob === memory.knob) {
    return [
      `${quoted(time.knob)} changes time (${time.ratio.toFixed(1)}×) and peak (${peaks}) most; ${count}`,
      `${quoted(time.knob)} changes both the time and the peak most; ${count}`,
    ];
  }
  return [
    `Largest effect on time: ${time.knob} (${time.ratio.toFixed(1)}×); on the peak: ${memory.knob} (${peaks})`,
    `Largest effect on time: ${time.knob} (${time.ratio.toFixed(1)}×); on peak: ${memory.knob} (${peaks})`,
    `Largest effect on time: ${time.knob} (${time.ratio.toFixed(1)}×); on the peak: ${memory.knob}`,
    `The time changes by up to ${time.ratio.toFixed(1)}×; ${count}`,
  ];
}

interface Widest {
  readonly knob: string;
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
}

function widest(knobs: readonly WhatIfKnob[], size: (setting: WhatIfSetting) => number): Widest {
  const ranges = knobs.map(({ knob, settings }): Widest => {
    const values = settings.map(size);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return { knob, ratio: high / (low || 1), low, high };
  });
  return ranges.reduce((a, b) => (b.ratio > a.ratio ? b : a));
}

/** Formats a range, as '37.2–92.9 GB', rounded like the numbers in the bars. */
function rangeText(low: number, high: number): string {
  const { divisor, unit } = byteScale(high);
  return `${short(low / divisor)}–${short(high / divisor)} ${unit}`;
}
