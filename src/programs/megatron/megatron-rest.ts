import { allNone, flags, isNothing, type KeyTable, refused, warned } from '../rows/key-row';

// Arguments of Megatron-LM for features that are not built here, and arguments that only such features read. Source:
// megatron/training/arguments.py and the classes of settings that this file lists, at the commit that docs/reference/programs/index.md names.

/** Values that mean the same as the default. */
const USUAL = ['1', 'constant', 'no_shard', 'rope', 'softmax', 'vanilla'];

/**
 * Returns rows of keys that are refused for the same reason, unless a value switches the feature off or is the default; `names`
 * are separated by blanks.
 */
function allRefused(why: string, names: string): KeyTable {
  const isOff = (value: unknown): boolean => isNothing(value) || USUAL.includes(String(value));
  return Object.fromEntries(names.split(' ').map((name) => [name, refused(why, isOff)]));
}

const REFUSED: KeyTable = {
  ...allRefused(
    'stages have equally many layers here; parallel.stageSplit gives other numbers',
    'account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers pipeline_model_parallel_layout',
  ),
  ...allRefused(
    'weight decay stays the same here; optimizer.groups gives some parameters another value',
    'apply_wd_to_qk_layernorm end_weight_decay no_weight_decay_cond_type start_weight_decay weight_decay_incr_style',
  ),
  ...allRefused(
    'layers of this kind are not built here',
    'activation_func_clamp_value apply_query_key_layer_scaling apply_residual_connection_post_layernorm attention_output_gate embedding_init_method_std enable_mhc_connections experimental_attention_variant fp16_lm_cross_entropy fp32_residual_connection freeze_all_layers glu_linear_offset heterogeneous_layers_config_encoded_json heterogeneous_layers_config_path hybrid_layer_pattern hybrid_override_pattern init_method_xavier_uniform is_hybrid_model linear_attention_freq mtp_hybrid_override_pattern mtp_num_layers mtp_standalone multi_latent_attention no_rope_freq onnx_safe openai_gelu qk_clip qk_l2_norm qk_layernorm quick_geglu rope_type rotary_interleaved softmax_type spec squared_relu use_mup use_rope_scaling window_size',
  ),
  ...allRefused(
    'experts and routers of this kind are not built here; model.router names those that are',
    'moe_apply_probs_on_input moe_expert_rank_capacity_factor moe_ffn_hidden_size moe_input_jitter_eps moe_latent_size moe_layer_freq moe_router_enable_expert_bias moe_router_group_topk moe_router_num_groups moe_router_pre_softmax moe_router_score_function moe_router_topk_scaling_factor moe_shared_expert_gate moe_shared_expert_intermediate_size moe_use_upcycling moe_z_loss_coeff',
  ),
  ...allRefused(
    'is another way to divide a model; here there are the strategies, parallel.mesh, tp, pp, cp and ep',
    'enable_full_sharding_in_hsdp expert_tensor_parallel_num_weight_shards gtp_expert_remat_nccl_ub gtp_remat_nccl_ub gtp_remat_opt_in_modules gtp_remat_reduce_scatter_with_fp32_accumulation hierarchical_context_parallel_sizes hybrid_context_parallel num_distributed_optimizer_instances outer_dp_sharding_strategy tensor_parallel_num_weight_shards',
  ),
  ...allRefused(
    'write offload.activations, which is for all layers',
    'cpu_offloading_num_layers fine_grained_activation_offloading offload_modules',
  ),
  perform_rl_step: refused('training on rewards is not built here'),
  sft: refused('shardlab sft trains on conversations'),
  skip_train: refused('run.evaluate evaluates without a training'),
  logits_load_dir: refused('models are not distilled here'),
  vision_pretraining: refused('for images, write a model of your own'),
  loss_scale: refused('write gradScaler: { initScale, growthInterval }'),
  lr_warmup_init: refused('the rate rises from 0 here'),
  yaml_cfg: refused("Megatron-LM's file of settings is not read; write its arguments"),
  ...allRefused(
    'the number of rows per step stays the same here, and every batch is trained',
    'step_batch_size_schedule decrease_batch_size_if_needed iterations_to_skip phase_transition_iterations',
  ),
  ...allRefused('encoders with decoders are not built here', 'decoder_num_layers encoder_num_layers'),
};

