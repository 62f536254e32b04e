import { ConfigError } from '../core/errors';
import type { Estimate } from '../plan/prediction';
import { createFigure, type Figure } from './figure';
import { byteScale, inUnit, type Scaled, short, timeScale } from './format';
import { bold, safe, soft, strong } from './ink';
import { type Fill, NEUTRAL, PHASE_FILL } from './palette';
import type { Annotation, Axis, BarTrace, Layout, ScatterTrace, Shape } from './plotly';
import { STATIC_WIDTH } from './static-svg';
import { fits, shortened } from './text-width';
import { whatIfFinding } from './what-if-finding';
import {
  settingQuantities,
  settingsTable,
  type WhatIfKnob,
  type WhatIfOptions,
  type WhatIfSetting,
} from './what-if-settings';

const MARGIN = { t: 70, r: 14, l: 56, b: 14 };
const HEADING = 22;
const TIME = 116;
const GAP = 14;
const MEMORY = 100;
const TICKS = 26;
const BETWEEN = 14;
const COLUMN_GAP = 0.03;
/** Pixels of a bar that has room for its number. */
const LEAST_BAR = 22;
const MAX_COLUMNS = 4;
const TIME_FILL = PHASE_FILL.backward;
const MEMORY_FILL: Fill = { color: '#59636E' };
/** Of a setting that does not fit. */
const TOO_MUCH = 'rgba(128,128,128,.28)';
const OVER = '#B3401A';

/** Small multiples: one knob a panel, iteration time over peak memory with the card's capacity; grey where it does not fit. */
export function whatIfFigure(knobs: readonly WhatIfKnob[], options: WhatIfOptions): Figure {
  const settings = knobs.flatMap((one) => one.settings);
  if (settings.length === 0) throw new ConfigError('no knob to turn; pass at least one with a setting');
  const grid = gridOf(knobs.length);
  const time = timeScale(Math.max(...settings.map(({ seconds }) => seconds.high)));
  const bytes = byteScale(Math.max(options.capacityBytes, ...settings.map((one) => one.memoryBytes.high)));
  const most = {
    time: Math.max(...settings.map(({ seconds }) => Math.max(seconds.high, seconds.value))) / time.divisor,
    memory:
      Math.max(options.capacityBytes, ...settings.map(({ memoryBytes }) => memoryBytes.high)) / bytes.divisor,
  };
  const scales = { time, bytes, most, capacity: options.capacityBytes / bytes.divisor };
  const panels = knobs.map((one, i) => panelOf(one, i, grid, scales));
  return createFigure({
    title: whatIfFinding(knobs),
    subtitle: `${options.subtitle} Dashed: ${inUnit(options.capacityBytes, bytes)} usable.`,
    data: panels.flatMap(({ data }) => data),
    layout: {
      height: MARGIN.t + grid.pixels + MARGIN.b,
      margin: MARGIN,
      barmode: 'overlay',
      ...Object.assign({}, ...panels.map(({ axes }) => axes)),
      annotations: panels.flatMap(({ annotations }) => annotations),
      shapes: panels.flatMap(({ shapes }) => shapes),
    },
    table: settingsTable(knobs),
    quantities: settingQuantities(settings),
  });
}

interface Grid {
  readonly pixels: number;
  place(index: number): PanelPlace;
}

interface PanelPlace {
  readonly across: readonly [number, number];
  readonly time: readonly [number, number];
  readonly memory: readonly [number, number];
  readonly isLeft: boolean;
  readonly pixels: number;
}

