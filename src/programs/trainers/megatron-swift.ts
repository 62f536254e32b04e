import { STRATEGIES } from '../../config';
import { beta, MEGATRON_KEYS, megatronStack } from '../megatron/megatron';
import { SHARDINGS, virtual, writtenRecompute, writtenVirtualStages } from '../megatron/megatron-parallel';
import { MEGATRON_REST } from '../megatron/megatron-rest';
import {
  allNone,
  both,
  decides,
  type Exported,
  type KeyRow,
  type KeyTable,
  none,
  OVERLAP,
  onlyRead,
  refused,
} from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { wholeOf, wordOf, yesOf } from '../rows/values';
import { adapterKeys, DOCUMENT, SWIFT_KEYS } from './swift';
import { swiftData } from './swift-data';

// `megatron sft`. Source: ms-swift's Command-line-parameters.md of Megatron-SWIFT.

/** Arguments of Megatron-LM that megatron sft has under the same names. */
const REST =
  'account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split apply_wd_to_qk_layernorm data_parallel_random_init decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers dsa_indexer_loss_coeff dsa_indexer_use_sparse_loss end_weight_decay lr_warmup_init mhc_recompute_layer_num moe_layer_recompute muon_coefficient_type muon_extra_scale_factor muon_fp32_matmul_prec muon_momentum muon_num_ns_steps muon_scalar_optimizer muon_scale_mode muon_tp_mode pipeline_model_parallel_layout start_weight_decay weight_decay_incr_style';

/** Arguments of megatron rlhf that megatron sft also accepts. */
const RLHF =
  'advantage_estimator async_generate beta calculate_KL center_rewards_coefficient completion_length_limit_scope cosine_max_len cosine_max_len_value_correct cosine_max_len_value_wrong cosine_min_len_value_correct cosine_min_len_value_wrong delta desirable_weight dynamic_sample epsilon epsilon_high f_divergence_type fipo_clip_high_only fipo_clip_range fipo_decay_rate fipo_safety_threshold generation_batch_size gkd_logits_topk gym_env importance_sampling_level kl_in_reward label_smoothing lmbda log_completions log_entropy log_rollout_offpolicy_metrics max_completion_length max_resample_times max_turns mcore_ref_adapter mcore_ref_model move_model_batches multi_turn_scheduler num_generations num_generations_eval num_iterations off_policy_sequence_mask_delta offload_model offload_optimizer offload_teacher_model overlong_filter real_tau ref_adapters ref_model ref_model_mixup_alpha ref_model_sync_steps reference_free repetition_max_penalty repetition_n_grams reward_funcs reward_model reward_model_plugin reward_weights rlhf_type rollout_importance_sampling_mode rollout_importance_sampling_threshold rpo_alpha scale_rewards seq_kd sft_alpha sleep_level soft_cache_length soft_max_length steps_per_generation sync_ref_model tau_neg tau_pos teacher_kl_coef teacher_model teacher_model_revision teacher_model_server teacher_model_type teacher_tag_key top_entropy_quantile undesirable_weight use_gym_env use_vllm vllm_disable_cascade_attn vllm_enable_lora vllm_enable_prefix_caching vllm_enforce_eager vllm_engine_kwargs vllm_gpu_memory_utilization vllm_limit_mm_per_prompt vllm_max_model_len vllm_max_num_seqs vllm_mm_processor_cache_gb vllm_mode vllm_server_base_url vllm_server_group_port vllm_server_host vllm_server_pass_dataset vllm_server_port vllm_server_timeout vllm_tensor_parallel_size wandb_log_unique_prompts';

/** Arguments that only megatron sft has. */
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
  ...allNone(OVERLAP, 'overlap_p2p_comm batch_p2p_comm align_param_gather'),
  ...allNone(
    'rank and step decide which batch is read here',
    'dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor data_sharding group_by_length packing_length packing_num_proc sequence_packing_scheduler',
  ),
  ...allNone(
    'run.log writes every step, and run.evaluate evaluates',
    'report_to logging_steps swanlab_project swanlab_exp_name eval_steps metric_for_best_model greater_is_better callbacks',
  ),
  ...allNone(
    "the model's config.json describes the layers",
    'moe_router_dtype moe_z_loss_coeff moe_token_drop_policy mtp_num_layers mtp_loss_scaling_factor language_model_only vit_gradient_checkpointing vit_gradient_checkpointing_kwargs vit_attn_impl freeze_parameters freeze_parameters_regex freeze_parameters_ratio trainable_parameters trainable_parameters_regex target_regex',
  ),
  ...allNone('jobs here have collectives of their own', 'ddp_backend ddp_timeout'),
  ...allNone('is for training on preferences or rewards, by swift rlhf and megatron rlhf', RLHF),
  megatron_extra_kwargs: refused('is JSON, which is not read; write its arguments one by one'),
  ...allNone(
    'this library has models and collectives of its own',
    'bridge_backend cp_partition_mode nccl_comm_warmup save_missing_weights skip_megatron_init microbatch_group_size_per_vp_stage router_replay_mode use_fused_mhc linear_decoupled_in_proj mtp_decoder_input_detach mtp_shared_weights csa_dense_mode align_grad_reduce data_seed remove_unused_columns muon_split_qkv muon_use_nesterov',
  ),
  ...onlyRead(MEGATRON_REST, REST),
  // megatron sft raises an error for DoRA. Source: swift/megatron/tuners/lora.py.
  use_dora: refused("Megatron-LM's layers have no DoRA; swift sft has it"),
};

/** Whether Megatron-FSDP shards more than optimizer states. */
const isByFsdp = ({ config: { parallel } }: Exported): boolean =>
  STRATEGIES[parallel.strategy].shardedAtRest.includes('gradient');

/** Returns Megatron-FSDP's word for what is sharded: the word for ZERO_2 if parameters stay whole until backward. */
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

/** megatron sft's default of --adam_beta2. */
const BETA2 = 0.95;

/** Arguments of Megatron-LM whose values or defaults differ in megatron sft. */
const SWIFTED: KeyTable = {
  ...adapterKeys('full'),
  adam_beta1: beta(0, BETA2),
  adam_beta2: beta(1, BETA2),
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
  stack: megatronStack,
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
      'optimizer.betas': [0.9, BETA2],
      ...(other('optimizer') === 'sgd' && { 'optimizer.momentum': 0.9 }),
      'schedule.kind': 'cosine',
      seed: 42,
      'mixedPrecision.paramDtype': 'bfloat16',
      'mixedPrecision.reduceDtype': 'float32',
      'parallel.strategy': 'ZERO_1',
      activationCheckpointing: 'selective',
    },
    place: { usualRows: { rows: 16, isPerDataRank: true } },
    why: "Megatron-SWIFT's defaults: bfloat16, sharded optimizer states, selective recomputation, and 16 rows of all ranks per step",
  }),
};

/** `megatron pt`, which trains on texts. */
export const MEGATRON_SWIFT_PT: Dialect = {
  ...MEGATRON_SWIFT,
  keys: { ...MEGATRON_SWIFT.keys, ...swiftData(() => true) },
};
