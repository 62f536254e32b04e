import {
  consecutivePlacement,
  copiesPerRank,
  type ExpertPlacement,
  fields,
  instance,
  type LayerPlacement,
  nearest,
  ofKind,
  parseOptions,
  placementIssue,
  requireKind,
  type ShapeOf,
} from '../../config';
import { ConfigError } from '../../core';
import { type MixtureOfExperts, type Module, mixturesIn, requireModule } from '../../nn';
import type { ModelParallel } from '../../wire';
import { splitParameter } from '../tensor/split-parameter';
import { expertCopies } from './expert-copies';
import { expertExchange } from './expert-exchange';

/** Options of `applyExpertParallel`. */
export interface ExpertParallelOptions {
  /**
   * The experts and the copies of experts that each rank has: the result of `placeExperts`. Default: equally many consecutive
   * experts per rank, no copies.
   */
  readonly placement?: ExpertPlacement | null | undefined;
}

const OPTIONS = {
  placement: ofKind<ExpertPlacement>(fields).nullable().default(null),
} satisfies ShapeOf<ExpertParallelOptions>;

/**
 * Divides the experts of all layers of a model over the ranks of `parallel.ep`, in place, and returns the model. Each rank stores
 * the values of equally many experts of each layer (consecutive experts, or the experts of `placement`). Each row travels to the
 * rank that has the row's expert. The ranks of `ep` have different batches, so these ranks also belong to `dp`. Losses, gradients
 * and parameters are the same as if every rank had all experts, except for the order of sums; an expert's gradient is averaged
 * over `parallel.edp`. Call this function before DDP and fullyShard, to which you give `parallel.mesh.slice('dp')`.
 * Source: Lepikhin et al. 2020 (GShard); Megatron's expert_model_parallel_size. Throws: CONFIG for a model without experts, for
 * experts that the ranks do not divide, for a placement that does not fit the experts, and for a second call.
 */
export function applyExpertParallel<M extends Module>(
  model: M,
  parallel: Pick<ModelParallel, 'ep' | 'edp'>,
  options: ExpertParallelOptions = {},
): M {
  const settings = parseOptions('applyExpertParallel(model, parallel, { … })', options, OPTIONS);
  const placement = settings.placement ?? {};
  requireKind('applyExpertParallel', 'the second argument', parallel, instance);
  const { ep, edp } = parallel;
  const mixtures = mixturesIn(requireModule('applyExpertParallel', model));
  if (mixtures.length === 0) {
    throw new ConfigError(
      `applyExpertParallel: a ${model.constructor.name} has no experts; use nn.moe or a module with an nn.MixtureOfExperts`,
    );
  }
  for (const mixture of mixtures) requireExperts(mixture, ep.size);
  requirePlacement(placement, mixtures, ep.size);
  if (ep.size === 1) return model;
  for (const mixture of mixtures) {
    const { path, experts } = mixture;
    divide(mixture, sorted(placement[path] ?? consecutivePlacement(experts.length, ep.size)), { ep, edp });
  }
  return model;
}

function requirePlacement(
  placement: ExpertPlacement,
  mixtures: readonly MixtureOfExperts[],
  ranks: number,
): void {
  for (const [layer, each] of Object.entries(placement)) {
    const mixture = mixtures.find(({ path }) => path === layer);
    const issue =
      mixture === undefined
        ? unknownLayer(
            layer,
            mixtures.map(({ path }) => path),
          )
        : placementIssue(layer, each, mixture.experts.length, ranks);
    if (issue !== null) throw new ConfigError(`the placement of experts: ${issue}`, { layer, ranks });
  }
}

function unknownLayer(layer: string, known: readonly string[]): string {
  const near = nearest(layer, known);
  const hint = near === undefined ? `layers with experts are ${known.join(', ')}` : `did you mean '${near}'?`;
  return `the model has no layer '${layer}' with experts; ${hint}`;
}

/** All ranks send and receive in the order of experts. */
function sorted({ experts, copies }: LayerPlacement): LayerPlacement {
  const ascending = (lists: LayerPlacement['experts']) =>
    lists.map((list) => [...list].sort((a, b) => a - b));
  return { experts: ascending(experts), copies: ascending(copies) };
}

function requireExperts({ experts, path }: MixtureOfExperts, ranks: number): void {
  if (experts.owned !== null)
    throw new ConfigError(
      `applyExpertParallel: the experts of "${path}" are divided already; build the model again`,
    );
  if (experts.parameters().some(({ isAdopted }) => isAdopted))
    throw new ConfigError(
      `applyExpertParallel: "${path}" is already in a DDP or a unit; divide experts first`,
    );
  if (experts.length % ranks === 0) return;
  const divisors = Array.from({ length: experts.length }, (_, i) => i + 1).filter(
    (n) => experts.length % n === 0,
  );
  throw new ConfigError(
    `expert parallelism: ${ranks} ranks do not divide the ${experts.length} experts of "${path}"; use ${divisors.join(', ')} ranks`,
    { experts: experts.length, ranks },
  );
}

function divide(
  mixture: MixtureOfExperts,
  placement: LayerPlacement,
  { ep, edp }: Pick<ModelParallel, 'ep' | 'edp'>,
): void {
  const { experts } = mixture;
  const owned = placement.experts[ep.rank] ?? [];
  experts.owned = owned;
  const over = { group: ep, copies: 1, replicas: edp };
  [...experts].forEach((expert, i) => {
    const isOwn = owned.includes(i);
    for (const module of expert.modules()) {
      for (const [name, { shape }] of module.ownParameters) {
        const length = isOwn ? (shape[0] ?? 1) : 0;
        const ranges = isOwn ? [{ begin: 0, end: length }] : [];
        splitParameter(module, name, { split: { over, wholeShape: shape, dim: 0, ranges }, length });
      }
    }
  });
  // Other ranks' experts have no elements here, but they have their names, so all ranks know which experts are frozen.
  const trains = (): boolean => experts.parameters().some(({ requiresGrad }) => requiresGrad);
  mixture.exchange = expertExchange(ep, placement, trains);
  if (copiesPerRank(placement) > 0) experts.copies = expertCopies(ep, placement, mixture.path);
}
