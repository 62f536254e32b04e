import { ConfigError } from '../core/errors';
import { MEMORY_CAUSES, type MemoryCause } from '../core/events';
import { totalBytes } from '../ledger/memory';
import { type BytesByCause, noBytes } from '../ledger/record';
import {
  type ComparedCase,
  caseOf,
  comparisonFinding,
  comparisonQuantities,
  comparisonSubtitle,
  isRounded,
} from './compared-case';
import { createFigure, type Figure } from './figure';
import { byteScale, type Scaled, short } from './format';
import { bold, safe, soft, strong } from './ink';
import { CAUSE_FILL, inkOn, NEUTRAL, STACK_ORDER } from './palette';
import type { Annotation, Axis, BarTrace, Layout } from './plotly';
import type { RunView } from './run-view';
import { createTable } from './table';
import { fits, shortened, textWidth } from './text-width';

const ROW = 26;
const HEADING = 24;
const TICKS = 26;
const MARGIN_TOP = 68;
const MARGIN_BOTTOM = 46;
const MARGIN_RIGHT = 56;
const NOTE_ROOM = 54;
const WIDTH = 800;

/**
 * Runs side by side: model states predicted by the ZeRO formulas beside measured ones, then the whole peak.
 * States are parameters and optimizer at rest and gradients at their fullest; of each run the rank with the highest peak.
 */
export function compareMemory(runs: Readonly<Record<string, RunView>>): Figure {
  const cases = Object.entries(runs).map(([name, run]) => caseOf(name, run));
  if (cases.length === 0) throw new ConfigError('no runs to compare; pass an object of runs by name');
  const largest = cases.flatMap(({ peak, predicted }) => [
    totalBytes(peak),
    predicted ? totalBytes(predicted) : 0,
  ]);
  const scale = byteScale(Math.max(...largest));
  const panels = [statesPanel(cases, scale), peakPanel(cases, scale), ...residualPanel(cases)];
  const plotHeight = panels.reduce((sum, panel) => sum + HEADING + panel.rows.length * ROW + TICKS, 0);
  const left = Math.min(
    190,
    Math.max(...panels.flatMap(({ rows }) => rows.map((row) => textWidth(row.name, 11)))) * 1.1 + 14,
  );
  const hasNotes = panels.some(({ rows }) => rows.some(({ note }) => note !== undefined));
  const right = hasNotes ? MARGIN_RIGHT + NOTE_ROOM : MARGIN_RIGHT;
  const place = { plotHeight, plotPixels: WIDTH - left - right, left };
  let top = 0;
  const drawn = panels.map((panel, i) => {
    const result = drawPanel(panel, i === 0 ? '' : String(i + 1), top, place);
    top += HEADING + panel.rows.length * ROW + TICKS;
    return result;
  });
  return createFigure({
    title: comparisonFinding(cases, scale),
    subtitle: comparisonSubtitle(runs, cases),
    data: [...drawn.flatMap(({ data }) => data), ...legendOf(cases)],
    layout: {
      height: plotHeight + MARGIN_TOP + MARGIN_BOTTOM,
      margin: { t: MARGIN_TOP, r: right, l: left, b: MARGIN_BOTTOM },
      barmode: 'overlay',
      showlegend: true,
      legend: { x: -(left - 10) / place.plotPixels, y: -8 / plotHeight },
      ...Object.assign({}, ...drawn.map(({ axes }) => axes)),
      annotations: drawn.flatMap(({ annotations }) => annotations),
    },
    table: tableOf(cases),
    quantities: comparisonQuantities(cases),
  });
}

interface Row {
  readonly name: string;
  readonly bytes: BytesByCause;
  /** Said beside the total. */
  readonly note?: string;
}

interface Panel {
  readonly heading: string;
  readonly rows: readonly Row[];
  readonly scale: Scaled;
  /** Differences: totals carry their sign. */
  readonly isSigned?: boolean;
}

