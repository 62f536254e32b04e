import { ShardlabError } from '../../core';
import { isNothing, wholeOf, yesOf } from '../../programs';
import {
  ACCELERATE_FSDP,
  ATTENTION,
  allNone,
  attentionSwitch,
  COMPILED,
  DATA,
  type Dialect,
  decides,
  exported,
  FIRST_ADAPTERS,
  ifOn,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  modelMeaning,
  none,
  number,
  place,
  planSwitch,
  refused,
  SEQUENCE,
  section,
  setting,
  TRAINING_ARGUMENTS,
  type Translation,
  yes,
} from '../../programs/toolkit';

// Keys of Axolotl that change nothing here. Source: src/axolotl/utils/schemas.

/** Keys without an effect here, grouped by the reason. */
const AXOLOTL_WITHOUT_EFFECT: KeyTable = {
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
const AXOLOTL_REFUSED: KeyTable = {
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

// Axolotl's YAML. Source: src/axolotl/utils/schemas.

/** Axolotl's names for the sizes that Accelerate's rows read. */
const SIZES: Readonly<Record<string, string>> = {
  parallelism_config_dp_replicate_size: 'dp_replicate_size',
  parallelism_config_dp_shard_size: 'dp_shard_size',
};

const isGiven = (value: unknown): boolean => value !== undefined && !isNothing(value);

const isFsdp = (other: KeyInput['other']): boolean =>
  isGiven(other('fsdp')) ||
  ['fsdp_version', ...Object.keys(ACCELERATE_FSDP.fsdp)].some((key) => other(key) !== undefined);

/** Returns another program's row for a key of Axolotl. `names` translates other keys' names; an empty value has no effect. */
function adapted(row: KeyRow, names: Readonly<Record<string, string>> = {}): KeyRow {
  return {
    ...row,
    mean: (input) =>
      input.value === null
        ? { effect: 'none', why: 'is empty' }
        : row.mean({ ...input, other: (key) => input.other(names[key] ?? key) }),
  };
}

function adaptedAll(table: KeyTable, names: Readonly<Record<string, string>> = {}): KeyTable {
  return Object.fromEntries(Object.entries(table).map(([key, row]) => [key, adapted(row, names)]));
}

/** Returns the row of an argument of transformers' Trainer. Throws: INTERNAL if there is no such argument. */
function trainer(key: string): KeyRow {
  const row = TRAINING_ARGUMENTS[key];
  if (row === undefined) throw new ShardlabError('INTERNAL', `the Trainer has no argument ${key}`);
  return adapted(row);
}

/** Returns the row of a precision; 'auto' takes bfloat16, which every current GPU has. */
function half(key: 'bf16' | 'fp16'): KeyRow {
  const row = trainer(key);
  return {
    ...row,
    mean: (input) =>
      row.mean({
        ...input,
        value: input.value === 'auto' ? true : input.value,
        other: (name) => (name === 'fsdp' ? isFsdp(input.other) : input.other(name)),
      }),
  };
}

const isAdapter = (other: KeyInput['other']): boolean => ['lora', 'qlora'].includes(String(other('adapter')));

const adapterSetting = (path: string, convert: (value: unknown) => unknown): KeyRow =>
  decides(path, ({ value, other }) => {
    if (value === null) return { effect: 'none', why: 'is empty' };
    return isAdapter(other)
      ? { sets: { [path]: convert(value) } }
      : { effect: 'none', why: 'has no effect without adapter: lora' };
  });

function adapter({ value }: KeyInput): Translation {
  if (isNothing(value)) return { effect: 'none', why: 'all parameters train' };
  if (value === 'lora') return { usual: { 'lora.targets': 'all-linear' } };
  if (value === 'qlora')
    return {
      usual: { 'lora.targets': 'all-linear' },
      effect: 'warning',
      why: 'adapters (LoRA) train, but the weights below them are not quantized here',
    };
  return { effect: 'refused', why: `there are no adapters of kind ${String(value)} here; choose lora` };
}

/** Returns the sizes of the mesh, and the number of ranks: both sizes times the degrees. */
function mesh({ other }: KeyInput): Translation {
  const [dpShard, dpReplicate] = [other('dp_shard_size'), other('dp_replicate_size')];
  if (!isGiven(dpShard) || !isGiven(dpReplicate))
    return {
      effect: 'none',
      why: 'only dp_shard_size and dp_replicate_size together make a mesh; without a mesh, all data-parallel ranks share the shards',
    };
  const sizes = { dpReplicate: wholeOf(dpReplicate), dpShard: wholeOf(dpShard) };
  const degrees = ['tensor_parallel_size', 'context_parallel_size', 'sequence_parallel_degree'].map((key) =>
    wholeOf(other(key) ?? 1),
  );
  const world = [...Object.values(sizes), ...degrees].reduce((product, size) => product * size);
  return {
    ...(sizes.dpReplicate > 1 && sizes.dpShard > 1 && { sets: { 'parallel.mesh': sizes } }),
    place: { world },
    why: `all sizes of the mesh, multiplied, give ${world} ranks`,
  };
}

function contextParallel({ value }: KeyInput): Translation {
  return isNothing(value) || wholeOf(value) === 1
    ? { effect: 'none', why: 'sequences are not divided' }
    : { sets: { 'parallel.cp': wholeOf(value), 'parallel.cpKind': 'ring' } };
}

function checkpointing({ value }: KeyInput): Translation {
  if (String(value).startsWith('offload'))
    return { sets: { activationCheckpointing: 'full', 'offload.activations': true } };
  return isNothing(value)
    ? { effect: 'none', why: 'is off' }
    : { sets: { activationCheckpointing: yesOf(value) ? 'full' : null } };
}

const PARALLEL: KeyTable = {
  deepspeed: trainer('deepspeed'),
  fsdp: trainer('fsdp'),
  fsdp_version: none('units shard the rows of parameters here, as FSDP 2 does'),
  fsdp_config: section({
    ...adaptedAll(ACCELERATE_FSDP.fsdp, SIZES),
    fsdp_limit_all_gathers: adapted(setting('parallel.limitAllGathers', yes)),
    fsdp_final_state_dict_type: none('checkpoints here are sharded, and any number of ranks reads them'),
    fsdp_cpu_offload_pin_memory: none('host and device are one memory here'),
    fsdp_mixed_precision_policy: none('bf16 and fp16 decide this'),
  }),
  dp_shard_size: decides('parallel.mesh', mesh),
  dp_replicate_size: decides('parallel.mesh', mesh),
  context_parallel_size: decides('parallel.cp', contextParallel),
  sequence_parallel_degree: decides('parallel.cp', contextParallel),
  tensor_parallel_size: setting('parallel.tp', (value) => (isNothing(value) ? undefined : wholeOf(value))),
  expert_parallel_size: setting('parallel.ep', (value) => (isNothing(value) ? undefined : wholeOf(value))),
  gradient_checkpointing: decides('activationCheckpointing', checkpointing),
  activation_offloading: decides('offload.activations', ({ value }) =>
    isNothing(value) ? { effect: 'none', why: 'is off' } : { sets: { 'offload.activations': true } },
  ),
  bf16: half('bf16'),
  bfloat16: half('bf16'),
  fp16: half('fp16'),
  float16: half('fp16'),
  fp8: place('float8; only a plan takes it into account', (value) => ({ isFp8: !isNothing(value) })),
  torch_compile: planSwitch('compile', COMPILED, (value) => value !== null && value !== false),
  deepcompile: planSwitch('compile', COMPILED, (value) => !isNothing(value)),
};

const TRAINING: KeyTable = {
  base_model: decides('model', modelMeaning),
  micro_batch_size: setting('batch', (value) => wholeOf(value)),
  gradient_accumulation_steps: trainer('gradient_accumulation_steps'),
  batch_size: place('rows of all ranks per step', (value) =>
    isNothing(value) ? {} : { globalBatch: wholeOf(value) },
  ),
  optimizer: trainer('optim'),
  learning_rate: setting('optimizer.lr', number),
  weight_decay: trainer('weight_decay'),
  adam_beta1: trainer('adam_beta1'),
  adam_beta2: trainer('adam_beta2'),
  adam_epsilon: trainer('adam_epsilon'),
  optim_args: trainer('optim_args'),
  optim_target_modules: trainer('optim_target_modules'),
  lr_scheduler: trainer('lr_scheduler_type'),
  lr_scheduler_kwargs: trainer('lr_scheduler_kwargs'),
  cosine_min_lr_ratio: decides('schedule.etaMin', ({ value, other }) =>
    value === null
      ? { effect: 'none', why: 'is empty' }
      : { sets: { 'schedule.etaMin': Number(other('learning_rate')) * Number(value) } },
  ),
  max_grad_norm: trainer('max_grad_norm'),
  max_steps: trainer('max_steps'),
  num_epochs: trainer('num_train_epochs'),
  warmup_steps: trainer('warmup_steps'),
  warmup_ratio: trainer('warmup_ratio'),
  seed: trainer('seed'),
  auto_find_batch_size: trainer('auto_find_batch_size'),
  neftune_noise_alpha: trainer('neftune_noise_alpha'),
  sequence_len: SEQUENCE,
  datasets: { ...DATA, mean: (input) => DATA.mean({ ...input, value: pathsOf(input.value) }) },
  pretraining_dataset: { ...DATA, mean: (input) => DATA.mean({ ...input, value: pathsOf(input.value) }) },
  flash_attention: attentionSwitch('flash'),
  sdp_attention: attentionSwitch('flash'),
  xformers_attention: attentionSwitch('flash'),
  eager_attention: attentionSwitch('eager'),
  attn_implementation: ATTENTION,
};

/** Returns the paths of a list of data sets. */
function pathsOf(value: unknown): unknown {
  const items = Array.isArray(value) ? value : [value];
  return items.map((item: unknown) =>
    typeof item === 'object' && item !== null && 'path' in item ? item.path : item,
  );
}

const QUANTIZED = refused('weights are not quantized here');

const ADAPTERS: KeyTable = {
  adapter: decides('lora', adapter),
  lora_r: adapterSetting('lora.r', (value) => wholeOf(value)),
  lora_alpha: adapterSetting('lora.alpha', Number),
  lora_dropout: adapterSetting('lora.dropout', Number),
  lora_target_modules: adapterSetting('lora.targets', (value) => [value].flat().map(String)),
  lora_target_linear: decides('lora.targets', (input) =>
    isNothing(input.value)
      ? { effect: 'none', why: 'is off' }
      : adapterSetting('lora.targets', () => 'all-linear').mean(input),
  ),
  lora_model_dir: FIRST_ADAPTERS,
  load_in_4bit: QUANTIZED,
  load_in_8bit: QUANTIZED,
  gptq: QUANTIZED,
  quantization: QUANTIZED,
  qat: QUANTIZED,
  peft_use_dora: ifOn(adapterSetting('lora.useDora', yesOf)),
  peft_use_rslora: refused('rank-stabilized LoRA is not built here; write lora.alpha'),
  relora: refused('ReLoRA is not built here; LoRA is'),
  rl: refused('training on preferences or rewards is not built here; supervised fine-tuning is'),
  reward_model: refused('training on preferences or rewards is not built here'),
  process_reward_model: refused('training on preferences or rewards is not built here'),
};

/** Axolotl's YAML. */
export const AXOLOTL: Dialect = {
  name: 'Axolotl',
  keys: { ...AXOLOTL_WITHOUT_EFFECT, ...AXOLOTL_REFUSED, ...TRAINING, ...PARALLEL, ...ADAPTERS },
  prefixes: { fsdp_config: 'fsdp_' },
  ignoresOthers: true,
  usual: (other) => ({
    usual: {
      batch: 1,
      'optimizer.weightDecay': 0,
      'schedule.kind': 'cosine',
      'parallel.strategy': isFsdp(other) ? 'FULL_SHARD' : 'NO_SHARD',
    },
    why: "Axolotl's defaults",
  }),
};
