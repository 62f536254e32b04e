import {
  type Asked,
  allNone,
  decides,
  flag,
  type KeyRow,
  type KeyTable,
  type Meaning,
  place,
  refused,
  settingKeys,
} from '../rows/key-row';
import type { Dialect } from '../rows/meant';
import { clip, number, numberOf, whole, wholeFromZero, wholeOf, word, yesOf } from '../rows/values';
import { MEGATRON_OTHER } from './megatron-keys';
import { isLlama, MODEL } from './megatron-model';

// Megatron-LM's arguments. Source: megatron/training/arguments.py and megatron/training/config.

/** Returns the row of a truth value that stands alone on a command line. */
function on(path: string, value: unknown, why?: string): KeyRow {
  return flag(
    decides(path, ({ value: given }) =>
      yesOf(given)
        ? { sets: { [path]: value }, ...(why !== undefined && { why }) }
        : { effect: 'none', why: 'is off' },
    ),
  );
}

function fsdp({ value }: Asked): Meaning {
  return yesOf(value) ? { sets: { 'parallel.strategy': 'FULL_SHARD' } } : { effect: 'none', why: 'is off' };
}

function recompute({ value }: Asked): Meaning {
  return { sets: { activationCheckpointing: word({ full: 'full', selective: 'selective' })(value) } };
}

const PARALLEL: KeyTable = {
  ...settingKeys('megatron', {
    'parallel.tp': whole,
    'parallel.pp': whole,
    'parallel.cp': {
      context_parallel_size: decides('parallel.cp', ({ value }) => ({
        sets: { 'parallel.cp': wholeOf(value), ...(wholeOf(value) > 1 && { 'parallel.cpKind': 'ring' }) },
      })),
    },
    'parallel.cpKind': {
      cp_comm_type: decides('parallel.cpKind', ({ value, other }) =>
        wholeOf(other('context_parallel_size') ?? 1) === 1
          ? { effect: 'none', why: 'sequences are not divided' }
          : {
              sets: {
                'parallel.cpKind': word({
                  p2p: 'ring',
                  a2a: 'ulysses',
                  all_gather: 'ring',
                  'a2a+p2p': 'ring',
                } as const)([value].flat()[0]),
              },
            },
      ),
    },
    'parallel.ep': { expert_model_parallel_size: whole },
    'parallel.sequenceParallel': { sequence_parallel: on('parallel.sequenceParallel', true) },
    'parallel.virtualStages': {
      num_virtual_stages_per_pipeline_rank: decides('parallel.virtualStages', ({ value }) =>
        virtual(wholeOf(value)),
      ),
    },
  }),
  num_layers_per_virtual_pipeline_stage: decides('parallel.virtualStages', ({ value, other }) => {
    const [layers, pp] = [Number(other('num_layers')), Number(other('pipeline_model_parallel_size') ?? 1)];
    return virtual(wholeOf(layers / pp / wholeOf(value)));
  }),
  use_distributed_optimizer: on('parallel.strategy', 'ZERO_1'),
  use_torch_fsdp2: flag(decides('parallel.strategy', fsdp)),
  use_megatron_fsdp: flag(decides('parallel.strategy', fsdp)),
  use_custom_fsdp: flag(decides('parallel.strategy', fsdp)),
  data_parallel_sharding_strategy: decides('parallel.strategy', ({ value }) => ({
    sets: {
      'parallel.strategy': word({
        no_shard: 'NO_SHARD',
        optim: 'ZERO_1',
        optim_grads: 'ZERO_2',
        optim_grads_params: 'FULL_SHARD',
      } as const)(value),
    },
  })),
  recompute_granularity: decides('activationCheckpointing', recompute),
  recompute_activations: on('activationCheckpointing', 'selective'),
  optimizer_cpu_offload: on('offload.optimizer', true),
  ...allNone(
    'whole blocks run again here',
    'recompute_method recompute_num_layers recompute_modules distribute_saved_activations',
  ),
};

function virtual(stages: number): Meaning {
  return stages === 1
    ? { effect: 'none', why: 'a rank has one stage' }
    : { sets: { 'parallel.virtualStages': stages, 'parallel.schedule': 'interleaved' } };
}

