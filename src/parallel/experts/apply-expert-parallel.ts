import { ConfigError } from '../../core/errors';
import type { ModelParallel } from '../../dist/model-parallel';
import type { Module } from '../../nn/module';
import { type MixtureOfExperts, mixturesIn } from '../../nn/moe/mixture-of-experts';
import { splitParameter } from '../tensor/split-parameter';
import { expertExchange } from './expert-exchange';

/**
 * Divides the experts of all layers of a model over the ranks of `parallel.ep`, in place, and returns the model: each rank has the
 * values of an equal, consecutive part of each layer's experts, and rows travel to the ranks that have their experts. Ranks of `ep`
 * have other batches, so they belong to `dp`. Losses, gradients and parameters equal those of whole experts on every rank, except for
 * the order of sums; an expert's gradient is averaged over `parallel.edp`. Call it before DDP and fullyShard, to which you give
 * `parallel.mesh.slice('dp')`.
 * Source: Lepikhin et al. 2020 (GShard); Megatron's expert_model_parallel_size. Throws: CONFIG for a model without experts, for
 * experts that the ranks do not divide, and for a second call.
 */
export function applyExpertParallel<M extends Module>(
  model: M,
  { ep, edp }: Pick<ModelParallel, 'ep' | 'edp'>,
): M {
  const mixtures = mixturesIn(model);
  if (mixtures.length === 0) {
    throw new ConfigError(
      `applyExpertParallel: a ${model.constructor.name} has no experts; use nn.moe or a module with an nn.MixtureOfExperts`,
    );
  }
  for (const mixture of mixtures) requireExperts(mixture, ep.size);
  if (ep.size === 1) return model;
  for (const mixture of mixtures) divide(mixture, { ep, edp });
  return model;
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

function divide(mixture: MixtureOfExperts, { ep, edp }: Pick<ModelParallel, 'ep' | 'edp'>): void {
  const { experts } = mixture;
  const own = experts.length / ep.size;
  experts.owned = Array.from({ length: own }, (_, i) => ep.rank * own + i);
  const over = { group: ep, copies: 1, replicas: edp };
  [...experts].forEach((expert, i) => {
    const isOwn = experts.owned?.includes(i) === true;
    for (const module of expert.modules()) {
      for (const [name, { shape }] of module.ownParameters) {
        const length = isOwn ? (shape[0] ?? 1) : 0;
        const ranges = isOwn ? [{ begin: 0, end: length }] : [];
        splitParameter(module, name, { split: { over, wholeShape: shape, dim: 0, ranges }, length });
      }
    }
  });
  mixture.exchange = expertExchange(ep);
}
