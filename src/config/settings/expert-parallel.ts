import { type ExpertPlacement, expertPlacementSchema, placementIssue } from '../expert-placement';
import { hasRouter, kindOf } from '../families/families';
import { size } from '../families/kinds';
import type { Settings } from '../setting';
import { STRATEGIES, type StrategyName } from '../strategies';
import { type ModelSetting, modelShape } from './model';

/** The part of a config that the rules below read. */
export interface ExpertParallelRead {
  readonly model: ModelSetting;
  readonly parallel: {
    readonly ep: number;
    readonly strategy: StrategyName;
    readonly expertPlacement: ExpertPlacement | null;
  };
}

/** How ranks share the experts of a model's layers. */
export const EXPERT_PARALLEL = {
  ep: {
    schema: size.default(1),
    says: 'number of data-parallel ranks among which the experts of every layer are divided (expert parallelism); tokens travel to the ranks that have their experts, and the strategy applies to the ranks that have the same experts',
    names: {
      megatron: 'expert_model_parallel_size',
      deepSpeed: 'ep_size',
      accelerate: 'megatron_lm_expert_model_parallel_size',
    },
    conflict: (config: ExpertParallelRead): string | null =>
      config.parallel.ep === 1 ? null : (undivided(config) ?? replicated(config)),
    changes: 'work',
    planned: { reads: true },
  },
  expertPlacement: {
    schema: expertPlacementSchema.nullable().default(null),
    says: "per layer: which experts each rank of an ep group has, and of which experts it has copies. `run.reshard({ expertPlacement: 'by-use' })` computes this setting from measured loads. `null`, or a layer that is left out: each rank has an equal consecutive part",
    form: "{ 'blocks.0.moe': { experts: [[0, 3], [1, 2]], copies: [[1], [0]] } } (a list per rank) or null",
    conflict: (config: ExpertParallelRead): string | null => misplaced(config),
    changes: 'work',
    planned: { refused: 'is not read: plans have no experts within layers' },
  },
} as const satisfies Settings<ExpertParallelRead>;

/** Returns why experts cannot be placed in this way; null if they can, or if only the ranks can check it. */
function misplaced({ model, parallel: { ep, expertPlacement } }: ExpertParallelRead): string | null {
  if (expertPlacement === null) return null;
  if (ep === 1)
    return 'has no effect with parallel.ep 1: every rank has all experts; give ep, or leave it out';
  const shape = modelShape({ model });
  if (!hasRouter(shape) || shape.experts % ep !== 0) return null;
  const issues = Object.entries(expertPlacement).map(([layer, each]) =>
    placementIssue(layer, each, shape.experts, ep),
  );
  return issues.find((issue) => issue !== null) ?? null;
}

/** Returns why the model's experts cannot be divided; null if they can, or if only the ranks can check it. */
function undivided({ model, parallel: { ep } }: ExpertParallelRead): string | null {
  const shape = modelShape({ model });
  if (shape.kind === 'own') return null;
  if (!hasRouter(shape))
    return (
      kindOf(shape)?.wholeExperts?.ep ??
      `a model of kind '${shape.kind}' has no experts to divide; give model.kind 'moe', or leave ep out`
    );
  if (shape.experts % ep === 0) return null;
  return `${ep} ranks do not divide the model's ${shape.experts} experts; give a divisor of ${shape.experts}, or another number of experts`;
}

function replicated({ parallel: { strategy } }: ExpertParallelRead): string | null {
  return STRATEGIES[strategy].isHybrid
    ? `experts that are divided over ranks cannot have ${strategy}, whose mesh contains all data-parallel ranks; use FULL_SHARD, SHARD_GRAD_OP, ZERO_2, ZERO_1 or NO_SHARD`
    : null;
}
