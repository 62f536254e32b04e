import {
  decides,
  type KeyInput,
  type KeyTable,
  none,
  place,
  settingKeys,
  type Translation,
} from '../rows/key-row';
import { clip, numberOf, whole, wholeOf, word, yes, yesOf } from '../rows/values';

/** A pipeline divides a pass into microbatches; without a pipeline, each microbatch is a pass of its own. */
function microbatches({ value, other }: KeyInput): Translation {
  const count = wholeOf(value);
  return Number(other('megatron_lm_pp_degree') ?? 1) > 1
    ? { sets: { 'parallel.microbatches': count }, usual: { batch: count } }
    : { sets: { accumulation: count }, why: 'without a pipeline, microbatches are passes of a step' };
}

const dropout = place('dropout; only a plan takes it into account', (value) => ({
  dropout: numberOf(value) > 0,
}));
const LOADING = 'checkpoints here store the optimizer, and run.load reads it';
const RECOMPUTED = 'whole blocks run again here';

/** Keys of Accelerate's plugin for Megatron-LM. */
export const ACCELERATE_MEGATRON: KeyTable = {
  ...settingKeys('accelerate', {
    'parallel.tp': { megatron_lm_tp_degree: whole },
    'parallel.pp': { megatron_lm_pp_degree: whole },
    'parallel.cp': {
      megatron_lm_context_parallel_size: decides('parallel.cp', ({ value }) => ({
        sets: { 'parallel.cp': wholeOf(value), ...(wholeOf(value) > 1 && { 'parallel.cpKind': 'ring' }) },
      })),
    },
    'parallel.ep': { megatron_lm_expert_model_parallel_size: whole },
    'parallel.microbatches': {
      megatron_lm_num_micro_batches: decides('parallel.microbatches', microbatches),
    },
    'parallel.sequenceParallel': { megatron_lm_sequence_parallelism: yes },
    'parallel.strategy': {
      megatron_lm_use_distributed_optimizer: (value) => (yesOf(value) ? 'ZERO_1' : 'NO_SHARD'),
    },
    'offload.optimizer': { megatron_lm_optimizer_cpu_offload: yes },
    clipNorm: { megatron_lm_gradient_clipping: clip },
    activationCheckpointing: {
      megatron_lm_recompute_activations: (value) => (yesOf(value) ? 'selective' : null),
      megatron_lm_recompute_granularity: (value) =>
        value === null ? undefined : word({ full: 'full', selective: 'selective' })(value),
    },
  }),
  megatron_lm_attention_dropout: dropout,
  megatron_lm_hidden_dropout: dropout,
  megatron_lm_use_custom_fsdp: none('FSDP is a strategy of its own here: parallel.strategy FULL_SHARD'),
  megatron_lm_no_load_optim: none(LOADING),
  megatron_lm_no_save_optim: none(LOADING),
  megatron_lm_eod_mask_loss: none('the loss counts all tokens here'),
  megatron_lm_overlap_cpu_optimizer_d2h_h2d: none('the device is the memory of the CPU here'),
  megatron_lm_use_precision_aware_optimizer: none(
    "optimizer states are float32 here, or 8-bit with optimizer.kind 'adamW8bit'",
  ),
  megatron_lm_decoder_last_pipeline_num_layers: none('write the layers per stage as parallel.stageSplit'),
  megatron_lm_recompute_method: none(RECOMPUTED),
  megatron_lm_recompute_num_layers: none(RECOMPUTED),
  megatron_lm_attention_backend: none("write model.attention 'flash' or 'eager'"),
  megatron_lm_attention_softmax_in_fp32: none('softmax is float32 here in any case'),
  megatron_lm_expert_tensor_parallel_size: none('parallel.tp divides experts like other layers here'),
  megatron_lm_calculate_per_token_loss: none('the loss is the mean over tokens here'),
  megatron_lm_use_rotary_position_embeddings: none(
    "the model's kind decides: llama has rotary positions, gpt learned ones",
  ),
};
