import { settingAt } from '../../config';
import { isNothing, wholeOf, yesOf } from '../../programs';
import {
  ATTENTION,
  allNone,
  both,
  DATA,
  type Dialect,
  decides,
  exported,
  FIRST_ADAPTERS,
  fileKey,
  ifOn,
  type KeyInput,
  type KeyTable,
  MEGATRON,
  modelMeaning,
  none,
  onlyRead,
  place,
  refused,
  SEQUENCE,
  settingKeys,
  TRAINER_DEFAULTS,
  TRAINING_ARGUMENTS,
  type Translation,
  writtenSequence,
} from '../../programs/toolkit';

// LLaMA-Factory's YAML. Source: src/llamafactory/hparams.

const adapter = (
  path: string,
  convert: (value: unknown) => unknown,
  write: (value: unknown) => unknown = (value) => value,
) =>
  both(
    decides(path, ({ value, other }) =>
      String(other('finetuning_type') ?? 'lora') === 'lora'
        ? { sets: { [path]: convert(value) } }
        : { effect: 'none', why: 'has no effect without finetuning_type lora' },
    ),
    ({ config }) => (config.lora === null ? undefined : write(settingAt(config, path))),
  );

/** The name of DeepSpeed's file to which an export's YAML refers. */
export const DEEPSPEED_FILE = 'ds_config.json';

const RAY = "Ray's launcher, which starts the processes";

/** Keys of Megatron-LM, which LLaMA-Factory uses with the variable USE_MCA or by Megatron Bridge. */
const MEGATRON_OF_LLAMA_FACTORY: KeyTable = {
  ...onlyRead(
    MEGATRON.keys,
    'tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size expert_model_parallel_size sequence_parallel use_distributed_optimizer overlap_param_gather overlap_grad_reduce bias_activation_fusion apply_rope_fusion masked_softmax_fusion moe_grouped_gemm moe_token_dispatcher_type recompute_granularity recompute_method recompute_num_layers',
  ),
  ...allNone(
    'kernels are fused here in any case',
    'bias_activation_fusion apply_rope_fusion masked_softmax_fusion cross_entropy_loss_fusion use_packed_sequences',
  ),
  virtual_pipeline_model_parallel_size: decides('parallel.virtualStages', ({ value }) => ({
    sets: { 'parallel.virtualStages': wholeOf(value) },
  })),
  mixed_precision: none('write bf16: true or fp16: true'),
  ...allNone(
    'run.savePretrained writes whole parameters',
    'export_hf_on_finish megatron_pretrained_checkpoint extra_config',
  ),
};