function statesPanel(cases: readonly ComparedCase[], scale: Scaled): Panel {
  const isPredicted = cases.some(({ predicted }) => predicted !== null);
  const exact = isPredicted && cases.every(({ residual }) => residual === null || residual === 0);
  const rows = cases.flatMap(({ name, predicted, states }): Row[] => [
    ...(predicted ? [{ name: `${name} predicted`, bytes: predicted }] : []),
    { name: predicted ? 'measured' : name, bytes: states },
  ]);
  const verdict = exact ? soft('   exact: residual 0 B') : '';
  return { heading: `${strong(`<b>Model states</b>, ${scale.unit} a rank`)}${verdict}`, rows, scale };
}

function peakPanel(cases: readonly ComparedCase[], scale: Scaled): Panel {
  const rows = cases.map((one): Row => {
    const note = `logical ${short(totalBytes(one.logicalPeak) / scale.divisor)}`;
    return { name: one.name, bytes: one.peak, ...(isRounded(one) ? { note } : {}) };
  });
  return { heading: strong(`<b>At the peak</b>, ${scale.unit}, measured`), rows, scale };
}

/** Only where prediction and measurement differ: by how much, by cause. */
function residualPanel(cases: readonly ComparedCase[]): Panel[] {
  const off = cases.filter(({ residual }) => residual !== null && residual > 0);
  if (off.length === 0) return [];
  const rows = off.map(({ name, predicted, states }): Row => {
    const bytes = { ...noBytes() };
    for (const cause of MEMORY_CAUSES) bytes[cause] = states[cause] - (predicted?.[cause] ?? 0);
    return { name, bytes };
  });
  const scale = byteScale(
    Math.max(...rows.flatMap(({ bytes }) => MEMORY_CAUSES.map((cause) => Math.abs(bytes[cause])))),
  );
  return [
    {
      heading: strong(`<b>Residual</b>: measured minus predicted, ${scale.unit}`),
      rows,
      scale,
      isSigned: true,
    },
  ];
}

interface Place {
  readonly plotHeight: number;
  readonly plotPixels: number;
  readonly left: number;
}

interface Drawn {
  readonly data: BarTrace[];
  readonly axes: Partial<Layout>;
  readonly annotations: Annotation[];
}

function drawPanel(panel: Panel, suffix: string, top: number, place: Place): Drawn {
  const { rows, scale } = panel;
  const from = 1 - (top + HEADING) / place.plotHeight;
  const to = 1 - (top + HEADING + rows.length * ROW) / place.plotHeight;
  const stacks = rows.map(({ bytes }) => stackOf(bytes, scale));
  const low = Math.min(0, ...stacks.map(({ low: l }) => l));
  const high = Math.max(...stacks.map(({ high: h }) => h), low === 0 ? 1e-9 : 0);
  const range = [low * 1.15, high + (high - low) * 0.02] as const;
  const perUnit = place.plotPixels / (range[1] - range[0]);
  const ref = { xref: `x${suffix}`, yref: `y${suffix}` };
  const data = STACK_ORDER.flatMap((cause) => causeBars(cause, rows, stacks, { suffix, scale, perUnit }));
  const axes: Record<string, Axis> = {
    [`xaxis${suffix}`]: {
      anchor: `y${suffix}`,
      range,
      domain: [0, 1],
      ...(low < 0 ? { zeroline: true, zerolinecolor: NEUTRAL } : {}),
    },
    [`yaxis${suffix}`]: {
      anchor: `x${suffix}`,
      domain: [to, from],
      range: [rows.length - 0.5, -0.5],
      tickvals: rows.map((_, i) => i),
      ticktext: rows.map(({ name }) => strong(safe(shortened(name, 11, place.left - 14)))),
      showgrid: false,
      ticks: '',
      ticklabelstandoff: 5,
    },
  };
  return {
    data,
    axes: axes as Partial<Layout>, // its keys are AxisKeys: xaxis, xaxis2 …
    annotations: [
      {
        x: 0,
        y: from,
        xref: 'paper',
        yref: 'paper',
        text: panel.heading,
        showarrow: false,
        xanchor: 'left',
        yanchor: 'bottom',
        font: { size: 12 },
      },
      ...stacks.map(({ low: l, high: h }, i): Annotation => {
        const note = rows[i]?.note === undefined ? '' : ` ${soft(rows[i]?.note ?? '')}`;
        const text = `${bold(panel.isSigned ? signed(l + h) : short(h))}${note}`;
        return { ...ref, x: h, y: i, text, showarrow: false, xanchor: 'left', xshift: 3, font: { size: 11 } };
      }),
    ],
  };
}

