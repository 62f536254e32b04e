import { STRATEGIES, virtualStagesOf } from '../../config';
import { ConfigError } from '../../core';
import {
  allNone,
  both,
  decides,
  type Exported,
  flag,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  settingBoth,
  settingKeys,
  type Translation,
} from '../rows/key-row';
import { whole, wholeOf, word, wordOf, yesOf } from '../rows/values';

// Megatron-LM's arguments that divide a model over ranks, and those that choose which layers run again in backward.

/** Returns the row of a flag that gives a setting a value. */
function on(path: string, value: unknown, why?: string): KeyRow {
  return flag(
    decides(path, ({ value: given }) =>
      yesOf(given)
        ? { sets: { [path]: value }, ...(why !== undefined && { why }) }
        : { effect: 'none', why: 'is off' },
    ),
  );
}

function fsdp({ value, other }: KeyInput): Translation {
  if (!yesOf(value)) return { effect: 'none', why: 'is off' };
  const isKept = yesOf(other('torch_fsdp2_no_reshard_after_forward') ?? false);
  return { sets: { 'parallel.strategy': isKept ? 'SHARD_GRAD_OP' : 'FULL_SHARD' } };
}

const WHOLE_BLOCKS = 'whole blocks run again here';

function recompute({ value }: KeyInput): Translation {
  // `megatron sft` also accepts 'none'.
  return {
    sets: { activationCheckpointing: word({ full: 'full', selective: 'selective', none: null })(value) },
  };
}

/** Returns Megatron-LM's word that is nearest to the config's choice of layers that run again. */
export function writtenRecompute({
  config: { activationCheckpointing: chosen },
}: Exported): string | undefined {
  if (chosen === null) return undefined;
  return chosen === 'full' || (typeof chosen === 'object' && 'everyNth' in chosen) ? 'full' : 'selective';
}

/**
 * NVIDIA's names for kinds of context parallelism, each with our kind. An export writes the first name of the config's kind.
 */
const CP_KINDS = { p2p: 'ring', a2a: 'ulysses', all_gather: 'ring', 'a2a+p2p': 'ring' } as const;

/** Megatron-FSDP's words for what is sharded, each with our strategy. */
export const SHARDINGS = {
  no_shard: 'NO_SHARD',
  optim: 'ZERO_1',
  optim_grads: 'ZERO_2',
  optim_grads_params: 'FULL_SHARD',
} as const;

/** Returns the number of stages per rank for an export, if each rank has several stages. */
export function writtenVirtualStages({ config: { parallel } }: Exported): number | undefined {
  const stages = virtualStagesOf(parallel);
  return parallel.pp > 1 && stages > 1 ? stages : undefined;
}

export const PARALLEL: KeyTable = {
  ...settingKeys('megatron', {
    'parallel.tp': { tensor_model_parallel_size: settingBoth('parallel.tp', whole) },
    'parallel.pp': { pipeline_model_parallel_size: settingBoth('parallel.pp', whole) },
    'parallel.cp': {
      context_parallel_size: both(
        decides('parallel.cp', ({ value }) => ({
          sets: { 'parallel.cp': wholeOf(value), ...(wholeOf(value) > 1 && { 'parallel.cpKind': 'ring' }) },
        })),
        ({ config }) => config.parallel.cp,
      ),
    },
    'parallel.cpKind': {
      cp_comm_type: both(
        decides('parallel.cpKind', ({ value, other }) =>
          wholeOf(other('context_parallel_size') ?? 1) === 1
            ? { effect: 'none', why: 'sequences are not divided' }
            : { sets: { 'parallel.cpKind': word(CP_KINDS)([value].flat()[0]) } },
        ),
        ({ config: { parallel } }) =>
          parallel.cp > 1 ? wordOf<string>(CP_KINDS, parallel.cpKind) : undefined,
      ),
    },
    'parallel.ep': { expert_model_parallel_size: whole },
    'parallel.sequenceParallel': {
      sequence_parallel: both(on('parallel.sequenceParallel', true), ({ config: { parallel } }) =>
        parallel.sequenceParallel && parallel.tp > 1 ? true : undefined,
      ),
    },
    'parallel.virtualStages': {
      num_virtual_stages_per_pipeline_rank: both(
        decides('parallel.virtualStages', ({ value }) => virtual(wholeOf(value))),
        writtenVirtualStages,
      ),
    },
  }),
  num_layers_per_virtual_pipeline_stage: decides('parallel.virtualStages', ({ value, other }) => {
    const [layers, pp] = [Number(other('num_layers')), Number(other('pipeline_model_parallel_size') ?? 1)];
    const stages = layers / pp / wholeOf(value);
    if (Number.isInteger(stages)) return virtual(stages);
    throw new ConfigError(
      Number.isNaN(stages)
        ? 'needs --num-layers, which no line has'
        : `${layers} layers / ${pp} ranks of the pipeline are ${layers / pp} layers per rank, which are no multiple of ${wholeOf(value)} layers per virtual stage; change one of them`,
    );
  }),
  use_distributed_optimizer: both(on('parallel.strategy', 'ZERO_1'), ({ config }) =>
    config.parallel.strategy === 'ZERO_1' ? true : undefined,
  ),
  torch_fsdp2_no_reshard_after_forward: on('parallel.strategy', 'SHARD_GRAD_OP'),
  use_torch_fsdp2: both(flag(decides('parallel.strategy', fsdp)), ({ config }) =>
    STRATEGIES[config.parallel.strategy].shardedAtRest.includes('parameter') ? true : undefined,
  ),
  use_megatron_fsdp: flag(decides('parallel.strategy', fsdp)),
  use_custom_fsdp: flag(decides('parallel.strategy', fsdp)),
  data_parallel_sharding_strategy: decides('parallel.strategy', ({ value, other }) => {
    const isUsed = ['use_megatron_fsdp', 'use_custom_fsdp'].some((name) => yesOf(other(name) ?? false));
    return isUsed
      ? { sets: { 'parallel.strategy': word(SHARDINGS)(value) } }
      : { effect: 'none', why: 'has no effect without --use-megatron-fsdp' };
  }),
  recompute_granularity: both(decides('activationCheckpointing', recompute), writtenRecompute),
  recompute_activations: on('activationCheckpointing', 'selective'),
  optimizer_cpu_offload: on('offload.optimizer', true),
  recompute_method: both(none(WHOLE_BLOCKS), (exported) =>
    writtenRecompute(exported) === 'full' ? 'uniform' : undefined,
  ),
  recompute_num_layers: both(none(WHOLE_BLOCKS), (exported) =>
    writtenRecompute(exported) === 'full' ? 1 : undefined,
  ),
  ...allNone(WHOLE_BLOCKS, 'recompute_modules distribute_saved_activations'),
};

export function virtual(stages: number): Translation {
  return stages === 1
    ? { effect: 'none', why: 'a rank has one stage' }
    : { sets: { 'parallel.virtualStages': stages, 'parallel.schedule': 'interleaved' } };
}