/** Keys that start processes, or that are for other kinds of training. */
const OTHER: KeyTable = {
  ray_num_workers: place('number of ranks', (value) => ({ world: wholeOf(value) })),
  ray_init_kwargs: exported(RAY),
  ray_run_name: exported(RAY),
  ray_storage_path: exported(RAY),
  placement_strategy: exported(RAY),
  resources_per_worker: exported(RAY),
  master_addr: exported(RAY),
  master_port: exported(RAY),
  fp8: place('float8; only a plan takes it into account', (value) => ({ isFp8: yesOf(value) })),
  ...allNone(
    'is for optimizers that are not built here; here there are adamW, adamW8bit, lion and sgd',
    'galore_target galore_rank galore_update_interval galore_scale galore_proj_type galore_layerwise apollo_target apollo_rank apollo_update_interval apollo_scale apollo_proj apollo_proj_type apollo_scale_type apollo_layerwise apollo_scale_front badam_mode badam_start_block badam_switch_mode badam_switch_interval badam_update_ratio badam_mask_mode badam_verbose',
  ),
  use_apollo: refused('APOLLO is not built here'),
  use_adam_mini: refused('Adam-mini is not built here'),
  use_muon: refused('Muon is not built here'),
  use_llama_pro: refused('LLaMA Pro is not built here; frozen freezes modules'),
  use_hyper_parallel: refused('HyperParallel is not built here'),
  use_kt: refused('KTransformers is not built here'),
  ...Object.fromEntries(
    ['use_asft_loss', 'use_dft_loss', 'use_eaft_loss'].map((name) => [
      name,
      refused('the loss is the mean over tokens here; write a loss of your own'),
    ]),
  ),
  ...allNone(
    'is for programs that this library does not have',
    'hyper_parallel_args kt_expert_checkpoint_path kt_lora_expert_intermediate_size kt_lora_expert_num kt_use_lora_experts kt_weight_path',
  ),
  ...allNone(
    'is for generating answers; run.sample does this here',
    'do_sample length_penalty max_length max_new_tokens num_beams repetition_penalty skip_special_tokens temperature top_k top_p sglang_config sglang_lora_backend sglang_maxlen sglang_mem_fraction sglang_tp_size vllm_config vllm_enforce_eager vllm_gpu_util vllm_max_lora_rank vllm_maxlen',
  ),
  ...allNone(
    'llamafactory-cli export writes models; run.savePretrained does so here',
    'export_device export_dir export_hub_model_id export_legacy_format export_quantization_dataset export_quantization_maxlen export_quantization_nsamples export_size',
  ),
  ...allNone(
    'is for images, sounds and videos in conversations, which have only text here',
    'audio_sampling_rate crop_to_patches image_do_pan_and_scan image_min_pixels use_audio_in_video video_fps video_maxlen video_min_pixels',
  ),
  ...MEGATRON_OF_LLAMA_FACTORY,
  use_mca: none('Megatron-LM trains the model; it reads the keys that have the names of its arguments'),
  ...allNone(
    'is for programs that this library does not have',
    'kt_cpu_activation kt_config kt_non_expert_weight_path',
  ),
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
    'run.log writes JSON lines; nothing is written for TensorBoard or other loggers',
    'swanlab_workspace swanlab_run_name swanlab_mode swanlab_api_key swanlab_logdir swanlab_lark_webhook_url swanlab_lark_secret compute_accuracy early_stopping_steps eval_on_each_dataset eval_num_beams',
  ),
  ...allNone(
    'models and batches are read from your own files',
    'split_special_tokens add_tokens add_special_tokens new_special_tokens_config init_special_tokens adapter_folder offload_folder media_dir tool_format ignore_pad_token_for_loss data_shared_file_system disable_shuffling preserve_thinking model_max_length train_from_scratch mixture_of_depths moe_aux_loss_coef use_unsloth_gc use_kv_cache use_v1_kernels block_diag_attn compute_dtype infer_dtype device_map fp8_backend fp8_enable_fsdp_float8_all_gather',
  ),
};

function finetuning({ value }: KeyInput): Translation {
  if (String(value) === 'full') return { effect: 'used', why: 'all parameters train' };
  if (String(value) === 'lora') return { effect: 'used', why: 'adapters train' };
  return {
    effect: 'refused',
    why: `there is no fine-tuning of kind ${String(value)} here; choose lora or full`,
  };
}

/** Returns the defaults of adapters, which train unless finetuning_type says otherwise. Source: hparams/finetuning_args.py. */
function adapters(other: KeyInput['other']) {
  if (String(other('finetuning_type') ?? 'lora') !== 'lora') return {};
  return {
    'lora.r': 8,
    'lora.alpha': 2 * wholeOf(other('lora_rank') ?? 8),
    'lora.targets': 'all-linear',
  };
}

