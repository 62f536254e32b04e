import { MEGATRON, megatronDefaults } from '../megatron/megatron';
import {
  allNone,
  decides,
  flags,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  refused,
  type Translation,
} from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { strategyOfStage, wholeOf } from '../rows/values';
import { DEEPSPEED_ARGUMENTS } from './deepspeed-arguments';

// Arguments of Megatron-DeepSpeed that Megatron-LM does not have. Source: megatron/arguments.py of deepspeedai/Megatron-DeepSpeed at
// f4157bea, and of bigscience-workshop/Megatron-DeepSpeed, which trained BLOOM, at 8387ae17.

const recompute: KeyRow = decides('activationCheckpointing', () => ({
  sets: { activationCheckpointing: 'full' },
}));

/** Returns a row that sets the number of steps from a number of tokens. */
function stepsOfTokens(path: string): KeyRow {
  return decides(path, ({ value, other }) => {
    const [rows, seq] = [other('global_batch_size'), other('seq_length')];
    const tokens = wholeOf(value, 0);
    if (tokens === 0) return { effect: 'none', why: 'is off' };
    return typeof rows === 'number' && typeof seq === 'number'
      ? {
          sets: { [path]: Math.ceil(tokens / (rows * seq)) },
          why: `${tokens} tokens / (${rows} rows per step x ${seq} tokens)`,
        }
      : {
          effect: 'warning',
          why: `counts tokens, and the tokens per step (--global-batch-size x --seq-length) are in no line; write ${path}`,
        };
  });
}

function ulysses({ value }: KeyInput): Translation {
  const cp = wholeOf(value);
  return cp === 1
    ? { effect: 'none', why: 'sequences are not divided' }
    : { sets: { 'parallel.cp': cp, 'parallel.cpKind': 'ulysses' } };
}

/** Returns the row of Megatron-LM's own name for an argument. */
function asMegatron(name: string): KeyRow {
  return MEGATRON.keys[name] ?? none(name);
}

const allRefused = (why: string, names: string): KeyTable =>
  Object.fromEntries(names.split(' ').map((name) => [name, refused(why)]));

const JSON_DECIDES = 'the file of deepspeed_config decides this';
const CHECKPOINTS =
  'says how activations are stored; activationCheckpointing decides here which layers run again';
const FILES = 'run.step saves, and run.load reads';
const OTHER_LAYERS = 'layers of this kind are not built here';
const EXPERTS = 'parallel.ep divides the experts here, and model.router chooses them';
const DATA = 'batches are source code or your own files: write data';
const STAGES = 'stages have equally many layers here; parallel.stageSplit gives other numbers';

/** The arguments with a value. */
const VALUES: KeyTable = {
  zero_stage: decides('parallel.strategy', ({ value }) => ({
    sets: { 'parallel.strategy': strategyOfStage(value) },
  })),
  ds_sequence_parallel_size: decides('parallel.cp', ulysses),
  moe_expert_parallel_size: asMegatron('expert_model_parallel_size'),
  topk: asMegatron('moe_router_topk'),
  moe_loss_coeff: asMegatron('moe_aux_loss_coeff'),
  moe_train_capacity_factor: asMegatron('moe_expert_capacity_factor'),
  num_key_value_heads: asMegatron('num_query_groups'),
  rotary_position_embeddings_theta: asMegatron('rotary_base'),
  layernorm_epsilon: asMegatron('norm_epsilon'),
  train_tokens: stepsOfTokens('steps'),
  lr_decay_tokens: stepsOfTokens('schedule.maxSteps'),
  lr_warmup_tokens: stepsOfTokens('schedule.warmupSteps'),
  pp_partition_method: refused(
    STAGES,
    (value) => /^(uniform|type:transformer)$/i.test(String(value)),
    STAGES,
  ),
  ...allRefused(OTHER_LAYERS, 'glu_activation'),
  ...allRefused(
    'models are not distilled here',
    'kd_alpha_ce kd_beta_ce kd_temp load_teacher num_layers_teacher num_experts_teacher hidden_size_teacher num_attention_heads_teacher',
  ),
  mlp_type: refused(OTHER_LAYERS, (value) => value === 'standard'),
  expert_interval: refused('every block has experts here', (value) => value === 1),
  skip_train_iteration_range: refused('every batch is trained here'),
  eval_only: refused('run.evaluate evaluates without a training'),
  ...allNone(EXPERTS, 'moe_eval_capacity_factor moe_min_capacity num_experts_switch'),
  ...allNone(JSON_DECIDES, 'zero_reduce_bucket_size zero_allgather_bucket_size remote_device'),
  ...allNone(CHECKPOINTS, 'checkpoint_num_layers'),
  ...allNone(FILES, 'load_tag'),
  ...allNone(
    'run.log writes every step; ledgers and figures show time and memory',
    'log_level log_level_replica codecarbon_dir kill_switch_path profile_steps log_path',
  ),
  ...allNone(
    DATA,
    'tokenizer_name_or_path train_weighted_split_paths valid_weighted_split_paths test_weighted_split_paths train_weighted_split_paths_path valid_weighted_split_paths_path test_weighted_split_paths_path valid_num_workers noise_density mean_noise_span_length use_dataset_only aml_data_download_path train_data_exact_num_epochs train_idx_path train_desc_path train_doc_idx_path train_sample_idx_path train_shuffle_idx_path',
  ),
  pad_vocab_size_to: none('write model.vocab, the size with padding'),
  ...allNone(
    'is for models that are not built here',
    'img_dim retro_workdir retro_cyclic_train_iters retro_encoder_layers retro_encoder_hidden_dropout retro_encoder_attention_dropout retro_num_neighbors retro_num_retrieved_chunks tile_factor ds_sequence_parallel_fpdt_chunk_size',
  ),
};

