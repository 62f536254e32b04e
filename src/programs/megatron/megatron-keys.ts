import {
  allNone,
  decides,
  flags,
  type KeyInput,
  type KeyTable,
  none,
  place,
  refused,
  type Translation,
} from '../rows/key-row';
import { wholeOf, yesOf } from '../rows/values';

// Megatron-LM's arguments that count samples in place of steps, arguments of float8, and other arguments of its scripts.

/** Returns a function that turns a number of samples into a number of steps. */
function steps(path: string) {
  return ({ value, other }: KeyInput): Translation => {
    const rows = other('global_batch_size');
    const samples = wholeOf(value, 0);
    if (samples === 0) return { effect: 'none', why: 'is off' };
    return typeof rows === 'number'
      ? {
          sets: { [path]: Math.ceil(samples / rows) },
          why: `${samples} samples / ${rows} rows per step`,
        }
      : {
          effect: 'warning',
          why: `counts samples, and the rows per step (--global-batch-size) are in no line; write ${path}`,
        };
  };
}

const FLOAT8 = 'a plan knows only whether matmuls are in float8, and nothing here computes in float8';
const STATES = 'optimizer states are float32 here; optimizer.kind adamW8bit stores 8 bits per state';

/** Arguments that Megatron-LM and megatron sft both have. */
export const MEGATRON_OTHER: KeyTable = {
  train_samples: decides('steps', steps('steps')),
  lr_decay_samples: decides('schedule.maxSteps', steps('schedule.maxSteps')),
  lr_warmup_samples: decides('schedule.warmupSteps', steps('schedule.warmupSteps')),
  decoupled_lr: refused(
    'embeddings have the learning rate of all other parameters; optimizer.groups changes this',
  ),
  decoupled_min_lr: refused(
    'embeddings have the learning rate of all other parameters; optimizer.groups changes this',
  ),
  fp8_format: place('float8; only a plan takes it into account', () => ({ isFp8: true })),
  ...allNone(
    FLOAT8,
    'fp8_recipe fp8_amax_history_len fp8_amax_compute_algo fp8_margin fp8_interval fp4_format fp4_recipe',
  ),
  main_grads_dtype: none('gradients are added up in float32 here'),
  main_params_dtype: none('master parameters are float32 here'),
  exp_avg_dtype: refused(STATES, (value) => value === 'fp32'),
  exp_avg_sq_dtype: refused(STATES, (value) => value === 'fp32'),
  optimizer_offload_fraction: none('all optimizer states are offloaded here, or none'),
  tiktoken_pattern: none('write data.tokenizer with your own files'),
  profile_step_start: none('ledgers and figures show time and memory here'),
  profile_step_end: none('ledgers and figures show time and memory here'),
  profile_ranks: none('ledgers and figures show time and memory here'),
  tokenizer_hf_use_fast: none('write data.tokenizer with your own files'),
  ...flags({
    grad_reduce_in_bf16: decides('mixedPrecision.reduceDtype', ({ value }) =>
      yesOf(value)
        ? { sets: { 'mixedPrecision.reduceDtype': 'bfloat16' } }
        : { effect: 'none', why: 'is off' },
    ),
    fp8_param_gather: none(FLOAT8),
    fp4_param_gather: none(FLOAT8),
    use_precision_aware_optimizer: none('other arguments give the dtypes of optimizer states'),
    calculate_per_token_loss: none('every rank has equally many tokens here'),
    no_create_attention_mask_in_dataloader: none('attention is causal here, without a mask'),
    no_mmap_bin_files: none('batches are source code or your own files: write data'),
    no_position_embedding: none("the model's kind decides: llama has rotary positions, gpt learned ones"),
    profile: none('ledgers and figures show time and memory here'),
    use_pytorch_profiler: none('ledgers and figures show time and memory here'),
    moe_shared_expert_overlap: none('model.router chooses the experts here, and no expert is shared'),
    moe_enable_deepep: none('tokens are exchanged by all-to-all here'),
    use_checkpoint_args: none('the sizes of the model come from settings here, not from a checkpoint'),
    no_initialization: none('initial values are made chunk by chunk here'),
  }),
};
