import { allNone, exported, type KeyTable, none, refused } from '../../programs/toolkit';

// Keys of Axolotl that change nothing here. Source: src/axolotl/utils/schemas.

/** Keys without an effect here, grouped by the reason. */
export const AXOLOTL_WITHOUT_EFFECT: KeyTable = {
  ...allNone(
    'tokenizers and models are read from your own folders: write data.tokenizer and model: { from: FOLDER }',
    'model_type tokenizer_type tokenizer_config tokenizer_use_fast tokenizer_legacy tokenizer_use_mistral_common tokenizer_save_jinja_files processor_type processor_kwargs base_model_config cls_model_config trust_remote_code type_of_model revision_of_model overrides_of_model_config overrides_of_model_kwargs special_tokens tokens added_tokens_overrides resize_token_embeddings_to_32x mean_resizing_embeddings shrink_embeddings embeddings_skip_upcast reinit_weights is_falcon_derived_model is_llama_derived_model is_mistral_derived_model is_qwen_derived_model model_quantization_config model_quantization_config_kwargs use_kernels use_onebitllms num_labels low_cpu_mem_usage experimental_skip_move_to_device fix_untrained_tokens',
  ),
  ...allNone(
    'shardlab sft applies chat templates; texts of a file are trained as they are',
    'chat_template chat_template_jinja chat_template_kwargs eot_tokens default_system_message train_on_inputs roles_to_train train_on_eos',
  ),
  ...allNone(
    'rank and step decide which batch is read here, and texts fill sequences without gaps',
    'test_datasets dataset_prepared_path dataset_shard_num dataset_shard_idx dataset_processes dataset_num_proc dataset_exact_deduplication dataset_keep_in_memory num_dataset_shards_to_save skip_prepare_dataset shuffle_merged_datasets shuffle_before_merging_datasets dataloader_pin_memory dataloader_num_workers dataloader_prefetch_factor dataloader_drop_last remove_unused_columns group_by_length sample_packing sample_packing_group_size sample_packing_bin_size sample_packing_sequentially sample_packing_mp_start_method sample_packing_eff_est eval_sample_packing pad_to_sequence_len pad_to_multiple_of excess_length_strategy min_sample_len max_prompt_len curriculum_sampling multipack_real_batches batch_flattening pretrain_multipack_buffer_size pretrain_multipack_attn pretraining_sample_concatenation streaming streaming_multipack_buffer_size is_preprocess preprocess_iterable total_num_tokens total_supervised_tokens max_packed_sequence_len accelerator_config',
  ),
  ...allNone(
    'write data.validation; in a notebook, run.evaluate() and run.step(n, { evalSteps }) evaluate',
    'val_set_size eval_batch_size eval_steps evals_per_epoch eval_strategy evaluation_strategy eval_sequence_len eval_table_size eval_max_new_tokens do_causal_lm_eval eval_causal_lm_metrics do_bench_eval bench_dataset bench_split metric_for_best_model greater_is_better early_stopping_patience load_best_model_at_end generate_samples num_generation_samples generation_max_new_tokens generation_temperature generation_top_p generation_top_k generation_prompt_ratio generation_do_sample',
  ),
  ...allNone(
    'in a notebook, run.step(n, { saveSteps, outputDir }) saves; shardlab run has --save',
    'output_dir save_steps saves_per_epoch save_strategy save_total_limit save_only_model save_first_step save_safetensors resume_from_checkpoint auto_resume_from_checkpoints dynamic_checkpoint fsdp_final_state_dict_type merge_lora merge_method',
  ),
  ...allNone(
    'run.log writes JSON lines; nothing is written for TensorBoard or other loggers',
    'logging_steps wandb_project wandb_entity wandb_watch wandb_name wandb_run_id wandb_mode wandb_log_model use_wandb use_mlflow mlflow_tracking_uri mlflow_experiment_name mlflow_run_name hf_mlflow_log_artifacts use_comet comet_api_key comet_workspace comet_project_name comet_experiment_key comet_mode comet_online comet_experiment_config use_tensorboard use_trackio trackio_project_name trackio_run_name trackio_space_id use_otel_metrics otel_metrics_host otel_metrics_port profiler_steps profiler_steps_start include_tokens_per_second include_tkps debug loss_watchdog_threshold loss_watchdog_patience gradio_title gradio_share gradio_server_name gradio_server_port gradio_max_new_tokens gradio_temperature',
  ),
  ...allNone(
    'nothing is downloaded from a hub or sent to one',
    'hub_model_id hub_strategy hub_revision push_dataset_to_hub hf_use_auth_token',
  ),
  ...allNone(
    'ranks run on CPUs here; a plan is for GPUs',
    'tf32 float32 device device_map max_memory gpu_memory_limit local_rank gc_steps gc_collect_steps torch_empty_cache_steps lora_on_cpu layer_offloading torch_compile_backend torch_compile_mode torch_compile_options',
  ),
  ...allNone(
    'jobs here have collectives of their own',
    'ddp ddp_timeout ddp_bucket_cap_mb ddp_broadcast_buffers ddp_find_unused_parameters world_size heads_k_stride ring_attn_func',
  ),
  ...allNone(
    'kernels are fused here in any case; write model.attention for attention',
    'flash_attn_d512 sdpa_varlen large_head_attention gemma4_hybrid_attn_impl fp32_norms fp32_norm_classes llama4_linearized_experts torchdistx_path expert_backend nonexpert_quantization moe_grouped_backend moe_dequant_chunk_size moe_bnb_fast use_scattermoe use_sonicmoe use_dsv4_kernels use_glm_dsa_kernels dsv4_fp8_nonexpert_mode dsv4_fp8_lora_kernel dsv4_shared_mlp_lora_kernel dsv4_bf16_all dsv4_fp4_grouped_mode gemma4_fp8_nonexpert gemma4_nf4_nonexpert nvfp4_merge_aware nvfp4_merge_aware_start_step expert_parallel_backend expert_parallel_num_nvl_bytes expert_parallel_num_rdma_bytes expert_parallel_token_capacity expert_parallel_fallback_on_unsupported liger_rope liger_rms_norm liger_rms_norm_gated liger_layer_norm liger_glu_activation liger_swiglu liger_cross_entropy liger_fused_linear_cross_entropy liger_use_token_scaling cut_cross_entropy flex_attention flex_attn_compile_kwargs flash_attn_cross_entropy flash_attn_fuse_mlp flash_attn_rms_norm flash_optimum sage_attention s2_attention fused_attn_kernel lora_mlp_kernel lora_qkv_kernel lora_o_kernel lora_embedding_kernel chunked_cross_entropy chunked_cross_entropy_num_chunks tiled_mlp tiled_mlp_num_shards tiled_mlp_use_original_mlp experts_implementation gradient_checkpointing_kwargs selective_checkpointing fp8_enable_fsdp_float8_all_gather plugins',
  ),
  ...allNone(
    "adapters have PEFT's usual form and initial values here",
    'lora_fan_in_fan_out lora_modules_to_save lora_target_parameters lora_rank_pattern lora_alpha_pattern peft peft_layers_to_transform peft_layers_pattern peft_layer_replication peft_init_lora_weights peft_trainable_token_indices peft_ensure_weight_tying peft_autocast_adapter_dtype qlora_sharded_model_loading bnb_config_kwargs loraplus_lr_ratio loraplus_lr_embedding',
  ),
  ...allNone(
    'one learning rate holds for all parameters, unless optimizer.groups has others',
    'embedding_lr embedding_lr_scale lr_groups lr_quadratic_warmup cosine_constant_lr_ratio lr_div_factor adam_epsilon2 adam_beta3',
  ),
  ...allNone("Axolotl's own checks of a config", 'strict axolotl_config_path'),
  launcher: exported('the launcher that starts the processes'),
  use_ray: exported('the launcher that starts the processes'),
  ray_run_name: exported('the launcher that starts the processes'),
  ray_num_workers: exported('the launcher that starts the processes'),
  resources_per_worker: exported('the launcher that starts the processes'),
};

