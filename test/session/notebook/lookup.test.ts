import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import * as sl from '../../../src';
import { SETTING_ROWS } from '../../../src/config/setting-table';
import GLOSSARY from '../../../src/config/terms.json';
import { parseTrainConfig } from '../../../src/config/train-config';
import * as nn from '../../../src/nn/names/nn-names';
import { lookup } from '../../../src/session/notebook/lookup';

/** Names that the five documents print, as they print them. */
const PRINTED = `
  FSDP FullyShardedDataParallel ShardingStrategy ShardingStrategy.FULL_SHARD FULL_SHARD SHARD_GRAD_OP NO_SHARD sharding_strategy
  auto_wrap_policy transformer_auto_wrap_policy size_based_auto_wrap_policy moe_auto_wrap_policy min_num_params nonwrapped_numel recurse
  device_id mixed_precision MixedPrecision FSDP_MixedPrecision param_dtype reduce_dtype buffer_dtype forward_prefetch backward_prefetch
  BackwardPrefetch.BACKWARD_PRE checkpoint_wrapper CheckpointImpl CheckpointImpl.NO_REENTRANT checkpoint_impl offload_to_cpu
  ignore_unused_parameters activation_checkpointing torch.cuda.amp torch.distributed.fsdp torch.distributed.fsdp.wrap torch.float16
  torch.bfloat16 torch.float32 torch.optim.AdamW AdamW Adam betas eps weight_decay fused lr clip_norm WarmupCosineLR warmup_steps max_steps
  eta_min scheduler state_dict load_state_dict optim_state FSDP.state_dict_type StateDictType.SHARDED_STATE_DICT FSDP.optim_state_dict
  FSDP.optim_state_dict_to_load torch.save torch.load save_interval log_interval save_checkpoint load_checkpoint torch.distributed.barrier
  all_reduce all-reduce all-gather reduce-scatter All-to-All sparse_all_to_all sparse_gradients communication_data_type broadcast DDP NCCL
  ZeRO-3 DeepSpeed Deepspeed Fairscale zero_stage zero3_init_flag offload_optimizer_device offload_param_device gradient_clipping
  gradient_accumulation_steps train_batch_size deepspeed_config deepspeed_multinode_launcher NVMe Ulysses ulysses ulysses_size dit_fsdp
  t5_fsdp Megatron Megatron-LM ColumnParallelLinear RowParallelLinear initialize_model_parallel tensor_model_parallel_size
  pipeline_model_parallel_size tensor_parallel_size pipeline_parallel_size num_micro_batches micro-batch bubble pipeline TP PP DP
  torchrun nproc_per_node rdzv_backend c10d num_processes num_machines machine_rank main_process_ip main_process_port
  main_training_function compute_environment distributed_type downcast_bf16 enable_cpu_affinity dynamo_backend dynamo_mode
  dynamo_use_dynamic dynamo_use_fullgraph dynamo_use_regional_compilation same_network use_cpu tpu_env NCCL_DEBUG NCCL_SOCKET_IFNAME
  NCCL_IB_DISABLE NCCL_IB_GID_INDEX NCCL_DEBUG_SUBSYS INDUCTOR accelerator swift ms-swift sft SFT DPO KTO RM LISA LoRA vLLM SGLang LmDeploy
  EvalScope ModelScope model_type parallel_method dataset model_paths model_id_with_origin_paths learning_rate MoE Mixture-of-Experts
  TemperatureGating F.gumbel_softmax gumbel_softmax ExpertLayer num_experts Diffusion T5-XXL WanModel_S2V DiffSynth-Studio FlashAttention
  FlashAttention-3 Flamingo BLIP NVLink NVSwitch InfiniBand RDMA GPUDirect CANN Ascend A100 H100 V100`;

/** Names of the field that no document prints. */
const FIELD = `
  init_process_group new_group all_gather_into_tensor reduce_scatter_tensor all_to_all_single DeviceMesh init_device_mesh fully_shard
  reshard_after_forward MixedPrecisionPolicy CPUOffloadPolicy DTensor Shard Replicate parallelize_module ColwiseParallel RowwiseParallel
  SequenceParallel PipelineStage Schedule1F1B ScheduleGPipe DCP ZeRO zero_optimization.stage stage3_param_persistence_threshold
  train_micro_batch_size_per_gpu --use-distributed-optimizer --recompute-granularity context_parallel_size expert_model_parallel_size
  fsdp_sharding_strategy fsdp_transformer_layer_cls_to_wrap per_device_train_batch_size lr_scheduler_type gradient_checkpointing
  all_gather_object scatter_object_list monitored_barrier isend TrainingArguments use_orig_params no_sync summon_full_params parallel.strategy parallel.tp model.attention`;

const wordsOf = (text: string): string[] => text.trim().split(/\s+/);

