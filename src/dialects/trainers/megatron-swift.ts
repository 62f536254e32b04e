import { STRATEGIES } from '../../config/strategies';
import { MEGATRON_KEYS } from '../megatron/megatron';
import { SHARDINGS, virtual, writtenRecompute, writtenVirtualStages } from '../megatron/megatron-parallel';
import {
  allNone,
  both,
  decides,
  type Exported,
  type KeyRow,
  type KeyTable,
  none,
  onlyRead,
  refused,
} from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { wholeOf, wordOf, yesOf } from '../rows/values';
import { DOCUMENT, SWIFT_KEYS } from './swift';

// `megatron sft`. Source: ms-swift's Command-line-parameters.md of Megatron-SWIFT.

/** Arguments of megatron sft alone. */
const OTHER: KeyTable = {
  ...allNone(
    'run.savePretrained writes whole parameters as safetensors, and model: { from: FOLDER } reads them',
    'load_safetensors save_safetensors mcore_model mcore_adapter merge_lora max_shard_size offload_bridge output_dir save_steps save_total_limit use_persistent_ckpt_worker dist_ckpt_save_pre_mcore_014 dist_ckpt_optim_fully_reshardable distrib_optim_fully_reshardable_mem_efficient perform_initialization',
  ),
  ...allNone(
    'data never ends here, so a run counts steps and not epochs; write steps',
    'max_epochs num_train_epochs',
  ),
  ...allNone(
    'kernels are fused here in any case',
    'masked_softmax_fusion bias_dropout_fusion bias_activation_fusion apply_rope_fusion gradient_accumulation_fusion apply_query_key_layer_scaling te_rng_tracker optimizer_cuda_graph manual_gc_steps manual_gc_eval deterministic_mode mlp_padding_free apply_dsa_kernel_fusion',
  ),
  ...allNone(
    'messages run beside computation here in any case',
    'overlap_p2p_comm batch_p2p_comm align_param_gather',
  ),
  ...allNone(
    'batches are read by rank and step here',
    'dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor data_sharding group_by_length packing_length packing_num_proc sequence_packing_scheduler',
  ),
  ...allNone(
    'run.log writes every step, and run.evaluate evaluates',
    'report_to logging_steps swanlab_project swanlab_exp_name eval_steps metric_for_best_model greater_is_better callbacks',
  ),
  ...allNone(
    "the model's own layers are as its config.json says",
    'moe_router_dtype moe_z_loss_coeff moe_token_drop_policy mtp_num_layers mtp_loss_scaling_factor language_model_only vit_gradient_checkpointing vit_gradient_checkpointing_kwargs vit_attn_impl freeze_parameters freeze_parameters_regex freeze_parameters_ratio trainable_parameters trainable_parameters_regex target_regex',
  ),
  ...allNone('jobs here have collectives of their own', 'ddp_backend ddp_timeout'),
  lr_warmup_init: refused('the rate rises from 0 here'),
  use_dora: refused("Megatron-LM's layers have no DoRA; swift sft has it"),
};

/** Whether Megatron-FSDP shards more than optimizer states. */
const isByFsdp = ({ config: { parallel } }: Exported): boolean =>
  STRATEGIES[parallel.strategy].shardedAtRest.includes('gradient');

/** Returns what Megatron-FSDP shards; the strategies whose parameters stay whole until backward are stage 2. */
function sharding(exported: Exported): string | undefined {
  const { strategy } = exported.config.parallel;
  if (!isByFsdp(exported)) return undefined;
  return wordOf<string>(SHARDINGS, strategy === 'FULL_SHARD' ? strategy : 'ZERO_2');
}

/** Returns a row of Megatron-LM that an export for megatron sft writes in another way. */
function written(key: string, write: (exported: Exported) => unknown): KeyTable {
  const row: KeyRow = MEGATRON_KEYS[key] ?? none('');
  return { [key]: both(row, write) };
}

/** Arguments of Megatron-LM that megatron sft has with other values. */
const SWIFTED: KeyTable = {
  ...onlyRead(
    MEGATRON_KEYS,
    'num_virtual_stages_per_pipeline_rank use_torch_fsdp2 initial_loss_scale loss_scale_window',
  ),
  virtual_pipeline_model_parallel_size: both(
    decides('parallel.virtualStages', ({ value }) => virtual(wholeOf(value))),
    writtenVirtualStages,
  ),
  use_distributed_optimizer: both(
    decides('parallel.strategy', ({ value }) => ({
      sets: { 'parallel.strategy': yesOf(value) ? 'ZERO_1' : 'NO_SHARD' },
    })),
    ({ config }) => config.parallel.strategy !== 'NO_SHARD',
  ),
  ...written('use_megatron_fsdp', (exported) => (isByFsdp(exported) ? true : undefined)),
  ...written('data_parallel_sharding_strategy', sharding),
  ...written('recompute_granularity', (exported) => writtenRecompute(exported) ?? 'none'),
  ...written('bf16', ({ config }) => config.mixedPrecision?.paramDtype === 'bfloat16'),
  ...written('fp16', ({ config }) => config.mixedPrecision?.paramDtype === 'float16'),
};

export const MEGATRON_SWIFT: Dialect = {
  name: 'megatron sft',
  keys: {
    ...SWIFT_KEYS,
    ...onlyRead(
      SWIFT_KEYS,
      'deepspeed fsdp zero_hpz_partition_size sequence_parallel_size gradient_checkpointing',
    ),
    ...OTHER,
    ...MEGATRON_KEYS,
    ...SWIFTED,
    ...DOCUMENT,
  },
  usual: (other) => ({
    usual: {
      batch: 1,
      'optimizer.lr': other('tuner_type') === 'lora' || other('train_type') === 'lora' ? 1e-4 : 1e-5,
      'optimizer.weightDecay': 0.1,
      'optimizer.betas': [0.9, 0.95],
      'schedule.kind': 'cosine',
      seed: 42,
      'mixedPrecision.paramDtype': 'bfloat16',
      'mixedPrecision.reduceDtype': 'float32',
      'parallel.strategy': 'ZERO_1',
      activationCheckpointing: 'selective',
    },
    why: "Megatron-SWIFT's defaults: bfloat16, optimizer states that are sharded, and selective recomputation",
  }),
};