/** LLaMA-Factory's YAML and its command line. */
export const LLAMA_FACTORY: Dialect = {
  name: 'LLaMA-Factory',
  keys: {
    ...OTHER,
    ...TRAINING_ARGUMENTS,
    model_name_or_path: decides('model', modelMeaning),
    stage: refused('only pretraining and supervised fine-tuning are built here', (value) =>
      ['pt', 'sft'].includes(String(value)),
    ),
    finetuning_type: both(decides('lora', finetuning), ({ config }) =>
      config.lora === null ? 'full' : 'lora',
    ),
    ...settingKeys('peft', {
      'lora.alpha': { lora_alpha: adapter('lora.alpha', Number) },
      'lora.dropout': { lora_dropout: adapter('lora.dropout', Number) },
      'lora.useDora': { use_dora: ifOn(adapter('lora.useDora', yesOf)) },
    }),
    lora_rank: adapter('lora.r', (value) => wholeOf(value)),
    lora_target: adapter(
      'lora.targets',
      (value) =>
        String(value) === 'all'
          ? 'all-linear'
          : [value]
              .flat()
              .flatMap((text) => String(text).split(','))
              .map((text) => text.trim()),
      (targets) => (Array.isArray(targets) ? targets.join(',') : 'all'),
    ),
    deepspeed: both(fileKey("DeepSpeed's JSON, which is read too"), ({ config: { parallel } }) =>
      parallel.strategy === 'ZERO_1' || parallel.strategy === 'ZERO_2' ? DEEPSPEED_FILE : undefined,
    ),
    disable_gradient_checkpointing: both(
      decides('activationCheckpointing', ({ value }) => ({
        sets: { activationCheckpointing: yesOf(value) ? null : 'full' },
      })),
      ({ config }) => config.activationCheckpointing === null,
    ),
    dataset: DATA,
    dataset_dir: none('write data with a path'),
    eval_dataset: none('write data.validation'),
    val_size: decides('data.validation', ({ value }) => ({
      effect: 'none',
      why: isNothing(value) ? 'is off' : 'write data.validation with your own data',
    })),
    cutoff_len: both(SEQUENCE, writtenSequence),
    flash_attn: ATTENTION,
    packing: none('texts fill sequences without gaps here in any case'),
    neat_packing: none('texts fill sequences without gaps here in any case'),
    ...allNone(
      'shardlab sft applies chat templates; texts of a file are trained as they are',
      'template default_system train_on_prompt mask_history enable_thinking',
    ),
    ...allNone(
      'rank and step decide which batch is read here',
      'max_samples overwrite_cache preprocessing_num_workers preprocessing_batch_size streaming tokenized_path buffer_size mix_strategy interleave_probs dataset_shards',
    ),
    ...allNone(
      'run.log writes JSON lines; nothing is written for TensorBoard or other loggers',
      'plot_loss use_swanlab swanlab_project',
    ),
    ...allNone(
      'nothing is downloaded from a hub',
      'trust_remote_code cache_dir hf_hub_token ms_hub_token om_hub_token model_revision use_fast_tokenizer resize_vocab',
    ),
    ...allNone(
      'models and adapters here have the form that PEFT expects',
      'lora_bias additional_target modules_to_save create_new_adapter loraplus_lr_ratio use_unsloth enable_liger_kernel rope_scaling shift_attn upcast_layernorm upcast_lmhead_output use_reentrant_gc freeze_vision_tower freeze_multi_modal_projector image_max_pixels video_max_pixels predict_with_generate low_cpu_mem_usage infer_backend',
    ),
    pure_bf16: refused('master parameters are float32 here'),
    adapter_name_or_path: FIRST_ADAPTERS,
    use_rslora: refused('rank-stabilized LoRA is not built here; write lora.alpha'),
    pissa_init: refused('adapters have their usual initial values here'),
    quantization_bit: refused('weights are not quantized here'),
    quantization_method: refused('weights are not quantized here'),
    use_galore: refused('GaLore is not built here'),
    use_badam: refused('BAdam is not built here'),
    ...allNone('is for training on preferences, which is not built here', 'pref_beta pref_loss'),
  },
  usual: (other) => ({
    ...TRAINER_DEFAULTS,
    usual: { ...TRAINER_DEFAULTS.usual, activationCheckpointing: 'full', ...adapters(other) },
  }),
};
