import { allNone, exported, type KeyTable, place, refused } from './key-row';
import { wholeOf, yesOf } from './values';

// Keys of LLaMA-Factory that start processes, or that are for other ways of training. Source: src/llamafactory/hparams.

const RAY = "Ray's launcher, which starts the processes";

export const LLAMA_FACTORY_OTHER: KeyTable = {
  ray_num_workers: place('number of ranks', (value) => ({ world: wholeOf(value) })),
  ray_init_kwargs: exported(RAY),
  ray_run_name: exported(RAY),
  ray_storage_path: exported(RAY),
  placement_strategy: exported(RAY),
  resources_per_worker: exported(RAY),
  master_addr: exported(RAY),
  master_port: exported(RAY),
  fp8: place('float8, which only a plan knows', (value) => ({ isFp8: yesOf(value) })),
  ...allNone(
    'is for optimizers that are not built here; here there are adamW, adamW8bit, lion and sgd',
    'galore_target galore_rank galore_update_interval galore_scale galore_proj_type galore_layerwise apollo_target apollo_rank apollo_update_interval apollo_scale apollo_proj apollo_proj_type apollo_scale_type apollo_layerwise apollo_scale_front badam_mode badam_start_block badam_switch_mode badam_switch_interval badam_update_ratio badam_mask_mode badam_verbose',
  ),
  use_apollo: refused('APOLLO is not built here'),
  use_adam_mini: refused('Adam-mini is not built here'),
  use_muon: refused('Muon is not built here'),
  use_llama_pro: refused('LLaMA Pro is not built here; frozen freezes modules'),
  use_mca: refused('Megatron-LM trains by its own arguments, which megatron sft has'),
  ...allNone(
    'is for other adapters, freezing or preferences; here there are LoRA and training of all parameters',
    'freeze_trainable_layers freeze_trainable_modules freeze_extra_modules loraplus_lr_embedding pissa_iter pissa_convert module_dropout oft_rank oft_block_size oft_target pref_ftx pref_bco_weight dpo_label_smoothing kto_chosen_weight kto_rejected_weight simpo_gamma ppo_buffer_size ppo_epochs ppo_score_norm ppo_target ppo_whiten_rewards ref_model ref_model_adapters ref_model_quantization_bit reward_model reward_model_adapters reward_model_quantization_bit reward_model_type ld_alpha asft_alpha eaft_alpha freeze_language_model',
  ),
  ...allNone(
    'weights are not quantized here',
    'quantization_type double_quantization quantization_device_map export_quantization_bit',
  ),
  ...allNone(
    'ledgers and figures show time and memory here',
    'enable_torch_profiler profiler_output_dir profiler_wait_steps profiler_warmup_steps profiler_active_steps profiler_repeat profiler_record_shapes profiler_profile_memory profiler_with_stack profile_modules print_param_status include_effective_tokens_per_second',
  ),
  ...allNone(
    'run.log writes JSON lines and TensorBoard files',
    'swanlab_workspace swanlab_run_name swanlab_mode swanlab_api_key swanlab_logdir swanlab_lark_webhook_url swanlab_lark_secret compute_accuracy early_stopping_steps eval_on_each_dataset eval_num_beams',
  ),
  ...allNone(
    'models and batches are read from your own files',
    'split_special_tokens add_tokens add_special_tokens new_special_tokens_config init_special_tokens adapter_folder offload_folder media_dir tool_format ignore_pad_token_for_loss data_shared_file_system disable_shuffling preserve_thinking model_max_length train_from_scratch mixture_of_depths moe_aux_loss_coef use_unsloth_gc use_kv_cache use_v1_kernels block_diag_attn compute_dtype infer_dtype device_map fp8_backend fp8_enable_fsdp_float8_all_gather',
  ),
};
