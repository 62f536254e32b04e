import type { Layout } from './layout';
import type { Asked } from './layout-of';
import type { Assumed } from './layout-of-config';
import { PUBLISHED_FACTS } from './request';

/**
 * Settings of a request that its layout does not have, each with what it has instead. `written` is the request as it came,
 * `asked` the same parsed, with what a config says.
 */
export function requestReadings(written: object, asked: Asked, layout: Layout): readonly Assumed[] {
  const { pp, schedule, recompute, optimizer } = layout;
  const rows: readonly (readonly [setting: string, asked: unknown, planned: unknown])[] = [
    ['schedule', asked.schedule, pp > 1 || asked.schedule === '1F1B' ? schedule : 'one stage'],
    ['virtualStages', asked.virtualStages, layout.virtualStages],
    ['parallel.sequenceParallel', asked.sequenceParallel, layout.sequenceParallel],
    ['parallel.asyncTensorParallel', asked.asyncTensorParallel, layout.asyncTensorParallel],
    ['parallel.dpShard', asked.dpShard, layout.shards],
    ['recomputeEveryNth', asked.recomputeEveryNth, recompute === 'full' ? asked.recomputeEveryNth : 1],
    [
      'optimizerStates.momentum',
      asked.optimizerStates?.momentum,
      optimizer.kind === 'sgd' ? optimizer.momentum : 0,
    ],
  ];
  const changed = rows.filter(([, value, planned]) => value !== undefined && value !== planned);
  return [
    ...changed.map(([setting, value, planned]) => ({
      setting,
      says: `${setting} ${value} has no effect here: planned as ${planned}`,
    })),
    ...factsOf(written),
  ];
}

function factsOf(written: object): Assumed[] {
  const model = 'model' in written ? written.model : undefined;
  if (typeof model !== 'object' || model === null) return [];
  const facts = Object.keys(model).filter((key) => PUBLISHED_FACTS.includes(key));
  const variants = Object.entries(model).flatMap(([key, value]) =>
    typeof value === 'object' && value !== null && !PUBLISHED_FACTS.includes(key)
      ? [{ setting: `model.${key}`, says: `model.${key} ${JSON.stringify(value)} is planned as its first` }]
      : [],
  );
  if (facts.length === 0) return variants;
  const says = `model: ${facts.join(', ')} are not read: they follow from the kind, or change nothing that is planned`;
  return [...variants, { setting: facts.map((key) => `model.${key}`).join(', '), says }];
}