function half(paramDtype: string): KeyRow {
  return flag(
    decides('mixedPrecision.paramDtype', ({ value, other }) => {
      if (!yesOf(value)) return { effect: 'none', why: 'is off' };
      if (other('grad_reduce_in_bf16') !== undefined)
        return { sets: { 'mixedPrecision.paramDtype': paramDtype } };
      return {
        sets: { 'mixedPrecision.paramDtype': paramDtype, 'mixedPrecision.reduceDtype': 'float32' },
        why: "Megatron-LM's gradients are float32",
      };
    }),
  );
}

/** With a pipeline, a rank's microbatches are a pass; without one, they are passes of a step. */
function microbatch({ value, other }: Asked): Meaning {
  const micro = wholeOf(value);
  const [pp, global] = [wholeOf(other('pipeline_model_parallel_size') ?? 1), other('global_batch_size')];
  if (pp === 1 || global === undefined) return { sets: { batch: micro } };
  return { place: { microRows: micro }, why: `rows per microbatch of the pipeline: ${micro}` };
}

const TRAINING: KeyTable = {
  ...settingKeys('megatron', { batch: { micro_batch_size: decides('batch', microbatch) }, clipNorm: clip }),
  rampup_batch_size: refused('the number of rows per step stays the same here'),
  global_batch_size: place('rows of all ranks per step', (value) => ({ globalBatch: wholeOf(value) })),
  train_iters: decides('steps', ({ value }) => ({ sets: { steps: wholeOf(value) } })),
  ...settingKeys('torch', { 'optimizer.lr': number, 'optimizer.weightDecay': number }),
  seed: decides('seed', ({ value }) => ({ sets: { seed: wholeOf(value, 0) } })),
  optimizer: decides('optimizer.kind', ({ value }) =>
    ['adam', 'sgd'].includes(String(value))
      ? { sets: { 'optimizer.kind': value === 'adam' ? 'adamW' : 'sgd' } }
      : { effect: 'refused', why: `there is no optimizer ${String(value)} here; choose adam or sgd` },
  ),
  adam_beta1: decides('optimizer.betas', ({ value, other }) => ({
    sets: { 'optimizer.betas': [numberOf(value), numberOf(other('adam_beta2') ?? 0.999)] },
  })),
  adam_beta2: decides('optimizer.betas', ({ value, other }) => ({
    sets: { 'optimizer.betas': [numberOf(other('adam_beta1') ?? 0.9), numberOf(value)] },
  })),
  adam_eps: decides('optimizer.eps', ({ value }) => ({ sets: { 'optimizer.eps': numberOf(value) } })),
  sgd_momentum: decides('optimizer.momentum', ({ value }) => ({
    sets: { 'optimizer.momentum': numberOf(value) },
  })),
  lr_decay_style: decides('schedule.kind', ({ value }) => ({
    sets: {
      'schedule.kind': word({
        constant: 'constant',
        linear: 'linear',
        cosine: 'cosine',
        wsd: 'wsd',
      } as const)(value),
    },
  })),
  lr_decay_iters: decides('schedule.maxSteps', ({ value }) => ({
    sets: { 'schedule.maxSteps': wholeOf(value) },
  })),
  lr_warmup_iters: decides('schedule.warmupSteps', (asked) => ({
    sets: { 'schedule.warmupSteps': wholeFromZero(asked.value, asked) },
  })),
  lr_warmup_fraction: decides('schedule.warmupSteps', ({ value, other }) => {
    const steps = other('lr_decay_iters') ?? other('train_iters');
    return typeof steps === 'number'
      ? { sets: { 'schedule.warmupSteps': Math.ceil(numberOf(value) * steps) } }
      : {
          effect: 'warning',
          why: 'is a share of the steps, whose number is in no line; write schedule.warmupSteps',
        };
  }),
  min_lr: decides('schedule.etaMin', ({ value }) => ({ sets: { 'schedule.etaMin': numberOf(value) } })),
  bf16: half('bfloat16'),
  fp16: half('float16'),
  initial_loss_scale: decides('gradScaler.initScale', ({ value }) => ({
    sets: { 'gradScaler.initScale': numberOf(value) },
  })),
  loss_scale_window: decides('gradScaler.growthInterval', ({ value }) => ({
    sets: { 'gradScaler.growthInterval': wholeOf(value) },
  })),
  attention_dropout: place('dropout, which only a plan knows', (value) => ({ dropout: numberOf(value) > 0 })),
  hidden_dropout: place('dropout, which only a plan knows', (value) => ({ dropout: numberOf(value) > 0 })),
};

