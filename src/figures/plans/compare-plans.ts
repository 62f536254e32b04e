import { ConfigError } from '../../core/errors';
import type { MemoryCause } from '../../core/events';
import { shown } from '../../core/shown';
import type { Bytes } from '../../core/units';
import type { PlanMemoryOptions } from '../../plan/claims/survey';
import { type Planned, tokensPerStep } from '../../plan/cost-of';
import { type AnyLayout, isPredicted } from '../../plan/layout';
import { reservableBytes } from '../../plan/memory/allocator';
import { type Estimate, peakInBytes } from '../../plan/prediction';
import { createFigure, type Figure, type Title } from '../figure';
import { byteScale, inUnit, quoted, short } from '../format';
import { safe } from '../grammar/ink';
import { CAUSE_STYLE, capacity, plotStacks, type StackPanel } from '../grammar/stacks';
import { createTable } from '../table';
import { documentedCauses, memoryCauses, timeRow } from './plan-breakdown';
import { fitText } from './plan-table';
import { timeBreakdown } from './time-breakdown';

export type PlanComparison = 'memory' | 'time';

const NOTE_ROOM = 90;

type Plans = Readonly<Record<string, Planned<AnyLayout>>>;

/**
 * Draws plans side by side, under their names; with `documented`, also the bytes that a document states. Throws: CONFIG without plans, for a comparison that does not exist, and for a
 * counted plan beside a predicted plan. See [Note: counted plans].
 */
export function comparePlans(
  plans: Plans,
  what: PlanComparison = 'time',
  options: PlanMemoryOptions = {},
): Figure {
  const [first] = Object.values(plans);
  if (first === undefined) throw new ConfigError('no plans to compare; pass an object of plans by name');
  const [counted] = Object.entries(plans).find(([, { layout }]) => !isPredicted(layout)) ?? [];
  const [predicted] = Object.entries(plans).find(([, { layout }]) => isPredicted(layout)) ?? [];
  if (counted !== undefined && predicted !== undefined) {
    throw new ConfigError(
      `compare: ${quoted(counted)} counts this library's own schedule and kernels, and ${quoted(predicted)} predicts those of another framework; ` +
        'the times and bytes of such plans cannot be compared. Compare only counted plans, or only predicted plans; ' +
        'to get a counted plan ' +
        'of a built-in model, write model: ({ nn }) => nn.gpt({ … })',
    );
  }
  if (what === 'time') return timesOf(plans, first);
  if (what === 'memory') return memoryOf(plans, first, options);
  throw new ConfigError(`cannot compare plans by ${shown(what)}; choose one of 'memory', 'time', 'scaling'`);
}

function timesOf(plans: Plans, first: Planned<AnyLayout>): Figure {
  const work = workOf(Object.values(plans).map(({ layout }) => layout));
  const rows = Object.entries(plans).map(([name, planned]) =>
    timeRow(name, planned, work.per(planned.layout)),
  );
  const figure = timeBreakdown(rows, subtitleOf(plans, first), work.unit);
  const [name] = Object.keys(plans);
  const says = (share: string) =>
    `${quoted(name ?? '')} reaches ${share} of the peak in the GPUs’ data sheet`;
  const mfu = { value: first.prediction.mfu * 100, unit: '%', says };
  return createFigure({ ...figure, quantities: { ...figure.quantities, mfu } });
}

/**
 * Returns the unit of the compared times: an iteration, or a sequence or 1,000 tokens if iterations contain different work.
 */
function workOf(layouts: readonly AnyLayout[]): { readonly unit: string; per(layout: AnyLayout): number } {
  const [first] = layouts;
  if (new Set(layouts.map(tokensPerStep)).size <= 1) return { unit: 'iteration', per: () => 1 };
  if (first !== undefined && new Set(layouts.map(({ model }) => model.seq)).size === 1) {
    const unit = `sequence of ${first.model.seq.toLocaleString('en-US')} tokens`;
    return { unit, per: ({ globalBatch }) => 1 / globalBatch };
  }
  return { unit: '1,000 tokens', per: (layout) => 1000 / tokensPerStep(layout) };
}