function signed(value: number): string {
  return value > 0 ? `+${short(value)}` : short(value);
}

interface Stack {
  readonly base: Readonly<Record<MemoryCause, number>>;
  readonly low: number;
  readonly high: number;
}

/** Where each cause's segment begins; negative ones go left from zero. */
function stackOf(bytes: BytesByCause, scale: Scaled): Stack {
  const base = { ...noBytes() };
  let low = 0;
  let high = 0;
  for (const cause of STACK_ORDER) {
    const value = bytes[cause] / scale.divisor;
    base[cause] = value < 0 ? low : high;
    if (value < 0) low += value;
    else high += value;
  }
  return { base, low, high };
}

function causeBars(
  cause: MemoryCause,
  rows: readonly Row[],
  stacks: readonly Stack[],
  { suffix, scale, perUnit }: { readonly suffix: string; readonly scale: Scaled; readonly perUnit: number },
): BarTrace[] {
  const shown = rows.map((row, i) => ({ row, i })).filter(({ row }) => row.bytes[cause] !== 0);
  if (shown.length === 0) return [];
  const values = shown.map(({ row }) => row.bytes[cause] / scale.divisor);
  return [
    {
      ...barStyle(cause),
      x: values.map((value) => Number(value.toPrecision(8))),
      y: shown.map(({ i }) => i),
      base: shown.map(({ i }) => stacks[i]?.base[cause] ?? 0),
      xaxis: `x${suffix}`,
      yaxis: `y${suffix}`,
      width: 0.72,
      text: values.map((value) => (fits(short(value), 10, Math.abs(value) * perUnit) ? short(value) : '')),
      customdata: shown.map(({ row }) => row.bytes[cause]),
      hovertemplate: `<b>${cause}</b> %{customdata:,} B<extra></extra>`,
      showlegend: false,
    },
  ];
}

function barStyle(cause: MemoryCause) {
  const fill = CAUSE_FILL[cause];
  return {
    type: 'bar' as const,
    orientation: 'h' as const,
    name: soft(cause),
    legendgroup: cause,
    textposition: 'inside' as const,
    insidetextanchor: 'middle' as const,
    textangle: 0,
    constraintext: 'none' as const,
    textfont: { size: 10, color: inkOn(fill) },
    marker: {
      color: fill.color,
      pattern: fill.pattern ?? { shape: '' as const },
      line: { width: 0.5, color: NEUTRAL },
    },
  };
}

/** One entry a cause that appears anywhere: empty bars that only make the legend. */
function legendOf(cases: readonly ComparedCase[]): BarTrace[] {
  const visible = Math.max(...cases.map(({ peak }) => totalBytes(peak))) / 500;
  const seen = STACK_ORDER.filter((cause) =>
    cases.some(
      ({ peak, states, predicted }) =>
        Math.max(peak[cause], states[cause], predicted?.[cause] ?? 0) > visible,
    ),
  );
  return seen.map((cause) => ({ ...barStyle(cause), x: [0], y: [0], hoverinfo: 'skip' }));
}

function tableOf(cases: readonly ComparedCase[]) {
  const rows = cases.flatMap(({ name, rank, predicted, states, peak, logicalPeak }) =>
    STACK_ORDER.map((cause) => ({
      run: name,
      rank,
      cause,
      predictedBytes: predicted ? predicted[cause] : null,
      measuredBytes: states[cause],
      residualBytes: predicted ? states[cause] - predicted[cause] : null,
      peakBytes: peak[cause],
      logicalPeakBytes: logicalPeak[cause],
    })),
  );
  return createTable(rows.filter((row) => row.measuredBytes + row.peakBytes + (row.predictedBytes ?? 0) > 0));
}