const PREFERENCES = 'training on preferences or rewards is not built here; supervised fine-tuning is';

/** Returns rows for kinds of training that are not built here; `names` are separated by blanks. */
const allRefused = (why: string, names: string): KeyTable =>
  Object.fromEntries(names.split(' ').map((name) => [name, refused(why)]));

/** Kinds of training that are not built here, with the settings that only these kinds have. */
export const AXOLOTL_REFUSED: KeyTable = {
  ...allRefused(PREFERENCES, 'trl ebft kd_trainer hatchery nemo_gym_enabled'),
  ...allNone(
    PREFERENCES,
    'rl_beta dpo_beta dpo_generate_during_eval dpo_label_smoothing dpo_loss_type dpo_loss_weights dpo_norm_loss dpo_padding_free dpo_use_liger_kernel dpo_use_logits_to_keep dpo_use_weighting cpo_alpha orpo_alpha rpo_alpha simpo_gamma kto_desirable_weight kto_undesirable_weight center_rewards_coefficient precompute_ref_log_probs vllm kd_ce_alpha kd_alpha kd_temperature kd_temperature_min kd_beta kd_normalize_topk kd_online_server_base_url kd_online_topk kd_online_server kd_online_timeout nemo_gym_dir nemo_gym_auto_clone nemo_gym_config_paths nemo_gym_head_port nemo_gym_server_timeout nemo_gym_verify_timeout nemo_gym_run_timeout nemo_gym_datasets nemo_gym_auto_start nemo_gym_model_name nemo_gym_multi_turn nemo_gym_max_turns',
  ),
  ...allRefused('the loss is the mean over tokens here; write a loss of your own', 'use_eaft diffusion'),
  ...allNone('is for a loss that is not built here', 'eaft_alpha eaft_k'),
  noisy_embedding_alpha: refused('noise in embeddings is not built here'),
  unfrozen_parameters: refused('write the names of modules as frozen'),
  spectrum_top_fraction: refused('Spectrum is not built here; frozen freezes modules'),
  spectrum_model_name: refused('Spectrum is not built here; frozen freezes modules'),
  ...allRefused(
    'LISA is not built here; frozen freezes modules',
    'lisa_n_layers lisa_step_interval lisa_layers_attribute',
  ),
  ...allRefused('positions are neither scaled nor skipped here', 'rope_scaling use_pose'),
  ...allNone(
    'is for PoSE, which is not built here',
    'pose_max_context_len pose_num_chunks pose_split_on_token_ids',
  ),
  scaling_softmax: refused('attention is scaled by the width of a head here'),
  ...allNone('is for scaling_softmax', 'scaling_softmax_factor scaling_softmax_bias'),
  ...allRefused('MoRA is not built here; choose adapter: lora', 'mora use_mora'),
  mora_type: refused('MoRA is not built here; choose adapter: lora'),
  ...allRefused('weights are not quantized or pruned here', 'quantize_moe_experts llmcompressor'),
  ...allRefused('Grokfast is not built here', 'grokfast_alpha grokfast_lamb'),
  dense_mixer: refused('model.router decides this'),
  trainer_cls: refused('write a loop of your own in place of a trainer'),
  ...allRefused('no schedule restarts here', 'jagged_restart_steps'),
  ...allNone('is for jagged_restart_steps', 'jagged_restart_warmup_steps jagged_restart_anneal_steps'),
  ...allNone('is for ReLoRA', 'relora_prune_method relora_prune_ratio relora_cpu_offload'),
  ...allNone(
    'is for optimizers that are not built here; here there are adamW, adam, adamW8bit, lion and sgd',
    'dion_lr dion_momentum dion_rank_fraction dion_rank_multiple_of qgalore_cos_threshold qgalore_gamma_proj qgalore_proj_bits qgalore_proj_group_size qgalore_proj_quant qgalore_proj_type qgalore_queue_size qgalore_rank qgalore_scale qgalore_update_proj_gap',
  ),
  ...allNone(
    'is for images in conversations, which have only text here',
    'freeze_mm_modules image_size image_resize_algorithm',
  ),
  role_boundaries: none('shardlab sft applies chat templates; texts of a file are trained as they are'),
  ...allNone(
    'run.log writes JSON lines; nothing is written for TensorBoard or other loggers',
    'use_swanlab swanlab_project swanlab_experiment_name swanlab_description swanlab_mode swanlab_workspace swanlab_api_key swanlab_log_model swanlab_web_host swanlab_api_host swanlab_lark_webhook_url swanlab_lark_secret swanlab_log_completions swanlab_completion_log_interval swanlab_completion_max_buffer',
  ),
  ...allNone('run.evaluate() evaluates', 'lm_eval_tasks lm_eval_batch_size lm_eval_post_train lm_eval_model'),
  model_config: none('models are read from your own folders: write model: { from: FOLDER }'),
};