const WITHOUT_EFFECT: KeyTable = {
  ...allNone(
    'is for training on rewards, which is not built here',
    'grpo_clamp_eps_lower grpo_clamp_eps_upper grpo_entropy_term_weight grpo_filter_groups_with_same_reward grpo_group_size grpo_iterations grpo_kl_beta grpo_prompts_per_step langrl_env_config refit_method rl_consumption_granularity rl_default_temperature rl_default_top_k rl_default_top_p rl_durable_rollout_bank rl_generation_lag rl_importance_sampling_truncation_coef rl_inference_expert_model_parallel_size rl_inference_expert_tensor_model_parallel_size rl_inference_logprobs_is_correction rl_inference_model_unified_memory_level rl_inference_parsers rl_inference_pipeline_model_parallel_size rl_inference_tensor_model_parallel_size rl_kv_cache_management_mode rl_max_inflight_requests rl_offload_inference_model_weights_when_idle rl_offload_optimizer_during_inference rl_partial_rollouts rl_persist_cuda_graphs rl_profile rl_profile_dir rl_prompts_per_eval rl_rollout_bank_dir rl_rollout_bank_max_bytes rl_sequence_packing_algo rl_sequence_packing_max_sequences_per_bin rl_skip_bos_token rl_submission_granularity rl_training_cuda_graphs rl_use_sequence_packing rl_verify_model_weights_swap',
  ),
  ...allNone(
    'is for generating answers; run.sample does this here',
    'cache_mla_latents decode_only_cuda_graphs enable_chunked_prefill flash_decode inference_batch_times_seqlen_threshold inference_coordinator_port inference_cuda_graph_all_prefills inference_cuda_graph_max_tokens inference_disable_ep_consensus inference_disable_triton_nvls_kernels inference_dynamic_batching inference_dynamic_batching_async_sched_mode inference_dynamic_batching_block_size inference_dynamic_batching_buffer_size_gb inference_dynamic_batching_cuda_graph_mixed_prefill_count inference_dynamic_batching_cuda_graph_sizing_distribution inference_dynamic_batching_logprobs_mode inference_dynamic_batching_mamba_memory_ratio inference_dynamic_batching_max_requests inference_dynamic_batching_max_tokens inference_dynamic_batching_num_cuda_graphs inference_dynamic_batching_paused_buffer_size_gb inference_dynamic_batching_prefix_caching inference_dynamic_batching_prefix_caching_coordinator_policy inference_dynamic_batching_prefix_caching_eviction_policy inference_dynamic_batching_prefix_caching_mamba_gb inference_dynamic_batching_prefix_caching_routing_alpha inference_dynamic_batching_sampling_backend inference_dynamic_batching_track_generated_token_events inference_dynamic_batching_track_paused_request_events inference_dynamic_batching_unified_memory_level inference_fuse_tp_communication inference_grouped_gemm_backend inference_logging_step_interval inference_max_requests inference_max_seq_length inference_moe_disable_fused_quant_kernels inference_moe_token_dispatcher_type inference_rng_tracker inference_shards inference_text_gen_server_logging inference_use_synchronous_zmq_collectives inference_wandb_logging mamba_inference_conv_states_dtype mamba_inference_ssm_states_dtype max_tokens_to_oom mlp_chunks_for_prefill moe_pad_experts_for_cuda_graph_inference nccl_all_reduce_for_prefill num_speculative_tokens symmetric_ar_type use_legacy_static_engine',
  ),
  ...allNone(
    'a job here ends if a rank fails, and run.load continues from a checkpoint',
    'adlr_autoresume adlr_autoresume_interval calc_ft_timeouts check_for_large_grads check_for_spiky_loss check_weight_hash_across_dp_replicas_interval disable_flight_recorder_dump_on_timeout disable_flight_recorder_extra_dump_on_exec disable_flight_recorder_include_only_active disable_straggler_on_startup dump_param_to_param_group_map enable_ft_package error_injection_rate error_injection_type exit_signal exit_signal_handler exit_signal_handler_for_dataloader exit_signal_handler_for_training fault_injector_delay_start_iteration fault_injector_fault_delay fault_injector_fault_probabilities fault_injector_fault_types fault_injector_mtti_seconds fault_injector_num_ranks fault_injector_offset_seconds fault_injector_ranks fault_injector_seed flight_recorder_dump_path flight_recorder_include_stack_trace flight_recorder_trace_buffer_size ft_num_warmup_iters gpu_sniff_test_interval inprocess_active_world_size inprocess_barrier_timeout inprocess_completion_timeout inprocess_empty_cuda_cache inprocess_granularity inprocess_hard_timeout inprocess_heartbeat_interval inprocess_heartbeat_timeout inprocess_last_call_wait inprocess_max_iterations inprocess_monitor_process_interval inprocess_monitor_thread_interval inprocess_progress_watchdog_interval inprocess_restart inprocess_soft_timeout inprocess_termination_grace_time log_straggler no_check_for_nan_in_loss_and_grad no_flight_recorder_dump_on_timeout no_flight_recorder_extra_dump_on_exec no_flight_recorder_include_only_active rerun_mode result_rejected_tracker_filename run_workload_inspector_server straggler_ctrlr_port straggler_minmax_count test_mode',
  ),
  ...allNone(
    'run.step saves, and run.load reads',
    'async_ckpt_cpu_priority async_ckpt_io_priority async_ckpt_use_cpu_shm async_strategy auto_detect_ckpt_format ckpt_assume_constant_structure ckpt_convert_format ckpt_convert_save ckpt_convert_update_legacy_dist_opt_format ckpt_drop_redundant_extra_state ckpt_fully_parallel_load ckpt_fully_parallel_load_exchange_algo ckpt_fully_parallel_load_per_rank_objects ckpt_fully_parallel_load_process_group ckpt_fully_parallel_save ckpt_fully_parallel_save_process_group ckpt_pg_tensors_cache_create ckpt_pg_tensors_cache_path ckpt_step disable_ckpt_load_validate_sharding_integrity disable_msc disable_save_tokenizer_assets disable_strict_fsdp_dtensor_load dist_ckpt_optim_fully_reshardable dist_ckpt_save_pre_mcore_014 dist_ckpt_workers distrib_optim_fully_reshardable_mem_efficient enable_msc exit_on_missing_checkpoint load_main_params_from_ckpt logits_load_decode_threads logits_load_ignore_errors logits_load_kd_loss_alpha logits_load_msc_prefetch_depth logits_load_prefetch_factor logits_save_dir logits_save_dtype logits_save_top_k logits_save_top_p logits_save_top_p_min_k no_ckpt_fully_parallel_save no_ckpt_load_validate_sharding_integrity no_save_tokenizer_assets no_strict_fsdp_dtensor_load non_persistent_ckpt_type non_persistent_global_ckpt_dir non_persistent_local_ckpt_algo non_persistent_local_ckpt_dir non_persistent_save_interval object_storage_cache_path override_ckpt_iteration override_opt_param_scheduler pretrained_checkpoint replication replication_factor replication_jump save_activations_interval save_dgrads_interval save_params_interval save_retain_interval save_tokens_per_expert_interval save_wgrads_interval use_checkpoint_opt_param_scheduler use_mp_args_from_checkpoint_args use_persistent_ckpt_worker verify_integrity',
  ),
  ...allNone(
    'run.log writes every step; ledgers and figures show time and memory',
    'app_tag_run_name app_tag_run_version config_logger_dir disable_log_loss_scale_to_tensorboard log_device_memory_used log_energy log_max_attention_logit log_memory_interval log_memory_to_tensorboard log_progress log_validation_ppl_to_tensorboard log_world_size_to_tensorboard logging_level memory_snapshot_path moe_per_layer_logging moe_routing_trace_capture_hidden_states moe_routing_trace_capture_logits moe_routing_trace_dump_weights moe_routing_trace_max_training_iters moe_routing_trace_path no_barrier_with_level_1_timing no_log_loss_scale_to_tensorboard no_one_logger nvtx_ranges one_logger_async one_logger_project one_logger_run_name otel_enabled otel_service_name otel_span_groups pytorch_profiler_collect_callstack pytorch_profiler_collect_chakra pytorch_profiler_collect_shapes record_memory_history record_shapes timing_log_option wandb_entity',
  ),
  ...allNone(
    'a plan knows only whether matmuls are in float8, and nothing here computes in float8',
    'disable_fp8_wgrad first_last_layers_bf16 fp4_quantizer_factory fp8_output_proj fp8_quantizer_factory keep_fp8_transpose_cache kitchen_attention_backend kitchen_config_file kitchen_recipe_number moe_router_padding_for_fp8 no_fp8_wgrad num_layers_at_end_in_bf16 num_layers_at_start_in_bf16 reuse_grad_buf_for_mxfp8_param_ag te_precision_config_file use_kitchen_attention',
  ),
  ...allNone(
    'is for models or layers that are not built here',
    'bert_embedder_type bert_load bert_no_binary_head biencoder_projection_dim biencoder_shared_query_context_model block_data_path classes_fraction data_per_class_fraction decoder_seq_length dino_bottleneck_size dino_freeze_last_layer dino_head_hidden_size dino_local_crops_number dino_local_img_size dino_norm_last_layer dino_teacher_temp dino_warmup_teacher_temp dino_warmup_teacher_temp_epochs disable_dsa_indexer_rotate_activation disable_dsa_indexer_scoring_relu disable_mamba_mem_eff_path dsa_indexer_head_dim dsa_indexer_k_norm_epsilon dsa_indexer_k_norm_fp32 dsa_indexer_loss_coeff dsa_indexer_n_heads dsa_indexer_rope_interleaved dsa_indexer_skip_topk_offset dsa_indexer_topk dsa_indexer_topk_freq dsa_indexer_use_sparse_loss dsa_kernel_backend embedding_path encoder_seq_length evidence_data_path fused_residual_rmsnorm gdp_cutedsl_kernel gdp_num_chunk_states_to_recompute gdp_num_householder head_lr_mult ict_head_size ict_load img_h img_w indexer_batch_size indexer_log_interval iter_per_epoch kv_lora_rank linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads linear_num_value_heads linear_value_head_dim mamba_head_dim mamba_num_groups mamba_num_heads mamba_state_dim mamba_training_ssm_states_dtype mask_factor mask_prob mask_type mhc_init_gating_factor mhc_num_residual_streams mhc_recompute_layer_num mhc_sinkhorn_iterations mla_down_proj_fusion mrope_section mscale mscale_all_dim mtp_detach_heads mtp_hsm mtp_loss_scaling_factor mtp_use_repeated_layer mup_attn_scale_power mup_base_head_dim mup_base_hidden_size mup_embedding_mult mup_output_mult mup_width_mult no_dsa_indexer_rotate_activation no_dsa_indexer_scoring_relu no_yarn_correction_range_round_to_int num_channels num_classes output_bert_embeddings patch_dim q_lora_rank qk_clip_alpha qk_clip_threshold qk_head_dim qk_pos_emb_head_dim query_in_block_prob relative_attention_max_distance relative_attention_num_buckets retriever_report_topk_accuracies retriever_score_scaling rope_scaling_factor rotary_scaling_factor rotary_seq_len_interpolation_factor sample_rate short_seq_prob swin_backbone_type titles_data_path use_fused_weighted_squared_relu use_one_sent_docs use_te_activation_func v_head_dim vision_backbone_type vision_pretraining_type window_attn_skip_freq yarn_beta_fast yarn_beta_slow yarn_correction_range_round_to_int yarn_original_max_position_embeddings',
  ),
  ...allNone(
    'batches are source code or your own files: write data',
    'allow_ambiguous_pad_tokens chat_template data_args_path dataloader_defer_npy_index_mmap dataloader_fast_cache_load dataloader_inter_document_masking disable_pad_vocab_size disable_tokenizer_sentencepiece_ignore_extra_whitespaces disable_use_tokenizer_model_from_checkpoint_args eval_global_batch_size eval_micro_batch_size fim_data fim_eod_token fim_fragment_rate fim_middle_token fim_no_prefix fim_pad_token fim_prefix_token fim_rate fim_split_sample fim_spm_rate fim_suffix_token full_validation max_seqlen_per_dp_cp_rank mid_level_dataset_surplus multiple_validation_sets no_data_sharding no_pad_vocab_size no_tokenizer_sentencepiece_ignore_extra_whitespaces no_use_tokenizer_model_from_checkpoint_args null_tokenizer_eod_id null_tokenizer_pad_id num_dataset_builder_threads padded_vocab_size per_dataset_sequences_path per_split_data_args_path sft_tokenizer_prompt_format start_eval_at_iter test_data_path tiktoken_num_special_tokens tokenizer_hf_no_include_special_tokens tokenizer_hf_no_use_fast tokenizer_metadata tokenizer_sentencepiece_legacy tokenizer_special_tokens train_data_path trust_remote_code use_gigatoken valid_data_path validation_set_names vocab_extra_ids',
  ),
  ...allNone(
    'is for optimizers or schedules that are not built here',
    'hysteresis lion_beta1 lion_beta2 lr_wsd_decay_samples min_loss_scale muon_coefficient_type muon_extra_scale_factor muon_fp32_matmul_prec muon_momentum muon_nesterov muon_no_split_qkv muon_num_ns_steps muon_scalar_optimizer muon_scale_mode muon_tp_mode muon_use_syrk no_pin_cpu_grads no_pin_cpu_params no_use_layer_wise_param_layout optimizer_cuda_graph overlap_cpu_optimizer_d2h_h2d use_torch_optimizer_for_cpu_offload',
  ),
  ...allNone(
    'is for a choice of activations that is not built here; write activationCheckpointing or offload.activations',
    'activation_offload_fraction cpu_offloading_retain_pinned_cpu_buffers delay_offload_until_cuda_graph delta_offload_bytes_across_pp_ranks fine_grained_offloading_max_inflight_offloads min_offloaded_tensor_size moe_layer_recompute',
  ),
  ...allNone(
    'parallel.ep divides the experts here, and model.router chooses them',
    'moe_combine_bwd_dtype moe_deepep_num_sms moe_dispatch_fwd_dtype moe_enable_routing_replay moe_flex_dispatcher_backend moe_flex_dispatcher_num_sms moe_hybridep_num_blocks_permute moe_hybridep_num_blocks_unpermute moe_hybridep_num_sms moe_hybridep_num_sms_preprocessing moe_hybridep_pad_uneven_dispatch_inputs moe_mlp_glu_interleave_size moe_ncclep_zero_copy moe_paged_stash moe_paged_stash_buffer_size_factor_cpu moe_paged_stash_buffer_size_factor_cuda moe_paged_stash_page_size moe_permute_fusion_into_hybridep moe_router_dtype moe_router_force_biased moe_router_force_load_balancing moe_router_fusion moe_router_padding_for_quantization moe_router_quantile_balancing_ema moe_shared_expert_glu_interleave_size moe_single_grouped_bias moe_single_grouped_weight moe_token_drop_policy moe_upcycling_granularity moe_use_grouped_tensor',
  ),
  ...allNone(
    'jobs here have collectives of their own, which run beside computation',
    'create_all_gather_group data_parallel_random_init ddp_average_in_collective ddp_num_buckets ddp_pad_buckets_for_high_nccl_busbw ddp_param_name_patterns_for_fp32_local_accumulation ddp_reduce_scatter_with_fp32_accumulation defer_embedding_wgrad_compute delay_wgrad_compute disable_align_grad_reduce disable_gloo_process_groups disable_symmetric_registration disable_tp_comm_bulk_dgrad disable_tp_comm_bulk_wgrad disable_tp_comm_overlap_ag disable_tp_comm_overlap_rs disable_tp_comm_split_ag disable_tp_comm_split_rs distributed_timeout_seconds_after_init ep_overlap_early_attn_memory_release fake_process_group fsdp_db_use_persist_buf_on_alloc_fail fsdp_double_buffer fsdp_manual_registration high_priority_a2a_comm_stream high_priority_stream_groups init_model_with_meta_device lazy_mpu_init megatron_fsdp_enable_fine_grained_param_gather megatron_fsdp_grad_comm_dtype megatron_fsdp_main_grads_dtype megatron_fsdp_main_params_dtype megatron_fsdp_max_pool_double_buffer megatron_fsdp_version microbatch_group_size_per_virtual_pipeline_stage nccl_communicator_config_path no_align_grad_reduce no_align_param_gather no_gradient_reduce_div_fusion no_tp_comm_bulk_dgrad no_tp_comm_bulk_wgrad no_tp_comm_overlap_ag no_tp_comm_overlap_rs no_tp_comm_split_ag no_tp_comm_split_rs overlap_dispatch_backward_with_experts_wgrad overlap_moe_expert_parallel_comm overlap_p2p_communication_warmup_flush pipeline_model_parallel_comm_backend sharp_enabled_group suggested_communication_unit_size tp_comm_bootstrap_backend tp_comm_overlap_cfg tp_comm_overlap_rs_dgrad train_sync_interval use_nccl_ub use_sharp use_tp_pp_dp_mapping wgrad_deferral_limit',
  ),
  ...allNone(
    'kernels are fused here in any case',
    'batch_invariant_backend batch_invariant_mode cuda_graph_impl cuda_graph_modules cuda_graph_warmup_steps deterministic_mode disable_bf16_reduced_precision_matmul disable_clone_scatter_output_in_embedding disable_jit_fuser disable_manual_gc_eval enable_experimental flash_attention_version mlp_chunks_for_training no_clone_scatter_output_in_embedding no_manual_gc_eval no_persist_layer_norm output_logit_dtype te_rng_tracker use_grouped_gemm_for_dense_mlp use_grouped_gemm_for_shared_expert use_same_sampling_seed_across_dp_ranks use_transformer_engine_op_fuser',
  ),
};