function gridOf(count: number): Grid {
  const columns = Math.min(count, MAX_COLUMNS);
  const lines = Math.ceil(count / columns);
  const body = HEADING + TIME + GAP + MEMORY + TICKS;
  const pixels = lines * body + (lines - 1) * BETWEEN;
  const width = (1 - (columns - 1) * COLUMN_GAP) / columns;
  const at = (fromTop: number): number => Math.max(0, 1 - fromTop / pixels);
  return {
    pixels,
    place(index) {
      const column = index % columns;
      const top = Math.floor(index / columns) * (body + BETWEEN) + HEADING;
      const left = column * (width + COLUMN_GAP);
      return {
        across: [left, Math.min(1, left + width)],
        time: [at(top + TIME), at(top)],
        memory: [at(top + TIME + GAP + MEMORY), at(top + TIME + GAP)],
        isLeft: column === 0,
        pixels: width * (STATIC_WIDTH - MARGIN.l - MARGIN.r),
      };
    },
  };
}

interface Scales {
  readonly time: Scaled;
  readonly bytes: Scaled;
  readonly most: { readonly time: number; readonly memory: number };
  readonly capacity: number;
}

function panelOf({ knob, settings }: WhatIfKnob, index: number, grid: Grid, scales: Scales) {
  const place = grid.place(index);
  const ids = { time: suffixOf(2 * index), memory: suffixOf(2 * index + 1) };
  const { time, bytes, most, capacity } = scales;
  return {
    data: [
      ...bars(settings, ids.time, TIME_FILL, ({ seconds }) => scaled(seconds, time)),
      ...bars(settings, ids.memory, MEMORY_FILL, ({ memoryBytes }) => scaled(memoryBytes, bytes)),
    ],
    axes: panelAxes(settings, ids, place, scales),
    annotations: [
      headingOf(knob, place),
      ...values(
        settings,
        { suffix: ids.time, pixels: place.pixels, height: TIME, most: most.time },
        ({ seconds }) => scaled(seconds, time),
      ),
      ...values(
        settings,
        { suffix: ids.memory, pixels: place.pixels, height: MEMORY, most: most.memory },
        ({ memoryBytes }) => scaled(memoryBytes, bytes),
      ),
    ],
    shapes: [capacityLine(settings.length, ids.memory, capacity)],
  };
}

function suffixOf(i: number): string {
  return i === 0 ? '' : String(i + 1);
}

function scaled({ value, low, high }: Estimate, { divisor }: Scaled): Estimate {
  return { value: value / divisor, low: low / divisor, high: high / divisor };
}

function bars(
  settings: readonly WhatIfSetting[],
  suffix: string,
  fill: Fill,
  estimate: (one: WhatIfSetting) => Estimate,
): (BarTrace | ScatterTrace)[] {
  const axes = { xaxis: `x${suffix}`, yaxis: `y${suffix}` };
  const groups = [true, false].map((isFitting) => ({
    color: isFitting ? fill.color : TOO_MUCH,
    shown: settings.map((one, i) => ({ one, i })).filter(({ one }) => one.fits === isFitting),
  }));
  const whiskers = settings.flatMap((one, i) => {
    const { low, high } = estimate(one);
    return low < high ? [{ i, low, high }] : [];
  });
  return [
    ...groups
      .filter(({ shown }) => shown.length > 0)
      .map(
        ({ color, shown }): BarTrace => ({
          ...axes,
          type: 'bar',
          x: shown.map(({ i }) => i),
          y: shown.map(({ one }) => Number(estimate(one).value.toPrecision(6))),
          width: 0.64,
          marker: { color, pattern: { shape: '' }, line: { width: 0.5, color: NEUTRAL } },
          text: shown.map(({ one }) => hover(one, estimate(one))),
          textposition: 'none',
          hovertemplate: '%{text}<extra></extra>',
        }),
      ),
    {
      ...axes,
      type: 'scatter',
      mode: 'lines',
      line: { width: 1.2, color: '#8a8a8a' },
      x: whiskers.flatMap(({ i }) => [i, i, Number.NaN]),
      y: whiskers.flatMap(({ low, high }) => [low, high, Number.NaN]),
      hoverinfo: 'skip',
    },
  ];
}

