import { ConfigError } from '../core/errors';
import type { MemoryCause } from '../core/events';
import type { Bytes } from '../core/units';
import { tokensPerStep } from '../plan/cost-of';
import type { Layout } from '../plan/layout';
import { reservableBytes } from '../plan/memory/allocator';
import { createFigure, type Figure, titleOf } from './figure';
import { byteScale, inUnit, short } from './format';
import { soft, strong } from './ink';
import { legendRoom } from './legend-room';
import { CAUSE_FILL, NEUTRAL, STACK_ORDER } from './palette';
import { fitText } from './plan-table';
import type { Plan } from './plan-view';
import type { Shape } from './plotly';
import { drawStacks, type StackStyle, stackLegend, stackLegendPlace } from './stacked-rows';
import { STATIC_WIDTH } from './static-svg';
import { createTable } from './table';
import { timeBreakdown } from './time-breakdown';

export type PlanComparison = 'time' | 'memory';

const STYLE: StackStyle<MemoryCause> = {
  order: STACK_ORDER,
  fillOf: (cause) => CAUSE_FILL[cause],
  hover: (cause) => `<b>${cause}</b> %{customdata:,} B<extra></extra>`,
};
const MARGIN_TOP = 58;
const MARGIN_BOTTOM = 30;
const NOTE_ROOM = 90;

/** Plans side by side under the names that they are given. Throws: CONFIG without plans. */
export function comparePlans(plans: Readonly<Record<string, Plan>>, what: PlanComparison = 'time'): Figure {
  const [first] = Object.values(plans);
  if (first === undefined) throw new ConfigError('no plans to compare; pass an object of plans by name');
  return what === 'time' ? timesOf(plans, first) : memoryOf(plans, first);
}

function timesOf(plans: Readonly<Record<string, Plan>>, first: Plan): Figure {
  const work = workOf(Object.values(plans).map(({ layout }) => layout));
  const rows = Object.entries(plans).map(([name, { prediction, mfu, layout }]) => {
    const per = work.per(layout);
    const { value, low, high } = prediction.seconds;
    const causes = {
      ...prediction.time.computeByCause,
      communication: prediction.time.exposedComm,
      bubble: prediction.time.bubble,
    };
    return {
      name,
      seconds: Object.fromEntries(Object.entries(causes).map(([cause, seconds]) => [cause, seconds * per])),
      total: { value: value * per, low: low * per, high: high * per },
      note: `${Math.round(100 * mfu)}% MFU`,
    };
  });
  const figure = timeBreakdown(rows, subtitleOf(plans, first), work.unit);
  const [name] = Object.keys(plans);
  const says = (share: string) => `${name} reaches ${share} of the GPUs’ published peak`;
  const mfu = { value: first.mfu * 100, unit: '%', says };
  return createFigure({ ...figure, quantities: { ...figure.quantities, mfu } });
}

/** What the plans' times are about: an iteration, or where iterations hold different work what they have in common. */
function workOf(layouts: readonly Layout[]): { readonly unit: string; per(layout: Layout): number } {
  const [first] = layouts;
  if (new Set(layouts.map(tokensPerStep)).size <= 1) return { unit: 'iteration', per: () => 1 };
  if (first !== undefined && new Set(layouts.map(({ model }) => model.seq)).size === 1) {
    const unit = `sequence of ${first.model.seq.toLocaleString('en-US')} tokens`;
    return { unit, per: ({ globalBatch }) => 1 / globalBatch };
  }
  return { unit: '1,000 tokens', per: (layout) => 1000 / tokensPerStep(layout) };
}

