import {
  allNone,
  type Convert,
  decides,
  isNothing,
  type KeyTable,
  none,
  setting,
  settingKeys,
} from '../rows/key-row';
import { floatOf, number, numberOf, yes, yesOf } from '../rows/values';

// Objects that say in which dtypes a model trains, and which values are on the host. Source: torch.distributed.fsdp.

const dtype: Convert = (value) => (isNothing(value) ? undefined : floatOf(value));

const ROOT = 'cast_forward_inputs decides this for the inputs of all units here';

/** Policies that choose dtypes, for FSDP 1 and for fully_shard. */
export const PRECISIONS: KeyTable = {
  MixedPrecision: {
    ...none('types of values'),
    parts: {
      ...settingKeys('torch', {
        'mixedPrecision.paramDtype': { param_dtype: dtype },
        'mixedPrecision.reduceDtype': { reduce_dtype: dtype },
        'mixedPrecision.bufferDtype': { buffer_dtype: dtype },
        'mixedPrecision.keepLowPrecisionGrads': { keep_low_precision_grads: yes },
        'mixedPrecision.castForwardInputs': { cast_forward_inputs: yes },
      }),
      ...allNone(ROOT, 'cast_root_forward_inputs'),
      _module_classes_to_ignore: none('all modules of a unit have the same dtypes here'),
    },
  },
  MixedPrecisionPolicy: {
    ...none('types of values'),
    parts: settingKeys('torch', {
      'mixedPrecision.paramDtype': { param_dtype: dtype },
      'mixedPrecision.reduceDtype': { reduce_dtype: dtype },
      'mixedPrecision.outputDtype': { output_dtype: dtype },
      'mixedPrecision.castForwardInputs': { cast_forward_inputs: yes },
    }),
  },
};

/** Policies that choose the values on the host. */
export const OFFLOADS: KeyTable = {
  CPUOffload: {
    ...none('what is on the host'),
    parts: { offload_params: setting('offload.parameters', (value) => yesOf(value)) },
  },
  CPUOffloadPolicy: {
    ...decides('offload.parameters', () => ({ sets: { 'offload.parameters': true } })),
    parts: { pin_memory: none('the device is the memory of the CPU here') },
  },
  OffloadPolicy: { ...none('nothing is on the host'), parts: {} },
};

/** ZeroRedundancyOptimizer, which shards the optimizer of DDP and passes keywords on to torch.optim. */
export const ZERO: KeyTable = {
  ZeroRedundancyOptimizer: {
    ...decides('parallel.strategy', () => ({ sets: { 'parallel.strategy': 'ZERO_1' } })),
    parts: {
      params: none('all parameters that train'),
      optimizer_class: none('write optimizer.kind'),
      process_group: none('a job has one group of all ranks here; parallel.mesh divides it'),
      parameters_as_bucket_view: none('parameters are parts of buckets here in any case'),
      overlap_with_ddp: none('messages run beside computation here in any case'),
      ...settingKeys('torch', {
        'optimizer.lr': { lr: number },
        'optimizer.weightDecay': { weight_decay: number },
        'optimizer.betas': { betas: (value) => [value].flat().map(numberOf) },
        'optimizer.eps': { eps: number },
        'optimizer.amsgrad': { amsgrad: yes },
        'optimizer.momentum': { momentum: number },
        'optimizer.nesterov': { nesterov: yes },
        'optimizer.maximize': { maximize: yes },
        'optimizer.fused': { fused: yes },
      }),
    },
  },
};
