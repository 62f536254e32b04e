import {
  type FloatDType,
  gradScalerOf,
  isGathered,
  isSharded,
  STRATEGIES,
  type TrainConfig,
  usesFloat16,
} from '../../config';
import { isPythonCode } from './own-model';
import {
  inexpressible,
  leftOut,
  onlyAllShards,
  onlyDivisorsOfHeads,
  onlyMeshes,
  onlyNamedUnits,
  onlyOptimizers,
  onlyRecompute,
  reducedIn,
  similar,
} from './rules';
import type { BundleFacts, Exceptions, Treatment } from './target';

const SCRIPT: Exceptions = {
  // The rows of each rank's batches are in data/tokens.npy.
  data: 'said',
  batch: 'said',
  activationCheckpointing: onlyRecompute('full', 'everyNth'),
  'optimizer.kind': onlyOptimizers('torch.optim', 'adamW', 'adam', 'sgd'),
  seed: ({ shape }) =>
    shape.kind === 'own' && isPythonCode(shape.code)
      ? 'said'
      : leftOut('this seed made the weights and the batches of the bundle; train.py draws no random numbers'),
};

/** Returns an exception of a setting of fully_shard, which DDP and ZeroRedundancyOptimizer do not have. */
const notInDDP =
  (ddp: Treatment) =>
  ({ config: { parallel } }: BundleFacts): Treatment | null =>
    isSharded(parallel.strategy, 'gradient') ? null : ddp;

/** Whether PyTorch, which has no ZeRO-2, shards parameters by fully_shard although they are whole here. */
const isMoreSharded = ({ parallel: { strategy } }: TrainConfig): boolean =>
  isSharded(strategy, 'gradient') && !isGathered(strategy);

/** The exception of a setting of sharded parameters: it has an effect under fully_shard. */
const ofFullyShard = ({ config }: BundleFacts): Treatment | null => (isMoreSharded(config) ? 'said' : null);

const ROUNDED_BY_AUTOCAST = notInDDP(
  leftOut('DDP reduces float32 gradients, and rounds only within torch.autocast'),
);

/** Exceptions of targets with train.py for torchrun. */
export const TORCH_EXCEPTIONS: Exceptions = {
  ...SCRIPT,
  'parallel.strategy': (facts) => {
    const { strategy, tp } = facts.config.parallel;
    if (tp > 1 && !isSharded(strategy, 'gradient'))
      return inexpressible(
        `${strategy} with parallel.tp ${tp} is not in train.py; use FULL_SHARD or SHARD_GRAD_OP`,
      );
    return isMoreSharded(facts.config)
      ? similar(
          'PyTorch has no ZeRO-2: fully_shard with reshard_after_forward=False also shards parameters between steps',
        )
      : onlyMeshes(facts);
  },
  'parallel.wrap': onlyNamedUnits,
  'parallel.reshardAfterForward': ofFullyShard,
  'offload.parameters': ofFullyShard,
  'parallel.tp': onlyDivisorsOfHeads,
  'parallel.communicationDataType': ROUNDED_BY_AUTOCAST,
  'mixedPrecision.paramDtype': (facts) =>
    usesFloat16(facts.config)
      ? inexpressible(
          "float16 needs a scaler of the loss, which fully_shard does not have; use 'bf16', or export to 'deepspeed'",
        )
      : notInDDP(similar('is torch.autocast: matmuls in this type, parameters and gradients in float32'))(
          facts,
        ),
  'mixedPrecision.reduceDtype': ROUNDED_BY_AUTOCAST,
  'mixedPrecision.outputDtype': ROUNDED_BY_AUTOCAST,
  'mixedPrecision.castForwardInputs': ROUNDED_BY_AUTOCAST,
};

/**
 * Returns the type in which Accelerate and transformers' Trainer reduce gradients: the parameters' type if these are sharded,
 * else float32, because gradients are float32 under torch.autocast.
 */