function memoryOf(plans: Readonly<Record<string, Plan>>, first: Plan): Figure {
  const rows = Object.entries(plans).map(([name, { prediction, peakBytes, fits }]) => ({
    name,
    fits,
    peak: peakBytes,
    values: causesOf(prediction.memory),
  }));
  const capacities = [...new Set(Object.values(plans).map(({ layout }) => reservableBytes(layout)))];
  const capacity = Math.max(...capacities);
  // GPUs of different sizes have no line in common.
  const isCommon = capacities.length === 1;
  const scale = byteScale(Math.max(capacity, ...rows.map(({ peak }) => peak.high)));
  const panel = {
    heading: `${strong('<b>At the peak</b>')}${soft(`, ${scale.unit} on the fullest GPU${isCommon ? `; dashed: ${inUnit(capacity, scale)} usable` : ''}`)}`,
    rows: rows.map(({ name, values, peak, fits }) => ({
      name,
      values,
      note: fits
        ? `(${short(peak.low / scale.divisor)}–${short(peak.high / scale.divisor)})`
        : 'does not fit',
    })),
    scale,
    reach: capacity * 1.01,
  };
  const drawn = drawStacks([panel], STYLE, NOTE_ROOM);
  const causes = STACK_ORDER.filter((cause) => rows.some(({ values }) => (values[cause] ?? 0) > 0));
  const bottom = MARGIN_BOTTOM + legendRoom(causes, 10, STATIC_WIDTH);
  return createFigure({
    title: memoryFinding(rows, isCommon ? inUnit(capacity, byteScale(capacity)) : 'their GPUs', capacity),
    subtitle: subtitleOf(plans, first),
    data: [...drawn.data, ...stackLegend(STYLE, causes)],
    layout: {
      height: drawn.plotHeight + MARGIN_TOP + bottom,
      margin: { t: MARGIN_TOP, r: drawn.right, l: drawn.left, b: bottom },
      barmode: 'overlay',
      showlegend: true,
      legend: stackLegendPlace(drawn),
      ...drawn.axes,
      annotations: drawn.annotations,
      shapes: isCommon ? [capacityLine(capacity / scale.divisor, rows.length)] : [],
    },
    quantities: {
      peakGB: {
        value: first.peakBytes.value / 1e9,
        unit: 'GB',
        says: (gb) => `the fullest GPU of ${rows[0]?.name} needs ${gb}`,
      },
      paramsGB: {
        value: first.prediction.memory.params / 1e9,
        unit: 'GB',
        says: (gb) => `a GPU of ${rows[0]?.name} holds ${gb} of parameters`,
      },
    },
    table: createTable(
      rows.map(({ name, peak, fits, values }) => ({
        plan: name,
        peakBytes: peak.value,
        lowBytes: peak.low,
        highBytes: peak.high,
        fits,
        ...values,
      })),
    ),
  });
}

/** The planner's words for causes, in the ledger's. */
export function causesOf(
  memory: Plan['prediction']['memory'],
): Readonly<Partial<Record<MemoryCause, Bytes>>> {
  const { params, grads, optimizer, activations, temporary } = memory;
  return {
    'param.shard': params,
    optimizer,
    'grad.shard': grads,
    activation: activations,
    temp: temporary,
  };
}

interface PeakRow {
  readonly name: string;
  readonly fits: boolean;
  readonly peak: Plan['peakBytes'];
}

function capacityLine(x: number, numRows: number): Shape {
  const line = { width: 1.5, color: NEUTRAL, dash: 'dash' } as const;
  return { type: 'line', x0: x, x1: x, y0: numRows - 0.5, y1: -0.5, line };
}

/** `card`: what all have to fit, in words. */
function memoryFinding(rows: readonly PeakRow[], card: string, capacity: Bytes): string {
  const least = rows.reduce((a, b) => (b.peak.value < a.peak.value ? b : a));
  const peak = inUnit(least.peak.value, byteScale(least.peak.value));
  const fitting = rows.filter(({ fits }) => fits);
  // The capacity lies within their interval: they may turn out not to fit.
  const unsure = fitting.filter((row) => row.peak.high > capacity).length;
  if (rows.length === 1) {
    return titleOf(`${least.name} ${fitText(least.fits, least.peak, capacity)}: ${peak} of ${card}`);
  }
  const fit = `${fitting.length} of ${rows.length} fit ${card}${unsure === 0 ? '' : `, ${unsure} only just`}`;
  return titleOf(`${fit}; ${least.name} needs least: ${peak}`, `${fit}; the smallest needs ${peak}`, fit);
}

function subtitleOf(plans: Readonly<Record<string, Plan>>, { layout }: Plan): string {
  const where = new Set(
    Object.values(plans).map((one) => `${one.layout.gpus} x ${one.layout.hardware.name}`),
  );
  const models = new Set(Object.values(plans).map((one) => one.layout.model.name));
  const model = models.size === 1 ? `${layout.model.name}, ` : '';
  return `${model}${[...where].slice(0, 3).join(', ')}${where.size > 3 ? ', …' : ''}; predicted.`;
}
