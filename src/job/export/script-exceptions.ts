import type { SettingPath } from '../../config/setting-table';
import { type FloatDType, gradScalerOf, usesFloat16 } from '../../config/settings/precision';
import { STRATEGIES } from '../../config/strategies';
import {
  alwaysReducedIn,
  left,
  onlyAllShards,
  onlyDivisorsOfHeads,
  onlyMeshes,
  onlyNamedUnits,
  onlyOptimizers,
  onlyRecompute,
  other,
  refused,
} from './rules';
import type { BundleFacts, Exceptions, Rules, Said } from './target';

/** The settings that every train.py has. */
const IN_SCRIPTS: readonly SettingPath[] = [
  'model',
  'parallel.strategy',
  'parallel.mesh',
  'mixedPrecision.paramDtype',
  'activationCheckpointing',
  'data',
  'batch',
  'accumulation',
  'optimizer.kind',
  'optimizer.lr',
  'optimizer.betas',
  'optimizer.eps',
  'optimizer.weightDecay',
  'optimizer.momentum',
  'optimizer.amsgrad',
  'optimizer.nesterov',
  'optimizer.maximize',
  'schedule',
  'frozen',
  'clipNorm',
  'steps',
];

const SCRIPT: Exceptions = {
  activationCheckpointing: onlyRecompute('full', 'everyNth'),
  'optimizer.kind': onlyOptimizers('torch.optim', 'adamW', 'adam', 'sgd'),
  seed: left('this seed made the weights and the batches of the bundle; train.py draws no random numbers'),
};

/** Returns an exception of a setting of fully_shard, which DDP and ZeroRedundancyOptimizer do not have. */
const notInDDP =
  (ddp: Said) =>
  ({ config }: BundleFacts): Said | null =>
    STRATEGIES[config.parallel.strategy].shardedAtRest.includes('gradient') ? null : ddp;

/** The exception of ZERO_2, which is fully_shard in PyTorch: a setting of sharded parameters has an effect there. */
const ofFullyShard = ({ config }: BundleFacts): Said | null =>
  config.parallel.strategy === 'ZERO_2' ? 'said' : null;

const ROUNDED_BY_AUTOCAST = notInDDP(
  left('DDP reduces float32 gradients, and rounds only within torch.autocast'),
);

