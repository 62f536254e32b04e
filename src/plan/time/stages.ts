import type { Layout } from '../layout';

/** What one pipeline stage holds: layers, and whether it begins or ends the model. */
export interface Stage {
  readonly layers: number;
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

/** Layers by stage, as even as they go, the earlier ones with one more. A stage's virtual stages are counted together. */
export function stagesOf({ model, pp }: Layout): Stage[] {
  const least = Math.floor(model.layers / pp);
  const more = model.layers % pp;
  return Array.from({ length: pp }, (_, stage) => ({
    layers: least + (stage < more ? 1 : 0),
    isFirst: stage === 0,
    isLast: stage === pp - 1,
  }));
}

/** Parameters that one rank of the stage computes with: cut by tensor parallelism, whole over data parallelism. */
export function stageParams({ model, tp }: Layout, { layers, isFirst, isLast }: Stage): number {
  const { layerParams, outerParams, vocab, dim } = model;
  const table = vocab * dim;
  // The table stands first, the head last; a tied one on both.
  const rest = outerParams - table * (model.tied ? 1 : 2);
  const outer =
    (isFirst ? table + (vocab === 0 ? rest : 0) : 0) + (isLast && !(isFirst && model.tied) ? table : 0);
  return (layers * layerParams + outer) / tp;
}
