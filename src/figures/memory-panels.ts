import type { MemoryCause } from '../core/events';
import type { Bytes, Seconds } from '../core/units';
import { type MemoryOverTime, totalBytes } from '../ledger/memory';
import { type BytesByCause, noBytes } from '../ledger/record';
import { thinned } from './envelope';
import type { Scaled } from './format';
import { soft } from './ink';
import { CAUSE_FILL, NEUTRAL, STACK_ORDER } from './palette';
import type { Axis, BarTrace, Layout, ScatterTrace, Shape, Trace } from './plotly';

/** One stacked area of memory over time, at a place in a grid. */
export interface MemoryPanel {
  readonly curve: MemoryOverTime;
  /** Ends of the panel's x and y axes' domains. */
  readonly across: readonly [number, number];
  readonly up: readonly [number, number];
  /** Title of the y axis; undefined: the axis has no labels (a panel left of it has them). */
  readonly yTitle: string | undefined;
  readonly xTitle: string | undefined;
  /** A line at this many bytes, to compare with. */
  readonly mark?: number | undefined;
}

/** What all panels of one figure share. */
export interface PanelScales {
  readonly bytes: Scaled;
  readonly time: Scaled;
  /** Longest time of any panel, and the bytes that fill the tallest one: all have the same bytes a pixel. */
  readonly longest: Seconds;
  readonly most: Bytes;
  /** Share of the picture's height that the tallest panel has. */
  readonly tallest: number;
}

interface Drawn {
  readonly data: readonly Trace[];
  readonly axes: Partial<Layout>;
  readonly shapes: readonly Shape[];
  /** The legend's entries. */
  readonly causes: readonly MemoryCause[];
}

const MAX_POINTS = 240;

/** Draws panels on shared scales; each cause has one entry in the legend, in the order of stacks. */
export function drawPanels(panels: readonly MemoryPanel[], scales: PanelScales): Drawn {
  const axes: Record<string, Axis> = {};
  const shapes: Shape[] = [];
  const areas = panels.flatMap((panel, i) => {
    const suffix = i === 0 ? '' : String(i + 1);
    Object.assign(axes, axesOf(panel, suffix, scales));
    if (panel.mark !== undefined) shapes.push(markAt(panel.mark, suffix, scales));
    return causesIn(panel.curve).map((cause) => area(panel.curve, cause, suffix, scales));
  });
  const causes = STACK_ORDER.filter((cause) => areas.some(({ name }) => name === cause));
  return {
    data: [...areas, ...causes.map(legendEntry)],
    axes: axes as Partial<Layout>, // its keys are AxisKeys: xaxis, xaxis2 …
    shapes,
    causes,
  };
}

function area(
  whole: MemoryOverTime,
  cause: MemoryCause,
  suffix: string,
  { bytes, time }: PanelScales,
): ScatterTrace {
  const { color, pattern } = CAUSE_FILL[cause];
  const curve = thinned(whole, MAX_POINTS);
  return {
    type: 'scatter',
    x: curve.seconds.map((seconds) => rounded(seconds / time.divisor)),
    y: curve.byCause[cause].map((held) => rounded(held / bytes.divisor)),
    xaxis: `x${suffix}`,
    yaxis: `y${suffix}`,
    name: cause,
    showlegend: false,
    // Of one panel alone: static pictures stack by this name.
    stackgroup: `panel ${suffix}`,
    mode: 'lines',
    line: { width: 0.5, color: 'rgba(255,255,255,.6)', shape: 'hv' },
    fillcolor: color,
    fillpattern: pattern ?? { shape: '' },
    hoveron: 'points+fills',
    hovertemplate: `<b>${cause}</b> %{y:.2f} ${bytes.unit} at %{x:.2f} ${time.unit}<extra></extra>`,
  };
}

function legendEntry(cause: MemoryCause): BarTrace {
  const { color, pattern } = CAUSE_FILL[cause];
  const marker = { color, pattern: pattern ?? { shape: '' as const }, line: { width: 0.5, color: NEUTRAL } };
  return { type: 'bar', x: [0], y: [0], name: soft(cause), hoverinfo: 'skip', marker };
}

function axesOf(panel: MemoryPanel, suffix: string, scales: PanelScales): Record<string, Axis> {
  const { across, up, xTitle, yTitle } = panel;
  const { bytes, time, most, longest } = scales;
  const title = (text: string | undefined): Pick<Axis, 'title'> =>
    text === undefined ? {} : { title: { text: soft(text), standoff: 6, font: { size: 11 } } };
  return {
    [`xaxis${suffix}`]: {
      anchor: `y${suffix}`,
      domain: across,
      range: [0, longest / time.divisor || 1],
      showticklabels: xTitle !== undefined,
      ...title(xTitle),
    },
    [`yaxis${suffix}`]: {
      anchor: `x${suffix}`,
      domain: up,
      range: [0, ((most / bytes.divisor) * (up[1] - up[0])) / scales.tallest || 1],
      showticklabels: yTitle !== undefined,
      ...title(yTitle),
    },
  };
}

function markAt(held: number, suffix: string, { bytes, time, longest }: PanelScales): Shape {
  const y = held / bytes.divisor;
  return {
    type: 'line',
    x0: 0,
    x1: longest / time.divisor,
    y0: y,
    y1: y,
    xref: `x${suffix}`,
    yref: `y${suffix}`,
    line: { width: 1, color: 'rgba(128,128,128,.95)', dash: 'dot' },
  };
}

function rounded(value: number): number {
  return Number(value.toPrecision(6));
}

/** Causes that hold anything at any time, bottom to top. */
export function causesIn(curve: MemoryOverTime): readonly MemoryCause[] {
  return STACK_ORDER.filter((cause) => curve.byCause[cause].some((bytes) => bytes > 0));
}

/** The most that a curve holds, and what that is made of. */
export function peakOf(curve: MemoryOverTime): { readonly bytes: number; readonly byCause: BytesByCause } {
  const bytes = Math.max(0, ...curve.total);
  const at = curve.total.indexOf(bytes);
  const byCause = noBytes();
  for (const cause of STACK_ORDER) byCause[cause] = curve.byCause[cause][at] ?? 0;
  return { bytes: totalBytes(byCause), byCause };
}