test('lookup knows the names that the documents print, and those of torch.distributed, DeepSpeed, Megatron-LM and Accelerate', () => {
  const unknown = [...wordsOf(PRINTED), ...wordsOf(FIELD)].filter((word) => {
    try {
      return /is no known name/.test(String(lookup(word)));
    } catch {
      return true;
    }
  });
  assert.deepEqual(unknown, []);
});

test('the first meaning is the one with the same spelling', () => {
  const first = (word: string): string => `${lookup(word).name} (${lookup(word).terms[0]?.of.join(', ')})`;
  assert.equal(first('FULL_SHARD'), 'FULL_SHARD (torch.distributed.fsdp)');
  assert.equal(first('ShardingStrategy'), 'ShardingStrategy (torch.distributed.fsdp)');
  assert.equal(
    first('gradient_clipping'),
    'gradient_clipping (accelerate launch, DeepSpeed, DeepSpeedPlugin)',
  );
  assert.equal(first('zero_optimization.stage'), 'zero_optimization.stage (DeepSpeed)');
  assert.equal(first('reduce-scatter'), 'reduce_scatter (torch.distributed)');
  assert.equal(first('NO_CHECKPOINT'), 'CheckpointImpl.NO_CHECKPOINT (wan22-fsdp)');
  assert.equal(first('strategy'), 'parallel.strategy (shardlab)');
  assert.match(
    String(lookup('barrier')),
    /^barrier \(torch\.distributed\): waits .*\n {2}here {13}dist\.barrier\(\)/,
  );
});

test("keys of a plan's place and kinds of GPU are known", () => {
  for (const name of ['on', 'stack', 'gpus', 'nicGbit', 'A100', 'H100-80G'])
    assert.match(String(lookup(name).terms.map(({ here }) => here)), /sl\.plan\(config, \{/, name);
});

test('a name that is near to a known one is answered by that one, and says so', () => {
  assert.match(
    String(lookup('WarmupCosinLR')),
    /^"WarmupCosinLR" is no known name; the nearest is WarmupCosineLR\n/,
  );
  assert.throws(() => lookup('quantum_annealing'), {
    code: 'CONFIG',
    message: /no library, program or document that is known here has the name "quantum_annealing"/,
  });
});

test("the documents' code is shown with its outcome on the original libraries", () => {
  const text = inspect(lookup('ColumnParallelLinear'));
  assert.match(text, /^ColumnParallelLinear, RowParallelLinear \(fsdp-megatron-swift\): here$/m);
  assert.match(text, /in the original {2}exist, but also need config and init_method/);
  assert.match(
    inspect(lookup('mixed_precision=True')),
    /refused {10}FSDP\(model, \{ mixedPrecision: true \}\)/,
  );
});

const GROUPS = Object.values<Record<string, string[] | string>>(GLOSSARY);
const HERE = GROUPS.flatMap((group) =>
  Object.entries(group).flatMap(([name, meaning]) =>
    typeof meaning === 'string' ? [] : [{ name, here: meaning[1] ?? '' }],
  ),
);

test('the glossary repeats no name of the table of settings, and its second names are those of its own terms', () => {
  const names = SETTING_ROWS.flatMap(({ names: { torch = [], fsdp = [], fairScale = [] } = {} }) =>
    [torch, fsdp, fairScale].flat(),
  );
  for (const group of GROUPS) {
    for (const [name, meaning] of Object.entries(group)) {
      assert.ok(!names.includes(name), name);
      if (typeof meaning === 'string') assert.ok(Array.isArray(group[meaning]), `${name}: ${meaning}`);
    }
  }
});

const MOE = { kind: 'moe', layers: 2, dim: 16, heads: 2, vocab: 256, seq: 16, experts: 4, router: 'topk' };

test('settings that the glossary names can be given', () => {
  for (const { name, here } of HERE) {
    for (const [, text = ''] of here.matchAll(
      /((?:parallel|offload|mixedPrecision|lora): \{ [^{}…]*(?:\{[^{}]*\}[^{}…]*)?\})/g,
    )) {
      const config = new Function(
        `return { ${text.replaceAll(/\b(tp|pp|cp|ep)(?=[, ])(?!:)/g, '$1: 1')} }`,
      )();
      const model = text.includes('ep:') ? MOE : 'tiny';
      assert.doesNotThrow(() => parseTrainConfig({ model, ...config }), `${name}: ${text}`);
    }
    for (const [, path = ''] of here.matchAll(/\b((?:parallel|offload|mixedPrecision)\.\w+)/g))
      assert.notEqual(
        lookup(path).terms.find(({ name: own }) => own === path),
        undefined,
        `${name}: ${path}`,
      );
  }
});

test('names of this library that the glossary writes exist', () => {
  const known = new Set([...Object.keys(sl), ...Object.keys(nn), ...Object.keys(nn.functional)]);
  for (const { name, here } of HERE) {
    for (const [, word = ''] of here.matchAll(/\b(?:sl|nn|nn\.functional)\.(\w+)/g))
      assert.ok(known.has(word), `${name}: ${word}`);
  }
});