export function trainerReduction({ config: { parallel, mixedPrecision } }: BundleFacts): FloatDType {
  return isSharded(parallel.strategy, 'optimizer') ? (mixedPrecision?.paramDtype ?? 'float32') : 'float32';
}

/** Returns the exception of float16 without a scaler, which `program` always has. */
export function onlyScaled(program: string, scaled: Treatment | null) {
  return ({ config }: BundleFacts): Treatment | null => {
    if (!usesFloat16(config)) return leftOut('nothing is float16, so a scale changes no value');
    return gradScalerOf(config) === null
      ? inexpressible(`float16 without a scaler of the loss is not in ${program}; leave gradScaler out`)
      : scaled;
  };
}

/** Exceptions of Accelerate, which trains by FSDP or by DeepSpeed. */
export const ACCELERATE_EXCEPTIONS: Exceptions = {
  ...SCRIPT,
  'mixedPrecision.paramDtype': reducedIn(trainerReduction),
  'mixedPrecision.reduceDtype': reducedIn(trainerReduction),
  'parallel.strategy': onlyMeshes,
  'parallel.reshardAfterForward': (facts) =>
    onlyAllShards(facts) ?? (isGathered(facts.config.parallel.strategy) ? 'said' : null),
  'parallel.wrap': onlyNamedUnits,
  gradScaler: onlyScaled('Accelerate', null),
};

const NOTHING_TO_OFFLOAD = leftOut('stage 0 offloads nothing');

/** The exception of parameters on the host in DeepSpeed. */
export function onlyStage3({ config: { parallel } }: BundleFacts): Treatment | null {
  const { zeroStage } = STRATEGIES[parallel.strategy];
  if (zeroStage === 0) return NOTHING_TO_OFFLOAD;
  return zeroStage === 3 ? null : similar('is offload of the optimizer: only stage 3 offloads parameters');
}

/** The exception of a dtype on the wire, which ds_config.json has only beside a precision. */
export function ofPrecision({ config }: BundleFacts): Treatment | null {
  return config.mixedPrecision === null ? leftOut('gradients are reduced in float32') : null;
}

/** Exceptions of Accelerate whose JSON of DeepSpeed has the types of gradients and the offload. */
export const ACCELERATE_DEEPSPEED_EXCEPTIONS: Exceptions = {
  ...SCRIPT,
  'parallel.strategy': similar('Accelerate uses DeepSpeed, with the settings in ds_config.json'),
  'offload.parameters': onlyStage3,
  'parallel.communicationDataType': ofPrecision,
  gradScaler: onlyScaled('Accelerate', null),
};

/** Exceptions of DeepSpeed. */
export const DEEPSPEED_EXCEPTIONS: Exceptions = {
  ...SCRIPT,
  'parallel.strategy': ({ config: { parallel } }) => {
    const { isHybrid, zeroStage } = STRATEGIES[parallel.strategy];
    if (isGathered(parallel.strategy) && zeroStage === 2)
      return similar('is ZeRO-2: parameters are also whole between steps');
    return isHybrid ? AS_HPZ : null;
  },
  'parallel.communicationDataType': ofPrecision,
  gradScaler: ({ config }) => {
    if (!usesFloat16(config)) return leftOut('nothing is float16, so a scale changes no value');
    const scaler = gradScalerOf(config);
    return scaler === null || (scaler.growthFactor === 2 && scaler.backoffFactor === 0.5)
      ? null
      : similar("DeepSpeed's factors are 2 and 0.5");
  },
  'offload.optimizer': ({ config: { parallel } }) =>
    STRATEGIES[parallel.strategy].zeroStage === 0 ? NOTHING_TO_OFFLOAD : null,
  'offload.parameters': onlyStage3,
};

/** A hybrid strategy in DeepSpeed. */
export const AS_HPZ = similar(
  'is ZeRO-3 with zero_hpz_partition_size: parameters are gathered within a group, all other states are sharded over all ranks',
);