/** Rules of torchrun, slurm and kubernetes, which have the same train.py. */
export const TORCH_RULES: Rules = {
  writes: [
    ...IN_SCRIPTS,
    'parallel.reshardAfterForward',
    'parallel.wrap',
    'parallel.bucketBytes',
    'parallel.noSync',
    'parallel.communicationDataType',
    'parallel.tp',
    'mixedPrecision.reduceDtype',
    'mixedPrecision.outputDtype',
    'mixedPrecision.castForwardInputs',
    'offload.parameters',
  ],
  except: {
    ...SCRIPT,
    'parallel.strategy': (facts) => {
      const { strategy, tp } = facts.config.parallel;
      if (tp > 1 && !STRATEGIES[strategy].shardedAtRest.includes('gradient'))
        return refused(
          `${strategy} with parallel.tp ${tp} is not in train.py; use FULL_SHARD or SHARD_GRAD_OP`,
        );
      return strategy === 'ZERO_2'
        ? other(
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
        ? refused(
            "float16 needs a scaler of the loss, which fully_shard does not have; use 'bf16', or export to 'deepspeed'",
          )
        : notInDDP(other('is torch.autocast: matmuls in this type, parameters and gradients in float32'))(
            facts,
          ),
    'mixedPrecision.reduceDtype': ROUNDED_BY_AUTOCAST,
    'mixedPrecision.outputDtype': ROUNDED_BY_AUTOCAST,
    'mixedPrecision.castForwardInputs': ROUNDED_BY_AUTOCAST,
  },
};

/**
 * Returns the type in which Accelerate and transformers' Trainer reduce gradients: the parameters' type if these are sharded,
 * else float32, because gradients are float32 under torch.autocast.
 */
export function trainerReduction({ config }: BundleFacts): FloatDType {
  return config.parallel.strategy === 'NO_SHARD'
    ? 'float32'
    : (config.mixedPrecision?.paramDtype ?? 'float32');
}

/** Returns the exception of float16 without a scaler, which `program` always has. */
export function onlyScaled(program: string, scaled: Said | null) {
  return ({ config }: BundleFacts): Said | null => {
    if (!usesFloat16(config)) return left('nothing is float16, so a scale changes no value');
    return gradScalerOf(config) === null
      ? refused(`float16 without a scaler of the loss is not in ${program}; leave gradScaler out`)
      : scaled;
  };
}

/** Rules of Accelerate, which trains by FSDP or by DeepSpeed. */
export const ACCELERATE_RULES: Rules = {
  writes: [
    ...IN_SCRIPTS,
    'parallel.reshardAfterForward',
    'parallel.wrap',
    'gradScaler',
    'offload.parameters',
  ],
  except: {
    ...SCRIPT,
    ...alwaysReducedIn(trainerReduction),
    'parallel.strategy': onlyMeshes,
    'parallel.reshardAfterForward': onlyAllShards,
    'parallel.wrap': onlyNamedUnits,
    gradScaler: onlyScaled('Accelerate', null),
  },
};

/** The exception of parameters on the host in DeepSpeed. */
export function onlyStage3({ config: { parallel } }: BundleFacts): Said | null {
  const { strategy } = parallel;
  if (strategy === 'NO_SHARD') return left('stage 0 offloads nothing');
  return STRATEGIES[strategy].shardedAtRest.includes('parameter') && strategy !== 'SHARD_GRAD_OP'
    ? null
    : other('is offload of the optimizer: only stage 3 offloads parameters');
}

/** The exception of a dtype on the wire, which ds_config.json has only beside a precision. */
export function ofPrecision({ config }: BundleFacts): Said | null {
  return config.mixedPrecision === null ? left('gradients are reduced in float32') : null;
}

/** Rules of Accelerate whose JSON of DeepSpeed has the types of gradients and the offload. */
export const ACCELERATE_DEEPSPEED_RULES: Rules = {
  writes: [
    ...ACCELERATE_RULES.writes,
    'parallel.communicationDataType',
    'mixedPrecision.reduceDtype',
    'offload.optimizer',
  ],
  except: {
    ...SCRIPT,
    'parallel.strategy': other('Accelerate uses DeepSpeed, with the settings in ds_config.json'),
    'offload.parameters': onlyStage3,
    'parallel.communicationDataType': ofPrecision,
    gradScaler: onlyScaled('Accelerate', null),
  },
};

/** Rules of DeepSpeed. */
export const DEEPSPEED_RULES: Rules = {
  writes: [
    ...IN_SCRIPTS,
    'parallel.communicationDataType',
    'mixedPrecision.reduceDtype',
    'gradScaler',
    'offload.optimizer',
    'offload.parameters',
  ],
  except: {
    ...SCRIPT,
    'parallel.strategy': ({ config: { parallel } }) => {
      if (parallel.strategy === 'SHARD_GRAD_OP')
        return other('is ZeRO-2: parameters are also whole between steps');
      return STRATEGIES[parallel.strategy].isHybrid ? AS_HPZ : null;
    },
    'parallel.communicationDataType': ofPrecision,
    gradScaler: ({ config }) => {
      if (!usesFloat16(config)) return left('nothing is float16, so a scale changes no value');
      const scaler = gradScalerOf(config);
      return scaler === null || (scaler.growthFactor === 2 && scaler.backoffFactor === 0.5)
        ? null
        : other("DeepSpeed's factors are 2 and 0.5");
    },
    'offload.optimizer': ({ config }) =>
      config.parallel.strategy === 'NO_SHARD' ? left('stage 0 offloads nothing') : null,
    'offload.parameters': onlyStage3,
  },
};

/** A hybrid strategy in DeepSpeed. */
export const AS_HPZ = other(
  'is ZeRO-3 with zero_hpz_partition_size: parameters are gathered within a group, all other states are sharded over all ranks',
);
