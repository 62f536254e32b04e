import type { StrategyName } from '../../config/strategies';
import type { TrainConfigInput } from '../../config/train-config';
import type { LinkNumbers } from '../../transport/link';

/** One run that is predicted and then done. */
export interface OwnRunCase {
  readonly model: 'tiny' | 'bench';
  readonly strategy: StrategyName;
  readonly recompute: boolean;
  readonly world: number;
  /** null: as fast as ranks of one host can exchange. */
  readonly link: LinkNumbers | null;
}

export const OWN_MODELS = ['tiny', 'bench'] as const;
const STRATEGIES = ['NO_SHARD', 'SHARD_GRAD_OP', 'FULL_SHARD'] as const satisfies readonly StrategyName[];

/**
 * Cases of these worlds on these wires, world by world; recompute only with the last strategy. One rank shards nothing
 * and has no wire.
 */
export function ownRunCases(
  worlds: readonly number[],
  links: readonly (LinkNumbers | null)[],
): readonly OwnRunCase[] {
  return worlds.flatMap((world) =>
    (world === 1 ? [null] : links).flatMap((link) =>
      OWN_MODELS.flatMap((model) => kindsOf(world).map((kind) => ({ model, ...kind, world, link }))),
    ),
  );
}

function kindsOf(world: number): readonly Pick<OwnRunCase, 'strategy' | 'recompute'>[] {
  const [first, ...others] = STRATEGIES;
  const plain = (world === 1 ? [first] : [first, ...others]).map((strategy) => ({
    strategy,
    recompute: false,
  }));
  return [...plain, { strategy: world === 1 ? first : 'FULL_SHARD', recompute: true }];
}

export function configOfCase({ model, strategy, recompute }: OwnRunCase): TrainConfigInput {
  return {
    model,
    data: 'synthetic',
    batch: 4,
    parallel: { strategy },
    activationCheckpointing: recompute ? 'full' : null,
  };
}

/** As 'bench FULL_SHARD, recomputed, 4 ranks, 2 Gbit/s'. */
export function nameOfCase({ model, strategy, recompute, world, link }: OwnRunCase): string {
  const ranks = world === 1 ? '1 rank' : `${world} ranks`;
  const wire = link === null ? (world === 1 ? [] : ['shared memory']) : [`${link.gbit} Gbit/s`];
  return [`${model} ${strategy}`, ...(recompute ? ['recomputed'] : []), ranks, ...wire].join(', ');
}
