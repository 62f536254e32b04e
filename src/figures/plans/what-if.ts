import { type Bytes, ConfigError } from '../../core';
import type { Estimate } from '../../planner';
import { createFigure, type Figure } from '../figure';
import { byteScale, inUnit, short, timeScale } from '../format';
import { columnAxis, titled } from '../grammar/axes';
import { bold, safe, soft, strong } from '../grammar/ink';
import { columns, line, note, ruleY } from '../grammar/marks';
import { type Fill, NEUTRAL_FILL, OVER, PHASE_FILL } from '../grammar/palette';
import { type Facet, type Panel, plotFacets } from '../grammar/plot';
import type { Annotation, Axis, BarTrace, ScatterTrace } from '../grammar/plotly';
import { STATIC_WIDTH } from '../grammar/template';
import { fits, wrapped, wrappedMarkup } from '../grammar/text-width';
import {
  settingQuantities,
  settingsTable,
  type WhatIfKnob,
  type WhatIfSetting,
  whatIfFinding,
} from './what-if-settings';

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
  const settings = knobs.flatMap((one) => one.settings);
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
  const shown = settings.map((one): Bar => {
    const { value, low, high } = row.of(one);
    const { divisor } = row;
    return { ...one, value: value / divisor, low: low / divisor, high: high / divisor };
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