function memoryOf(plans: Plans, first: Planned<AnyLayout>, options: PlanMemoryOptions): Figure {
  const rows = Object.entries(plans).map(([name, { prediction }]) => ({
    name,
    fits: prediction.fits,
    peak: peakInBytes(prediction.memory),
    values: memoryCauses(prediction.memory),
  }));
  const stated = documentedCauses('comparePlans', options);
  const capacities = Object.values(plans).map(({ layout }) => reservableBytes(layout));
  const capacityBytes = Math.max(...capacities);
  // If the GPUs have different capacities, no common line is drawn.
  const isCommon = new Set(capacities).size === 1;
  const scale = byteScale(Math.max(capacityBytes, ...rows.map(({ peak }) => peak.high)));
  const { divisor, unit } = scale;
  const panel: StackPanel<MemoryCause> = {
    heading: 'At the peak',
    aside: `, ${unit} on the fullest GPU${isCommon ? `; dashed: ${inUnit(capacityBytes, scale)} usable` : ''}`,
    rows: [
      ...(stated === undefined ? [] : [{ name: 'documented', values: stated }]),
      ...rows.map(({ name, values, peak, fits }) => ({
        name,
        values,
        note: fits ? `(${short(peak.low / divisor)}–${short(peak.high / divisor)})` : 'does not fit',
      })),
    ],
    scale,
    reach: capacityBytes * 1.01,
    ...(isCommon
      ? { over: capacity(capacityBytes / divisor, rows.length + (stated === undefined ? 0 : 1)) }
      : {}),
  };
  const quantity = (value: Bytes, says: (gb: string) => string) => ({ value: value / 1e9, unit: 'GB', says });
  const { memory } = first.prediction;
  const [name] = Object.keys(plans);
  return createFigure({
    title: memoryFinding(rows, capacityBytes, isCommon),
    subtitle: subtitleOf(plans, first),
    ...plotStacks([panel], CAUSE_STYLE, { noteRoom: NOTE_ROOM }),
    quantities: {
      peakGB: quantity(
        peakInBytes(memory).value,
        (gb) => `with ${quoted(name ?? '')} the fullest GPU needs ${gb}`,
      ),
      paramsGB: quantity(memory.params, (gb) => `with ${quoted(name ?? '')} a GPU holds ${gb} of parameters`),
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

interface PeakRow {
  readonly name: string;
  readonly fits: boolean;
  readonly peak: Estimate;
}

/** Says which plans fit. If all GPUs have the same capacity (`isCommon`), the title names the capacity. */
function memoryFinding(rows: readonly PeakRow[], capacity: Bytes, isCommon: boolean): Title {
  const memory = isCommon ? inUnit(capacity, byteScale(capacity)) : 'their GPUs';
  const least = rows.reduce((a, b) => (b.peak.value < a.peak.value ? b : a));
  const peak = inUnit(least.peak.value, byteScale(least.peak.value));
  if (rows.length === 1) {
    return [`${quoted(least.name)} ${fitText(least.fits, least.peak, capacity)}: ${peak} of ${memory}`];
  }
  const fitting = rows.filter(({ fits }) => fits);
  // The capacity is inside these plans' intervals, so they may not fit after all.
  const unsure = fitting.filter((row) => row.peak.high > capacity).length;
  const fit = `${fitting.length} of ${rows.length} plans fit ${memory}${unsure === 0 ? '' : `; ${unsure} of them only probably`}`;
  return [
    `${fit}; ${quoted(least.name)} needs the least: ${peak}`,
    `${fit}; the smallest peak is ${peak}`,
    fit,
  ];
}

function subtitleOf(plans: Plans, first: Planned<AnyLayout>): string {
  const layouts = Object.values(plans).map(({ layout }) => layout);
  const clusters = [...new Set(layouts.map(({ gpus, hardware }) => `${gpus} x ${hardware.name}`))];
  const isOneModel = new Set(layouts.map(({ model }) => model.name)).size === 1;
  const model = isOneModel ? `${safe(first.layout.model.name)}, ` : '';
  return `${model}${clusters.slice(0, 3).join(', ')}${clusters.length > 3 ? ', …' : ''}; ${isPredicted(first.layout) ? 'predicted' : 'counted for this library'}.`;
}
