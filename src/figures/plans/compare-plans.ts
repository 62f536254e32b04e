import { ConfigError, shown } from '../../core';
import { type AnyLayout, isPredicted, type Planned, tokensPerStep } from '../../planner';
import { createFigure, type Figure } from '../figure';
import { quoted } from '../format';
import { safe } from '../grammar/ink';
import { comparePlanMemory, type PlanMemoryOptions } from './plan-memory';
import { timeBreakdown, timeRow } from './time-breakdown';

export type PlanComparison = 'memory' | 'time';

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
  if (what === 'memory') return comparePlanMemory(plans, subtitleOf(plans, first), options);
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

function subtitleOf(plans: Plans, first: Planned<AnyLayout>): string {
  const layouts = Object.values(plans).map(({ layout }) => layout);
  const clusters = [...new Set(layouts.map(({ gpus, hardware }) => `${gpus} x ${hardware.name}`))];
  const isOneModel = new Set(layouts.map(({ model }) => model.name)).size === 1;
  const model = isOneModel ? `${safe(first.layout.model.name)}, ` : '';
  return `${model}${clusters.slice(0, 3).join(', ')}${clusters.length > 3 ? ', …' : ''}; ${isPredicted(first.layout) ? 'predicted' : 'counted for this library'}.`;
}
