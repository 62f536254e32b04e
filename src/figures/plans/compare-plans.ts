import { ConfigError } from '../../core/errors';
import type { Bytes } from '../../core/units';
import { type Planned, tokensPerStep } from '../../plan/cost-of';
import type { Layout } from '../../plan/layout';
import { reservableBytes } from '../../plan/memory/allocator';
import { type Estimate, peakInBytes } from '../../plan/prediction';
import { createFigure, type Figure, titleOf } from '../figure';
import { byteScale, inUnit, short } from '../format';
import { CAUSE_STYLE, capacity, plotStacks } from '../grammar/stacks';
import { createTable } from '../table';
import { memoryCauses, mfuNote, timeCauses } from './plan-breakdown';
import { fitText } from './plan-table';
import { timeBreakdown } from './time-breakdown';

export type PlanComparison = 'time' | 'memory';

const NOTE_ROOM = 90;

type Plans = Readonly<Record<string, Planned>>;

/** Plans side by side under the names that they are given. Throws: CONFIG without plans. */
export function comparePlans(plans: Plans, what: PlanComparison = 'time'): Figure {
  const [first] = Object.values(plans);
  if (first === undefined) throw new ConfigError('no plans to compare; pass an object of plans by name');
  return what === 'time' ? timesOf(plans, first) : memoryOf(plans, first);
}

function timesOf(plans: Plans, first: Planned): Figure {
  const work = workOf(Object.values(plans).map(({ layout }) => layout));
  const rows = Object.entries(plans).map(([name, { prediction, layout }]) => {
    const per = work.per(layout);
    const { value, low, high } = prediction.seconds;
    return {
      name,
      seconds: Object.fromEntries(
        Object.entries(timeCauses(prediction)).map(([cause, seconds]) => [cause, seconds * per]),
      ),
      total: { value: value * per, low: low * per, high: high * per },
      note: mfuNote(prediction),
    };
  });
  const figure = timeBreakdown(rows, subtitleOf(plans, first), work.unit);
  const [name] = Object.keys(plans);
  const says = (share: string) => `${name} reaches ${share} of the GPUs’ published peak`;
  const mfu = { value: first.prediction.mfu * 100, unit: '%', says };
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

function memoryOf(plans: Plans, first: Planned): Figure {
  const rows = Object.entries(plans).map(([name, { prediction }]) => ({
    name,
    fits: prediction.fits,
    peak: peakInBytes(prediction.memory),
    values: memoryCauses(prediction),
  }));
  const capacities = [...new Set(Object.values(plans).map(({ layout }) => reservableBytes(layout)))];
  const capacityBytes = Math.max(...capacities);
  // GPUs of different sizes have no line in common.
  const isCommon = capacities.length === 1;
  const scale = byteScale(Math.max(capacityBytes, ...rows.map(({ peak }) => peak.high)));
  const range = ({ low, high }: Estimate): string =>
    `(${short(low / scale.divisor)}–${short(high / scale.divisor)})`;
  const dashed = isCommon ? `; dashed: ${inUnit(capacityBytes, scale)} usable` : '';
  const panel = {
    heading: 'At the peak',
    aside: `, ${scale.unit} on the fullest GPU${dashed}`,
    rows: rows.map(({ name, values, peak, fits }) => ({
      name,
      values,
      note: fits ? range(peak) : 'does not fit',
    })),
    scale,
    reach: capacityBytes * 1.01,
    ...(isCommon ? { over: capacity(capacityBytes / scale.divisor, rows.length) } : {}),
  };
  const card = isCommon ? inUnit(capacityBytes, byteScale(capacityBytes)) : 'their GPUs';
  return createFigure({
    title: memoryFinding(rows, card, capacityBytes),
    subtitle: subtitleOf(plans, first),
    ...plotStacks([panel], CAUSE_STYLE, { noteRoom: NOTE_ROOM }),
    quantities: {
      peakGB: {
        value: peakInBytes(first.prediction.memory).value / 1e9,
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

interface PeakRow {
  readonly name: string;
  readonly fits: boolean;
  readonly peak: Estimate;
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

function subtitleOf(plans: Plans, { layout }: Planned): string {
  const where = new Set(
    Object.values(plans).map((one) => `${one.layout.gpus} x ${one.layout.hardware.name}`),
  );
  const models = new Set(Object.values(plans).map((one) => one.layout.model.name));
  const model = models.size === 1 ? `${layout.model.name}, ` : '';
  return `${model}${[...where].slice(0, 3).join(', ')}${where.size > 3 ? ', …' : ''}; predicted.`;
}