function hover({ name, fits: isFitting }: WhatIfSetting, { value, low, high }: Estimate): string {
  const range = low < high ? ` (${short(low)} to ${short(high)})` : '';
  return `<b>${safe(name)}</b>: ${short(value)}${range}${isFitting ? '' : ', does not fit'}`;
}

function panelAxes(
  settings: readonly WhatIfSetting[],
  ids: { readonly time: string; readonly memory: string },
  place: PanelPlace,
  { time, bytes, most }: Scales,
): Partial<Layout> {
  const each = place.pixels / settings.length;
  const names = settings.map(({ name, isBase }) => {
    const text = safe(shortened(name, 10, each - 4));
    return isBase === true ? bold(text) : soft(text);
  });
  const x = {
    range: [-0.5, settings.length - 0.5],
    domain: place.across,
    showgrid: false,
    ticks: '',
  } as const;
  const y = (title: string): Partial<Axis> =>
    place.isLeft
      ? { title: { text: soft(title), standoff: 8, font: { size: 11 } } }
      : { showticklabels: false, ticks: '' };
  const tickvals = settings.map((_, i) => i);
  const axes: Record<string, Axis> = {
    [`xaxis${ids.time}`]: { ...x, anchor: `y${ids.time}`, tickvals: [], showticklabels: false },
    [`yaxis${ids.time}`]: {
      ...y(`same tokens, ${time.unit}`),
      range: [0, most.time * 1.06],
      domain: place.time,
      anchor: `x${ids.time}`,
    },
    [`xaxis${ids.memory}`]: {
      ...x,
      anchor: `y${ids.memory}`,
      tickvals,
      ticktext: names,
      tickfont: { size: 10 },
    },
    [`yaxis${ids.memory}`]: {
      ...y(`peak, ${bytes.unit}`),
      range: [0, most.memory * 1.06],
      domain: place.memory,
      anchor: `x${ids.memory}`,
    },
  };
  return axes as Partial<Layout>; // its keys are AxisKeys
}

function headingOf(knob: string, { across, time, pixels }: PanelPlace): Annotation {
  return {
    x: across[0],
    y: time[1],
    xref: 'paper',
    yref: 'paper',
    text: strong(`<b>${safe(shortened(knob, 12, pixels - 6))}</b>`),
    showarrow: false,
    xanchor: 'left',
    yanchor: 'bottom',
    font: { size: 12 },
  };
}

interface ValuePlace {
  readonly suffix: string;
  readonly pixels: number;
  /** What a row of panels is high, in pixels, and in the axis's unit. */
  readonly height: number;
  readonly most: number;
}

/** Numbers at the foot of the bars, above those too low for it; where all of a panel's fit beside each other. */
function values(
  settings: readonly WhatIfSetting[],
  { suffix, pixels, height, most }: ValuePlace,
  estimate: (one: WhatIfSetting) => Estimate,
): Annotation[] {
  const texts = settings.map((one) => short(estimate(one).value));
  if (texts.some((text) => !fits(text, 10, pixels / settings.length))) return [];
  return settings.map((one, i) => {
    const { value, high } = estimate(one);
    const text = texts[i] ?? '';
    const isInside = (value / most) * height > LEAST_BAR;
    const onBar = `<span style="color:${one.fits ? '#fff' : OVER}">${text}</span>`;
    return {
      x: i,
      y: isInside ? 0 : Math.max(value, high),
      xref: `x${suffix}`,
      yref: `y${suffix}`,
      text: isInside ? onBar : strong(text),
      showarrow: false,
      yanchor: 'bottom',
      font: { size: 10 },
    };
  });
}

function capacityLine(count: number, suffix: string, capacity: number): Shape {
  return {
    type: 'line',
    xref: `x${suffix}`,
    yref: `y${suffix}`,
    x0: -0.5,
    x1: count - 0.5,
    y0: capacity,
    y1: capacity,
    line: { width: 1.5, color: OVER, dash: 'dash' },
  };
}
