import { z } from 'zod';
import { kindOf } from '../families/families';
import { size } from '../families/kinds';
import type { Settings } from '../setting';
import { isOwnModel, type ModelSetting, modelShape, positionsOf } from './model';

/** How ranks compute attention over a sequence that is divided among these ranks. */
export const CP_KINDS = ['ulysses', 'ring'] as const;

/** The part of a config that the rules below read. */
export interface ModelParallelRead {
  readonly parallel: {
    readonly tp: number;
    readonly sequenceParallel: boolean;
    readonly cp: number;
    readonly pp: number;
  };
}

/** The part of a config that the rules about sequences read. */
export interface SequenceRead extends ModelParallelRead {
  readonly model: ModelSetting;
  readonly parallel: ModelParallelRead['parallel'] & { readonly cpKind: (typeof CP_KINDS)[number] };
}

/** How ranks share one copy of a model's matrices. */
export const MODEL_PARALLEL = {
  tp: {
    schema: size.default(1),
    says: 'number of neighbouring ranks that hold parts of the same matrices (tensor parallelism); the strategy applies to the ranks that hold the same parts',
    names: {
      megatron: 'tensor_model_parallel_size',
      deepSpeed: 'autotp_size',
      accelerate: ['megatron_lm_tp_degree', 'parallelism_config_tp_size'],
    },
    changes: 'loss',
    planned: { reads: true },
  },
  sequenceParallel: {
    schema: z.boolean().default(false),
    says: 'whether each rank of tensor parallelism computes norms and residuals only for its part of the sequence',
    names: { megatron: 'sequence_parallel', accelerate: 'megatron_lm_sequence_parallelism' },
    idle: (config: ModelParallelRead): string | null =>
      config.parallel.sequenceParallel ? withoutSplit(config) : null,
    conflict: ({ model, parallel: { tp, cp, sequenceParallel } }: SequenceRead): string | null =>
      sequenceParallel ? undivided(model, cp * tp, `${cp * tp} ranks`) : null,
    changes: 'work',
    planned: { reads: true },
  },
  cp: {
    schema: size.default(1),
    says: 'number of ranks that hold parts of the positions of the same sequences (context parallelism); the strategy shards over these ranks and the data-parallel ranks',
    names: {
      megatron: 'context_parallel_size',
      wan: 'ulysses_size',
      deepSpeed: 'sequence_parallel_size',
      accelerate: [
        'megatron_lm_context_parallel_size',
        'parallelism_config_cp_size',
        'parallelism_config_sp_size',
      ],
    },
    conflict: ({ model, parallel: { tp, cp, cpKind } }: SequenceRead): string | null => {
      if (cp === 1) return null;
      const shape = modelShape({ model });
      if (isOwnModel(shape)) return null;
      const kind = kindOf(shape);
      const reason = kind?.sequenceConflict?.(shape) ?? null;
      if (reason !== null) return `the sequences of a '${shape.kind}' cannot be divided: ${reason}`;
      const heads = 'heads' in shape ? shape.heads / tp : cp;
      if (cpKind === 'ulysses' && Number.isInteger(heads) && heads % cp !== 0)
        return `${cp} ranks do not divide the ${heads} heads that Ulysses exchanges; give a divisor of ${heads}, or cpKind 'ring'`;
      // A ring's zigzag order gives each rank an early and a late chunk; only causal attention needs it.
      return cpKind === 'ring' && kind?.isCausal
        ? undivided(model, 2 * cp, `the ${2 * cp} chunks of a ring of ${cp} ranks`)
        : undivided(model, cp, `${cp} ranks`);
    },
    changes: 'loss',
    planned: { reads: true },
  },
  cpKind: {
    schema: z.enum(CP_KINDS).default('ulysses'),
    idle: ({ parallel }: ModelParallelRead): string | null =>
      parallel.cp === 1 ? 'has no effect with parallel.cp 1: every rank has whole sequences' : null,
    says: 'how attention reaches the positions of other ranks: by an exchange of heads, or by keys and values that travel round a ring',
    names: { megatron: 'cp_comm_type' },
    changes: 'work',
    planned: { reads: true },
  },
} as const satisfies Settings<SequenceRead>;

/** Returns the number of data-parallel ranks, which have different batches. */
export function dataRanksOf({ parallel }: ModelParallelRead, world: number): number {
  return world / (parallel.tp * parallel.cp * parallel.pp);
}

/** Returns a rank's index among the data-parallel ranks. Source of the order: Megatron's tp-cp-dp-pp. */
export function dataPlaceOf(config: ModelParallelRead, rank: number, world: number) {
  const { tp, cp } = config.parallel;
  const worldSize = dataRanksOf(config, world);
  return { rank: Math.floor(rank / (tp * cp)) % worldSize, worldSize };
}

/** Returns the number of ranks over which a strategy shards. */
export function shardRanksOf({ parallel }: ModelParallelRead, world: number): number {
  return world / (parallel.tp * parallel.pp);
}

/** Returns what contradicts a division of the model's sequences; null if nothing does. */
function undivided(model: ModelSetting, parts: number, what: string): string | null {
  const shape = modelShape({ model });
  if (isOwnModel(shape)) return null;
  const length = positionsOf(shape);
  if (length % parts === 0) return null;
  const name = 'seq' in shape ? `seq ${length}` : `${length} patches`;
  return `${what} do not divide the model's ${name}; give a multiple of ${parts}, or change a degree`;
}

function withoutSplit({ parallel }: ModelParallelRead): string | null {
  return parallel.tp === 1 ? 'has no effect with parallel.tp 1: no other rank shares the sequence' : null;
}