const WITHOUT_EFFECT: KeyTable = {
  ...allNone(
    'batches are source code or your own files: write data',
    'data_path split mock_data data_cache_path num_workers dataloader_type reset_position_ids reset_attention_mask eod_mask_loss',
  ),
  ...allNone(
    'write data.tokenizer with your own files',
    'tokenizer_type tokenizer_model vocab_file merge_file',
  ),
  ...allNone(
    'run.step saves, and run.load reads',
    'save load save_interval ckpt_format finetune no_load_optim no_load_rng no_save_optim no_save_rng dist_ckpt_strictness async_save exit_interval exit_duration_in_mins',
  ),
  ...allNone(
    'run.log writes every step',
    'log_interval log_throughput log_params_norm log_num_zeros_in_grad log_timers_to_tensorboard tensorboard_dir tensorboard_log_interval tensorboard_queue_size wandb_project wandb_exp_name wandb_save_dir timing_log_level',
  ),
  ...allNone('run.evaluate evaluates', 'eval_iters eval_interval'),
  ...allNone(
    'messages run beside computation here in any case',
    'overlap_grad_reduce overlap_param_gather tp_comm_overlap overlap_p2p_communication no_overlap_p2p_communication overlap_param_gather_with_optimizer_step',
  ),
  ...allNone(
    'kernels are fused here in any case',
    'no_gradient_accumulation_fusion no_masked_softmax_fusion no_bias_gelu_fusion no_bias_swiglu_fusion no_rope_fusion no_bias_dropout_fusion cross_entropy_loss_fusion cross_entropy_fusion_impl attention_softmax_in_fp32 accumulate_allreduce_grads_in_fp32 transformer_impl use_mcore_models manual_gc manual_gc_interval empty_unused_memory_level apply_layernorm_1p',
  ),
  ...allNone(
    'jobs here have collectives of their own',
    'distributed_backend distributed_timeout_minutes local_rank use_cpu_initialization ddp_bucket_size',
  ),
  ...allNone(
    'experts are divided and chosen as model.router says',
    'moe_router_load_balancing_type moe_token_dispatcher_type moe_grouped_gemm moe_permute_fusion expert_tensor_parallel_size moe_pad_expert_input_to_capacity',
  ),
};

/** Arguments without a value among those above. */
const FLAGS = new Set(
  'no_gradient_accumulation_fusion no_masked_softmax_fusion no_bias_gelu_fusion no_bias_swiglu_fusion no_rope_fusion no_bias_dropout_fusion cross_entropy_loss_fusion attention_softmax_in_fp32 accumulate_allreduce_grads_in_fp32 use_mcore_models manual_gc apply_layernorm_1p overlap_grad_reduce overlap_param_gather tp_comm_overlap no_overlap_p2p_communication mock_data finetune no_load_optim no_load_rng no_save_optim no_save_rng async_save log_throughput log_params_norm log_num_zeros_in_grad log_timers_to_tensorboard use_cpu_initialization moe_grouped_gemm moe_permute_fusion distribute_saved_activations'.split(
    ' ',
  ),
);

export const MEGATRON_KEYS: KeyTable = Object.fromEntries(
  Object.entries({ ...MEGATRON_OTHER, ...MODEL, ...PARALLEL, ...TRAINING, ...WITHOUT_EFFECT }).map(
    ([key, row]) => [key, FLAGS.has(key) ? flag(row) : row],
  ),
);

/** Arguments of Megatron-LM's pretrain_gpt.py. */
export const MEGATRON: Dialect = {
  name: 'Megatron-LM',
  keys: MEGATRON_KEYS,
  usual: (other) => ({
    usual: {
      ...(other('num_layers') !== undefined && {
        'model.kind': isLlama(other) ? 'llama' : 'gpt',
        'model.vocab': 51_200,
        'model.tied': true,
      }),
      'parallel.strategy': 'NO_SHARD',
      'optimizer.weightDecay': 0.01,
      'schedule.kind': 'linear',
      seed: 1234,
    },
    why: "Megatron-LM's defaults, and GPT-2's vocabulary as Megatron-LM pads it",
  }),
};
