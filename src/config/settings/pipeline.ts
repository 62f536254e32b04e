import { z } from 'zod';
import { kindOf } from '../families/families';
import { size } from '../families/kinds';
import type { Settings } from '../setting';
import { isOwnModel, type ModelSetting, modelShape } from './model';

/** The names of a pipeline's schedules. */
export const PIPELINE_SCHEDULES = ['gpipe', '1f1b', 'interleaved', 'zb'] as const;
export type PipelineScheduleName = (typeof PIPELINE_SCHEDULES)[number];

/** The quantities that can be divided evenly between the stages of a pipeline. */
export const SPLITS = ['layers', 'parameters', 'time'] as const;

/** The part of a config that the rules below read. */
export interface PipelineRead {
  readonly model: ModelSetting;
  readonly batch: number;
  readonly accumulation: number;
  readonly activationCheckpointing: unknown;
  readonly parallel: {
    readonly pp: number;
    readonly schedule: PipelineScheduleName;
    readonly virtualStages: number | null;
    readonly microbatches: number | null;
    readonly stageSplit: (typeof SPLITS)[number] | readonly number[] | readonly string[];
  };
}

type Degrees = Pick<PipelineRead, 'batch' | 'parallel'>;

/** How ranks share the layers of a model. */
export const PIPELINE = {
  pp: {
    schema: size.default(1),
    says: 'number of ranks among which the layers of the model are divided (pipeline parallelism); the strategy applies to the ranks that have the same layers',
    names: {
      megatron: 'pipeline_model_parallel_size',
      torch: 'pipeline_parallel_degree',
      deepSpeed: 'num_stages',
      accelerate: 'megatron_lm_pp_degree',
    },
    conflict: (config: PipelineRead): string | null => (config.parallel.pp === 1 ? null : uncut(config)),
    changes: 'loss',
    planned: { reads: true },
  },
  schedule: {
    schema: z.enum(PIPELINE_SCHEDULES).default('1f1b'),
    says: 'the order in which the stages of a pipeline run their microbatches: GPipe, 1F1B, interleaved 1F1B, or zero bubble (ZB-H1)',
    form: "'gpipe', '1f1b', 'interleaved' or 'zb'; other zero-bubble schedules (ZBV, DualPipe) are not built",
    names: { torch: ['pipeline_parallel_schedule', 'pipeline_schedule'] },
    words: {
      schedulegpipe: 'gpipe',
      schedule1f1b: '1f1b',
      interleaved1f1b: 'interleaved',
      scheduleinterleaved1f1b: 'interleaved',
      zbh1: 'zb',
      schedulezbh1: 'zb',
      zerobubble: 'zb',
    },
    idle: withoutStages,
    conflict: (config: PipelineRead): string | null => {
      const { pp, schedule, virtualStages } = config.parallel;
      if (pp === 1 || schedule !== 'interleaved') return null;
      const microbatches = microbatchesOf(config);
      if (virtualStages === 1)
        return "'interleaved' needs several stages per rank, not parallel.virtualStages 1; give 2 or more, or schedule '1f1b'";
      if (microbatches % pp === 0) return null;
      return (
        `'interleaved' runs rounds of one microbatch per rank, and ${microbatches} microbatches are not a whole number of rounds with ` +
        `parallel.pp ${pp}; give a multiple of ${pp}, or schedule '1f1b'`
      );
    },
    changes: 'work',
    planned: {
      reads: true,
      but: (config: PipelineRead): string | null =>
        config.parallel.pp > 1 && config.parallel.schedule === 'zb'
          ? 'is planned as 1f1b: plans know no zero bubble'
          : null,
    },
  },
  virtualStages: {
    schema: size.nullable().default(null),
    says: "number of stages per rank of a pipeline. `null`: 2 with schedule 'interleaved', else 1",
    names: {
      megatron: ['virtual_pipeline_model_parallel_size', 'num_virtual_stages_per_pipeline_rank'],
    },
    idle: withoutStages,
    conflict: ({ parallel: { pp, schedule, virtualStages } }: PipelineRead): string | null =>
      pp === 1 || (virtualStages ?? 1) === 1 || schedule === 'interleaved'
        ? null
        : `${virtualStages} stages per rank need parallel.schedule 'interleaved', because '${schedule}' has one`,
    changes: 'work',
    planned: { reads: true },
  },
  microbatches: {
    schema: size.nullable().default(null),
    says: "number of equal parts of a batch that pass through a pipeline's stages one after another. `null`: parts of one row. Source of the default: TorchTitan's pipeline_parallel_microbatch_size",
    form: 'an integer that divides `batch`, or null',
    names: {
      torch: 'n_microbatches',
      deepSpeed: 'micro_batches',
      accelerate: 'megatron_lm_num_micro_batches',
    },
    idle: withoutStages,
    conflict: (config: PipelineRead): string | null => {
      const { batch, parallel } = config;
      if (parallel.pp === 1 || batch % microbatchesOf(config) === 0) return null;
      return `${parallel.microbatches} does not divide batch ${batch} (rows per data-parallel rank and pass); change one of them`;
    },
    changes: 'work',
    planned: { reads: true },
  },
  stageSplit: {
    schema: z.union([z.enum(SPLITS), z.array(size).min(1), z.array(z.string()).min(1)]).default('layers'),
    says:
      "where a model is cut into stages. 'layers': all stages have equally many layers; 'parameters': the largest stage has as few parameters " +
      "as possible; 'time': the slowest stage takes as little time as possible (by a short measurement at the start). Or give the numbers " +
      'of layers per stage, or the names of the modules at which the second and later stages begin',
    form: "'layers', 'parameters', 'time', layers per stage ([3, 2]) or names (['blocks.3'])",
    names: {
      deepSpeed: 'partition_method',
      torch: 'pipeline_parallel_split_points',
      megatron: [
        'pipeline_model_parallel_layout',
        'decoder_first_pipeline_num_layers',
        'account_for_embedding_in_pipeline_split',
      ],
    },
    words: { uniform: 'layers', profile: 'time' },
    idle: withoutStages,
    changes: 'work',
    planned: { refused: "is planned as 'layers': stages with equally many layers" },
  },
} as const satisfies Settings<PipelineRead>;

