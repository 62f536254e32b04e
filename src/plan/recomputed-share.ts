import type { Layout } from './layout';

/** Of the layers, those whose forward runs again in backward where recompute is on: each n-th, from the first. */
export function recomputedShare({ recompute, recomputeEveryNth, model }: Layout): number {
  return recompute === 'full' ? Math.ceil(model.layers / recomputeEveryNth) / model.layers : 1;
}