/** The arguments without a value. */
const SWITCHES: KeyTable = flags({
  deepspeed_activation_checkpointing: recompute,
  checkpoint_activations: recompute,
  cpu_optimizer: decides('offload.optimizer', () => ({ sets: { 'offload.optimizer': true } })),
  no_pipeline_parallel: none('without --pipeline-model-parallel-size, the model is not cut into stages here'),
  use_flash_attn_v1: asMegatron('use_flash_attn'),
  use_flash_attn_v2: asMegatron('use_flash_attn'),
  use_flash_attn_triton: asMegatron('use_flash_attn'),
  use_flash_attn_builder: asMegatron('use_flash_attn'),
  use_bnb_optimizer: decides('optimizer.kind', () => ({ sets: { 'optimizer.kind': 'adamW8bit' } })),
  ...allRefused(
    OTHER_LAYERS,
    'embed_layernorm split_transformers memory_centric_tiled_linear scattered_embeddings',
  ),
  ...allRefused('models are not distilled here', 'kd mos'),
  ...allRefused(
    'the lengths and the order of samples stay the same here',
    'random_ltd data_efficiency_curriculum_learning',
  ),
  ...allRefused('the loss is over all tokens here; shardlab sft trains on answers', 'loss_on_targets_only'),
  ...allRefused('every token has the same weight here', 'reweight_loss_based_on_position_frequency'),
  ...allNone(
    EXPERTS,
    'disable_moe_token_dropping create_moe_param_group disable_moe_top2_2nd_expert_sampling use_tutel enable_expert_tensor_parallelism',
  ),
  ...allNone(
    JSON_DECIDES,
    'zero_reduce_scatter zero_contigious_gradients use_pin_memory cpu_torch_adam ds_fused_adam',
  ),
  ...allNone(
    CHECKPOINTS,
    'distribute_checkpointed_activations partition_activations contigious_checkpointing checkpoint_in_cpu synchronize_each_layer profile_backward',
  ),
  ...allNone(FILES, 'universal_checkpoint no_load_lr_state reset_iteration'),
  ...allNone(
    'schedules here have the values of these settings, also after run.load',
    'override_lr_scheduler use_checkpoint_lr_scheduler',
  ),
  ...allNone(DATA, 'return_data_index repeated_dataloader'),
  ...allNone('ranks have equal values of what is not divided here', 'sync_tp_duplicated_parameters'),
  ...allNone(
    'kernels are fused here in any case',
    'abort_on_unmet_fused_kernel_constraints disable_mem_efficient_ln',
  ),
  ...allNone(
    'run.log writes every step; ledgers and figures show time and memory',
    'log_optimizer_states_to_tensorboard no_log_learnig_rate_to_tensorboard',
  ),
  ...allNone(
    'is for models or schedules that are not built here',
    'retro_add_retriever retro_return_doc_ids fp8_e4m3 fp8_hybrid ds_inference inference enable_zbh1_pipeline enable_zbh1_exact_semantics force_ds_sequence_parallel ds_sequence_parallel_fpdt ds_sequence_parallel_fpdt_offloading',
  ),
});

const ARGUMENTS: KeyTable = { ...DEEPSPEED_ARGUMENTS, ...VALUES, ...SWITCHES };

/** Arguments of which a script of Megatron-DeepSpeed has at least one. */
const MARKS = [
  'deepspeed',
  'deepspeed_config',
  'zero_stage',
  'deepspeed_activation_checkpointing',
  'no_pipeline_parallel',
];

const { checks, ...others } = MEGATRON;

/** The arguments of Megatron-LM, and those of Megatron-DeepSpeed. */
export const MEGATRON_DEEPSPEED: Dialect = {
  ...others,
  name: 'Megatron-DeepSpeed',
  keys: { ...MEGATRON.keys, ...ARGUMENTS },
  // The default of --topk is 1.
  usual: (other) => megatronDefaults(other, { 'model.router': 'switch' }),
  // DeepSpeed's pipelines may have stages with different numbers of layers.
  checks: (other) => (other('deepspeed') === undefined ? (checks?.(other) ?? []) : []),
};

/** Whether a command with these arguments is of Megatron-DeepSpeed. */
export function isMegatronDeepSpeed(names: readonly string[]): boolean {
  return MARKS.some((mark) => names.includes(mark));
}
