import type { StrategyName, TrainConfigInput } from '../../config';
import type { LinkNumbers } from '../../wire';

/** A run that is predicted, and also executed for comparison. */
export interface OwnRunCase {
  readonly model: 'tiny' | 'bench';
  /** How the model is divided; null: the run is only data parallel. */
  readonly layout: OwnLayout | null;
  readonly strategy: StrategyName;
  readonly recompute: boolean;
  readonly world: number;
  /** null: the wire is not slowed down. */
  readonly link: LinkNumbers | null;
}

export const OWN_MODELS = ['tiny', 'bench'] as const;
const STRATEGIES = ['NO_SHARD', 'SHARD_GRAD_OP', 'FULL_SHARD'] as const satisfies readonly StrategyName[];

/** A way to divide a model over ranks. */
interface OwnLayout {
  readonly name: string;
  readonly world: number;
  readonly parallel: TrainConfigInput['parallel'];
}

export const WHOLE = { strategy: 'NO_SHARD' } as const;
const LAYOUTS: readonly OwnLayout[] = [
  { name: 'tp 2', world: 2, parallel: { tp: 2, ...WHOLE } },
  { name: 'tp 2 sequence', world: 2, parallel: { tp: 2, sequenceParallel: true, ...WHOLE } },
  { name: 'pp 2', world: 2, parallel: { pp: 2, ...WHOLE } },
  { name: 'cp 2 ulysses', world: 2, parallel: { cp: 2, ...WHOLE } },
  { name: 'cp 2 ring', world: 2, parallel: { cp: 2, cpKind: 'ring', ...WHOLE } },
  { name: 'tp 2 x pp 2', world: 4, parallel: { tp: 2, pp: 2, ...WHOLE } },
  { name: 'tp 2 x dp 2 FULL_SHARD', world: 4, parallel: { tp: 2, strategy: 'FULL_SHARD' } },
  { name: 'pp 2 x dp 2 ZERO_2', world: 4, parallel: { pp: 2, strategy: 'ZERO_2' } },
  { name: 'tp 2 x pp 2 x dp 2', world: 8, parallel: { tp: 2, pp: 2, ...WHOLE } },
];

/**
 * Returns the cases of these worlds and links, world by world. Only the last strategy has a second case, with recompute. In a
 * world of one rank, there are only cases with the first strategy and without a link.
 */
export function ownRunCases(
  worlds: readonly number[],
  links: readonly (LinkNumbers | null)[],
): readonly OwnRunCase[] {
  return worlds.flatMap((world) =>
    (world === 1 ? [null] : links).flatMap((link) =>
      OWN_MODELS.flatMap((model) =>
        kindsOf(world).map((kind) => ({ model, layout: null, ...kind, world, link })),
      ),
    ),
  );
}

export function layoutCases(): readonly OwnRunCase[] {
  return LAYOUTS.flatMap((layout) =>
    OWN_MODELS.map((model) => {
      return { model, layout, ...WHOLE, recompute: false, world: layout.world, link: null };
    }),
  );
}

function kindsOf(world: number): readonly Pick<OwnRunCase, 'strategy' | 'recompute'>[] {
  const strategies = world === 1 ? STRATEGIES.slice(0, 1) : STRATEGIES;
  const plain = strategies.map((strategy) => ({ strategy, recompute: false }));
  return [...plain, ...plain.slice(-1).map(({ strategy }) => ({ strategy, recompute: true }))];
}

export function configOfCase({ model, layout, strategy, recompute }: OwnRunCase): TrainConfigInput {
  return {
    model,
    data: 'synthetic',
    batch: 4,
    parallel: layout?.parallel ?? { strategy },
    activationCheckpointing: recompute ? 'full' : null,
  };
}

/** Returns a name such as 'bench FULL_SHARD, recomputed, 4 ranks, 2 Gbit/s'. */
export function nameOfCase({ model, layout, strategy, recompute, world, link }: OwnRunCase): string {
  const ranks = world === 1 ? '1 rank' : `${world} ranks`;
  const wire = link === null ? (world === 1 ? [] : ['shared memory']) : [`${link.gbit} Gbit/s`];
  return [`${model} ${layout?.name ?? strategy}`, ...(recompute ? ['recomputed'] : []), ranks, ...wire].join(
    ', ',
  );
}
