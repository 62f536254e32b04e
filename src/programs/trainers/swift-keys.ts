import { STRATEGIES } from '../../config';
import { allNone, both, decides, type KeyTable, none, refused } from '../rows/key-row';
import { wholeOf } from '../rows/values';

// Arguments of swift sft that change little here. Source: ms-swift's Command-line-parameters.md.

const KINDS =
  'is for another kind of adapters or optimizer; here there are LoRA, adamW, adamW8bit, lion and sgd';

export const SWIFT_OTHER: KeyTable = {
  ENV: none('variables of the other program, in a file'),
  ...allNone(
    'weights are not quantized here',
    'bnb_4bit_compute_dtype bnb_4bit_quant_type bnb_4bit_use_double_quant bnb_4bit_quant_storage hqq_axis',
  ),
  ...allNone(
    KINDS,
    'galore_target_modules galore_rank galore_update_proj_gap galore_scale galore_proj_type galore_optim_per_parameter galore_with_embedding galore_quantization galore_proj_quant galore_proj_bits galore_proj_group_size galore_cos_threshold galore_gamma_proj galore_queue_size lora_ga_batch_size lora_ga_iters lora_ga_max_length lora_ga_direction lora_ga_scale lora_ga_stable_gamma fourier_n_frequency fourier_scaling boft_block_size boft_block_num boft_dropout vera_rank vera_projection_prng_key vera_dropout vera_d_initial adalora_target_r adalora_init_r adalora_tinit adalora_tfinal adalora_delta adalora_beta1 adalora_beta2 adalora_orth_reg_weight adalora_deltaT adapter_act adapter_length boft_n_butterfly_factor reft_layer_key reft_layers reft_rank reft_intervention_type reft_args llamapro_num_new_blocks llamapro_num_groups lisa_step_interval lorap_lr_ratio',
  ),
  use_galore: refused('GaLore is not built here'),
  use_swift_lora: none("adapters here are PEFT's"),
  optimizer: refused('optimizers of plugins are not read; write optimizer.kind'),
  lisa_activated_layers: refused('LISA is not built here; frozen freezes modules'),
  lora_dtype: none('adapters are float32 here, and mixedPrecision decides the dtype of matmuls'),
  target_regex: refused('write the names of modules as lora.targets'),
  target_parameters: refused('write the names of modules as lora.targets'),
  ...allNone(
    'data never ends here, so a run counts steps and not epochs; write steps',
    'max_epochs early_stop_interval',
  ),
  ...allNone(
    'is for generating answers; run.sample does this here',
    'max_new_tokens temperature top_k top_p repetition_penalty num_beams stream stop_words logprobs top_logprobs structured_outputs_regex',
  ),
  ...allNone(
    'run.savePretrained writes whole parameters as safetensors',
    'safe_serialization max_shard_size merge_lora use_flash_ckpt resume_only_model',
  ),
  ...allNone(
    'rank and step decide which batch is read here, and texts fill sequences without gaps',
    'cached_val_dataset packing_length packing_num_proc packing_strategy disable_auto_column_mapping use_logits_to_keep template_backend preserve_thinking disable_ignore_empty_think is_binary_loss_scale max_pixels',
  ),
  ...allNone(
    'run.evaluate evaluates, and run.log writes every step',
    'eval_use_evalscope eval_dataset eval_dataset_args eval_limit eval_generation_config eval_metric callbacks swanlab_token swanlab_project swanlab_workspace swanlab_exp_name swanlab_notification_method swanlab_webhook_url swanlab_secret swanlab_mode swanlab_email_language swanlab_receiver_email swanlab_sender_email swanlab_smtp_port swanlab_smtp_server extra_eval_args',
  ),
  ...allNone(
    'is for other models or other ways of training',
    'experts_impl router_aux_loss_coef enable_dft_loss enable_channel_loss loss_type mrl_dims vit_gradient_checkpointing ds3_gather_for_generation freeze_parameters freeze_parameters_regex freeze_parameters_ratio trainable_parameters trainable_parameters_regex enable_npu_model_patch',
  ),
  ...allNone('is the launcher that starts the processes', 'use_ray ray_exp_name device_groups'),
  zero_hpz_partition_size: both(
    decides('parallel.reshardAfterForward', ({ value }) =>
      wholeOf(value) === 1
        ? { effect: 'none', why: 'parameters are gathered from all ranks' }
        : { sets: { 'parallel.reshardAfterForward': wholeOf(value) } },
    ),
    ({ config: { parallel }, ranksPerMachine }) =>
      STRATEGIES[parallel.strategy].isHybrid ? (parallel.mesh?.dpShard ?? ranksPerMachine) : undefined,
  ),
  deepspeed_autotp_size: decides('parallel.tp', ({ value }) => ({ sets: { 'parallel.tp': wholeOf(value) } })),
};