/** Arguments that Megatron-LM no longer has; Megatron-LM stops and prints the new name. */
const OLD: KeyTable = {
  batch_size: warned('Megatron-LM stops, because the new name is --micro-batch-size'),
  warmup: warned('Megatron-LM stops, because the new name is --lr-warmup-fraction'),
  model_parallel_size: warned('Megatron-LM stops, because the new name is --tensor-model-parallel-size'),
  checkpoint_activations: warned('Megatron-LM stops, because the new name is --recompute-granularity'),
  ...allNone(
    'is of older versions of Megatron-LM, and has no effect here',
    'data_impl DDP_impl checkpoint_num_layers retriever_seq_length pipeline_model_parallel_split_rank',
  ),
  ...flags(
    allNone(
      'is of older versions of Megatron-LM, and has no effect here',
      'mmap_warmup log_batch_size_to_tensorboard distribute_checkpointed_activations no_query_key_layer_scaling no_async_tensor_model_parallel_allreduce use_contiguous_buffers_in_ddp no_contiguous_buffers_in_local_ddp no_scatter_gather_tensors_in_pipeline standalone_embedding_stage',
    ),
  ),
  ...allNone(
    'is an older name of an argument that has no effect here',
    'cuda_graph_scope dist_ckpt_format enable_cuda_graph external_cuda_graph inference_cuda_graph_scope persistent_save_interval use_dist_ckpt use_ring_exchange_p2p',
  ),
};

export const MEGATRON_REST: KeyTable = { ...REFUSED, ...WITHOUT_EFFECT, ...OLD };
