import { ConfigError } from '../../core/errors';
import type { Estimate } from '../../plan/prediction';
import { createFigure, type Figure } from '../figure';
import { byteScale, inUnit, type Scaled, short, timeScale } from '../format';
import { columnAxis, titled } from '../grammar/axes';
import { type Facet, facets } from '../grammar/facets';
import { bold, safe, soft, strong } from '../grammar/ink';
import { columns, line, note, ruleY } from '../grammar/marks';
import { type Fill, NEUTRAL_FILL, OVER, PHASE_FILL } from '../grammar/palette';
import { type Panel, plot } from '../grammar/plot';
import type { Annotation, Axis, BarTrace, ScatterTrace } from '../grammar/plotly';
import { STATIC_WIDTH } from '../grammar/template';
import { fits, wrapped, wrappedMarkup } from '../grammar/text-width';
import {
  settingQuantities,
  settingsTable,
  type WhatIfKnob,
  type WhatIfOptions,
  type WhatIfSetting,
  whatIfFinding,
} from './what-if-settings';

const FRAME = { top: 70, left: 56, right: 14, foot: 14 } as const;
/** Heading, time, a gap, memory and its ticks: of one line of panels, in pixels. */
const HEADING = 22;
const TIME = 116;
const GAP = 14;
const MEMORY = 100;
const TICKS = 26;
/** Pixels of a bar that has room for its number. */
const LEAST_BAR = 22;
/** Of a setting that does not fit. */
const TOO_MUCH: Fill = { color: 'rgba(128,128,128,.28)' };

/** Small multiples: one knob a panel, iteration time over peak memory with the card's capacity; grey where it does not fit. */
export function whatIfFigure(knobs: readonly WhatIfKnob[], options: WhatIfOptions): Figure {
  const settings = knobs.flatMap((one) => one.settings);
  if (settings.length === 0) throw new ConfigError('no knob to turn; pass at least one with a setting');
  const width = STATIC_WIDTH - FRAME.left - FRAME.right;
  const slots = knobs.map(({ settings: some }) => width / Math.min(knobs.length, 4) / some.length - 10);
  const numLines = Math.max(
    ...knobs.flatMap((one, i) => one.settings.map(({ name }) => wrapped(name, 10, slots[i] ?? 0).length)),
  );
  const body = TIME + GAP + MEMORY + TICKS + (numLines - 1) * 12.5;
  const grid = facets(knobs.length, { width, heading: HEADING, body, between: 14, gap: 0.03 });
  const times = settings.map(({ seconds }) => Math.max(seconds.high, seconds.value));
  const time = timeScale(Math.max(...settings.map(({ seconds }) => seconds.high)));
  const most = Math.max(options.capacityBytes, ...settings.map(({ memoryBytes }) => memoryBytes.high));
  const bytes = byteScale(most);
  const limit = options.capacityBytes / bytes.divisor;
  const panels = knobs.flatMap((knob, i): Panel[] => {
    const facet = grid.all[i];
    if (facet === undefined) return [];
    const rows = {
      time: {
        title: `same tokens, ${time.unit}`,
        fill: PHASE_FILL.backward,
        scale: time,
        from: 0,
        pixels: TIME,
      },
      memory: {
        title: `peak, ${bytes.unit}`,
        fill: NEUTRAL_FILL,
        scale: bytes,
        from: TIME + GAP,
        pixels: MEMORY,
      },
    };
    const above = knobPanel(
      knob,
      facet,
      { ...rows.time, most: Math.max(...times) / time.divisor },
      ({ seconds }) => seconds,
    );
    const below = knobPanel(
      knob,
      facet,
      { ...rows.memory, most: most / bytes.divisor },
      (one) => one.memoryBytes,
    );
    const dashed = { width: 1.5, color: OVER, dash: 'dash' } as const;
    return [
      { ...above, heading: wrappedMarkup(knob.knob, 12, facet.pixels - 6, safe) },
      {
        ...below,
        x: { ...below.x, ...namesOf(knob, facet) },
        shapes: [ruleY(limit, [-0.5, knob.settings.length - 0.5], dashed)],
      },
    ];
  });
  return createFigure({
    title: whatIfFinding(knobs),
    subtitle: `${options.subtitle} Dashed: ${inUnit(options.capacityBytes, bytes)} usable.`,
    ...plot({ ...FRAME, pixels: grid.pixels }, panels),
    table: settingsTable(knobs),
    quantities: settingQuantities(settings),
  });
}

/** One of a knob's two panels. */
interface Row {
  readonly title: string;
  readonly fill: Fill;
  readonly scale: Scaled;
  /** The value that its axis reaches to, in the scale's unit. */
  readonly most: number;
  /** Pixels below the heading, and its height. */
  readonly from: number;
  readonly pixels: number;
}

type EstimateOf = (one: WhatIfSetting) => Estimate;

function knobPanel({ settings }: WhatIfKnob, facet: Facet, row: Row, of: EstimateOf): Panel {
  const scaled: EstimateOf = (one) => {
    const { value, low, high } = of(one);
    const { divisor } = row.scale;
    return { value: value / divisor, low: low / divisor, high: high / divisor };
  };
  return {
    x: { ...columnAxis(null, settings.length), domain: facet.across },
    y: {
      ...(facet.isLeft ? titled(row.title) : { showticklabels: false, ticks: '' }),
      range: [0, row.most * 1.06],
      domain: facet.down(row.from, row.from + row.pixels),
    },
    data: [...settingColumns(settings, row.fill, scaled), whiskers(settings, scaled)],
    annotations: values(settings, facet, row, scaled),
  };
}

function settingColumns(settings: readonly WhatIfSetting[], fill: Fill, estimate: EstimateOf): BarTrace[] {
  return [true, false].flatMap((isFitting) => {
    const items = settings.flatMap((one, at) =>
      one.fits === isFitting ? [{ at, length: estimate(one).value, said: hover(one, estimate(one)) }] : [],
    );
    const style = { fill: isFitting ? fill : TOO_MUCH, width: 0.64, hover: '%{customdata}<extra></extra>' };
    return items.length === 0 ? [] : [columns(items, style)];
  });
}

function whiskers(settings: readonly WhatIfSetting[], estimate: EstimateOf): ScatterTrace {
  const ranged = settings.map((one, i) => ({ i, ...estimate(one) })).filter(({ low, high }) => low < high);
  const points = {
    x: ranged.flatMap(({ i }) => [i, i, Number.NaN]),
    y: ranged.flatMap(({ low, high }) => [low, high, Number.NaN]),
  };
  return line(points, { width: 1.2, color: '#8a8a8a' }, { hoverinfo: 'skip' });
}

function hover({ name, fits: isFitting }: WhatIfSetting, { value, low, high }: Estimate): string {
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

/** Numbers at the foot of the bars, above those too low for it; where all of a panel's fit beside each other. */
function values(
  settings: readonly WhatIfSetting[],
  facet: Facet,
  row: Row,
  estimate: EstimateOf,
): Annotation[] {
  const texts = settings.map((one) => short(estimate(one).value));
  if (texts.some((text) => !fits(text, 10, facet.pixels / settings.length))) return [];
  return settings.map((one, i) => {
    const { value, high } = estimate(one);
    const text = texts[i] ?? '';
    const isInside = (value / row.most) * row.pixels > LEAST_BAR;
    const onBar = `<span style="color:${one.fits ? '#fff' : '#111'}">${text}</span>`;
    const place = { xanchor: 'center', yanchor: 'bottom', font: { size: 10 } } as const;
    return note(i, isInside ? 0 : Math.max(value, high), isInside ? onBar : strong(text), place);
  });
}