/** Returns the number of stages per rank. */
export function virtualStagesOf({ schedule, virtualStages }: PipelineRead['parallel']): number {
  return virtualStages ?? (schedule === 'interleaved' ? 2 : 1);
}

/** Returns the number of microbatches of a pass through a pipeline. */
export function microbatchesOf({ batch, parallel }: Degrees): number {
  return parallel.microbatches ?? batch;
}

function withoutStages({ parallel }: PipelineRead): string | null {
  return parallel.pp === 1 ? 'has no effect with parallel.pp 1: the model is not divided into stages' : null;
}

/** Returns why the config's model cannot be divided into its stages; null if it can, or if only the ranks can check it. */
function uncut({ model, activationCheckpointing, parallel }: PipelineRead): string | null {
  const { pp } = parallel;
  const virtualStages = virtualStagesOf(parallel);
  const shape = modelShape({ model });
  const reason = isOwnModel(shape) ? null : (kindOf(shape)?.stageConflict?.(shape) ?? null);
  if (reason !== null) return `a model of kind '${shape.kind}' cannot be cut into stages: ${reason}`;
  if ('layers' in shape && shape.layers < pp * virtualStages) {
    const stages = virtualStages === 1 ? `${pp}` : `${pp} x ${virtualStages}`;
    return `${shape.layers} layers cannot be divided into ${stages} stages, because each stage needs one; give fewer stages or more layers`;
  }
  const isBudget =
    typeof activationCheckpointing === 'object' &&
    activationCheckpointing !== null &&
    'budgetBytes' in activationCheckpointing;
  return isBudget
    ? "activationCheckpointing.budgetBytes measures a forward of the whole model, which no stage runs; give 'full', 'selective' or { everyNth }"
    : null;
}
