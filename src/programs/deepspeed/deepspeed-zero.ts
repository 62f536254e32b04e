import {
  decides,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  OVERLAP,
  refused,
  section,
  settingKeys,
  warned,
} from '../rows/key-row';
import { strategyOfStage, wholeOf, yesOf } from '../rows/values';
import { offloadDevice } from './offload-device';

const stageOf = (other: KeyInput['other']): number => Number(other('zero_optimization.stage') ?? 0);

/** Returns the row of a switch for offloading that older versions of DeepSpeed have. */
function oldOffload(path: 'offload.optimizer' | 'offload.parameters'): KeyRow {
  const row = offloadDevice(path, stageOf);
  return { ...row, mean: (input) => row.mean({ ...input, value: yesOf(input.value) ? 'cpu' : 'none' }) };
}

const HOST = 'how values travel between host and device; both are one memory here';

const offloadParts = (path: 'offload.optimizer' | 'offload.parameters'): KeyTable => ({
  device: offloadDevice(path, stageOf),
  nvme_path: none('offloaded states are in the memory of the host here'),
  buffer_count: none(HOST),
  buffer_size: none(HOST),
  max_in_cpu: none(HOST),
  pin_memory: none(HOST),
  pipeline: none(HOST),
  pipeline_read: none(HOST),
  pipeline_write: none(HOST),
  fast_init: none(HOST),
  super_offload: none(HOST),
  cpuadam_cores_perc: none(HOST),
  ratio: none('all optimizer states are offloaded here, or none'),
});

const BUCKETS = 'how gradients are collected into messages; here each unit is a message';
const FETCH =
  'when parameters are gathered and freed; here parallel.wrap and prefetching decide this for each unit';
const SAVING = 'checkpoints here are sharded; run.savePretrained writes whole parameters';
const QUANTIZED = 'messages here have the dtypes of mixedPrecision, unless parallel.commHook compresses them';

/** Keys that may also have the prefix stage3_ for ZeRO-3. */
const FETCH_KEYS = [
  'prefetch_bucket_size',
  'param_persistence_threshold',
  'model_persistence_threshold',
  'max_live_parameters',
  'max_reuse_distance',
  'module_granularity_threshold',
  'use_all_reduce_for_fetch_params',
  'allgather_sequential',
];

/** The keys of the section zero_optimization. */
export const ZERO: KeyTable = {
  ...settingKeys('deepSpeed', {
    'parallel.strategy': { stage: strategyOfStage },
    'parallel.reshardAfterForward': {
      zero_hpz_partition_size: decides('parallel.reshardAfterForward', ({ value }) => {
        const ranks = wholeOf(value);
        return ranks === 1
          ? { effect: 'none', why: 'parameters are gathered from all ranks' }
          : {
              sets: { 'parallel.reshardAfterForward': ranks },
              why: 'backward gathers parameters within this number of ranks',
            };
      }),
    },
  }),
  offload_param: section(offloadParts('offload.parameters')),
  offload_optimizer: section(offloadParts('offload.optimizer')),
  cpu_offload: oldOffload('offload.optimizer'),
  cpu_offload_param: oldOffload('offload.parameters'),
  cpu_offload_use_pin_memory: none(HOST),
  zenflow: refused(
    'ZenFlow updates important gradients first; the nearest setting here is optimizer.delayedUpdate',
  ),
  contiguous_gradients: none('gradients of a unit are one buffer here in any case'),
  reduce_scatter: none('sharded gradients are reduced and scattered here in any case'),
  reduce_bucket_size: none(BUCKETS),
  allgather_bucket_size: none(BUCKETS),
  use_multi_rank_bucket_allreduce: none(BUCKETS),
  allgather_partitions: none('updated parameters are gathered by one collective per unit here'),
  overlap_comm: none(OVERLAP),
  compute_grad_norm: none('the norm of gradients is computed here in any case'),
  load_from_fp32_weights: none('master parameters are float32 here in any case'),
  elastic_checkpoint: none('any number of ranks reads a checkpoint here'),
  sub_group_size: none('the optimizer updates a whole unit in one pass here'),
  ...Object.fromEntries(
    FETCH_KEYS.flatMap((key) => [
      [key, none(FETCH)],
      [`stage3_${key}`, none(FETCH)],
    ]),
  ),
  gather_16bit_weights_on_model_save: none(SAVING),
  stage3_gather_16bit_weights_on_model_save: none(SAVING),
  stage3_gather_fp16_weights_on_model_save: none(SAVING),
  ignore_unused_parameters: none('parameters without a gradient stay as they are here'),
  legacy_stage1: none('stage 1 has one implementation here'),
  round_robin_gradients: none('one rank after the other copies its part of the gradients here'),
  parameter_alignment: none('buffers are aligned here in any case'),
  zero_quantized_weights: refused(QUANTIZED),
  zero_quantized_nontrainable_weights: refused(QUANTIZED),
  zero_quantized_gradients: refused(QUANTIZED),
  mics_shard_size: warned(
    'DeepSpeed has removed it; write parallel.strategy HYBRID_SHARD with parallel.mesh',
  ),
  mics_hierarchical_params_gather: warned('DeepSpeed has removed it'),
  zeropp_loco_param: warned('DeepSpeed has removed it'),
  memory_efficient_linear: none('the backward of a linear layer stores no copy of its weight here'),
  pipeline_loading_checkpoint: none('each rank reads its own chunks here'),
  override_module_apply: none('initial values are made chunk by chunk here'),
  log_trace_cache_warnings: none('the order of units is fixed here'),
  enable_sanity_checks: none('every collective is compared between ranks here in any case'),
  save_muon_momentum_buffer_in_memory: none('there is no optimizer Muon here'),
  leaf_module: none('parallel.wrap decides the units'),
};
