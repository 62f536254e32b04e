import type { Layout } from './layout';
import type { Assumed } from './layout-of-config';
import type { PlanRequest } from './request';

/** What published shapes of models say beside their sizes; it follows from the kind, or changes nothing that is planned. */
export const PUBLISHED_FACTS: readonly string[] = [
  'expert_choice',
  'boundary',
  'patch',
  'qk_norm',
  'cross_attn_norm',
  'vae_stride',
  'frames',
  'params_per_expert',
  'active_experts',
  'attn_dim',
  'relative_bias_per_layer',
  'dtype',
];

/**
 * Settings of a request that its layout does not have, each with what it has instead. `written` is the request as it came,
 * `request` the same parsed.
 */
export function requestReadings(written: object, request: PlanRequest, layout: Layout): readonly Assumed[] {
  const { schedule, virtualStages, parallel, recomputeEveryNth, optimizerStates } = request;
  const { sequenceParallel, asyncTensorParallel, dpShard } = parallel;
  const asked = {
    schedule,
    virtualStages,
    'parallel.sequenceParallel': sequenceParallel,
    'parallel.asyncTensorParallel': asyncTensorParallel,
    'parallel.dpShard': dpShard,
    recomputeEveryNth,
    'optimizerStates.momentum': optimizerStates.momentum,
  };
  const planned: Record<keyof typeof asked, unknown> = {
    schedule: layout.pp > 1 || schedule === '1F1B' ? layout.schedule : 'one stage',
    virtualStages: layout.virtualStages,
    'parallel.sequenceParallel': layout.sequenceParallel,
    'parallel.asyncTensorParallel': layout.asyncTensorParallel,
    'parallel.dpShard': layout.shards,
    recomputeEveryNth: layout.recompute === 'full' ? recomputeEveryNth : 1,
    'optimizerStates.momentum': optimizerStates.kind === 'sgd' ? optimizerStates.momentum : 0,
  };
  const changed = Object.entries(asked).flatMap(([setting, value]) => {
    const instead = planned[setting as keyof typeof asked]; // Object.entries gives the same keys
    if (value === undefined || value === instead) return [];
    return [{ setting, says: `${setting} ${value} has no effect here: planned as ${instead}` }];
  });
  return [...changed, ...factsOf(written)];
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
