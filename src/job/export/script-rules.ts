import { gradScalerOf, usesFloat16 } from '../../config/settings/precision';
import { STRATEGIES } from '../../config/strategies';
import { isByDeepSpeed } from './accelerate-files';
import {
  ANYWHERE,
  IN_SCRIPT,
  left,
  other,
  type Rules,
  reducedIn,
  refused,
  replicasRule,
  trainerReduction,
} from './common-rules';
import { isInTorch } from './script-parts';
import type { BundleFacts, Said } from './target';

const BY_MEGATRON = "export it to 'megatron', which has it";

/** Rules of all bundles that have a training script for PyTorch. */
const SCRIPT = {
  ...ANYWHERE,
  model: 'said',
  'parallel.sequenceParallel': refused(`sequence parallelism is not in train.py; ${BY_MEGATRON}`),
  'parallel.cp': refused(`context parallelism is not in train.py; ${BY_MEGATRON}`),
  'parallel.cpKind': left('without parallel.cp, it has no effect'),
  'parallel.pp': refused(`a pipeline is not in train.py; ${BY_MEGATRON}`),
  'parallel.schedule': left('without parallel.pp, it has no effect'),
  'parallel.virtualStages': left('without parallel.pp, it has no effect'),
  'parallel.microbatches': left('without parallel.pp, it has no effect'),
  'parallel.stageSplit': left('without parallel.pp, it has no effect'),
  'mixedPrecision.paramDtype': 'said',
  activationCheckpointing: ({ config: { activationCheckpointing: chosen } }: BundleFacts): Said =>
    chosen === 'full' || (typeof chosen === 'object' && chosen !== null && 'everyNth' in chosen)
      ? 'said'
      : other("is 'full': more is computed again, and less is stored"),
  data: 'said',
  'optimizer.kind': ({ config: { optimizer } }: BundleFacts): Said =>
    isInTorch(optimizer.kind)
      ? 'said'
      : refused(`torch.optim has no ${optimizer.kind}; use adamW, adam or sgd, or ${IN_SCRIPT}`),
  'optimizer.amsgrad': 'said',
  'optimizer.nesterov': 'said',
  'optimizer.maximize': 'said',
  schedule: 'said',
  frozen: 'said',
  seed: left('this seed made the weights and the batches of the bundle; train.py draws no random numbers'),
} as const satisfies Partial<Rules>;

const WITHOUT_TP = refused(
  "tensor parallelism is exported to 'torchrun', 'slurm', 'kubernetes' and 'megatron'",
);

/** Rules of torchrun, slurm and kubernetes, which have the same train.py. */
export const TORCH_RULES: Rules = {
  ...SCRIPT,
  'parallel.strategy': (facts) => {
    const { strategy, tp } = facts.config.parallel;
    if (tp > 1 && !STRATEGIES[strategy].shardedAtRest.includes('gradient'))
      return refused(
        `${strategy} with parallel.tp ${tp} is not in train.py; use FULL_SHARD or SHARD_GRAD_OP`,
      );
    if (strategy !== 'ZERO_2') return replicasRule(facts);
    return other(
      'PyTorch has no ZeRO-2: fully_shard with reshard_after_forward=False also shards parameters between steps',
    );
  },
  'parallel.mesh': 'said',
  'parallel.reshardAfterForward': 'said',
  'parallel.wrap': wrapRule,
  'parallel.bucketBytes': 'said',
  'parallel.noSync': 'said',
  'parallel.communicationDataType': inDDP('said'),
  'parallel.tp': ({ shape, config: { parallel } }) => {
    const kvHeads = shape.kind === 'llama' ? (shape.kvHeads ?? shape.heads) : shape.heads;
    return kvHeads % parallel.tp === 0
      ? 'said'
      : refused(`${parallel.tp} does not divide the ${kvHeads} heads of keys and values; use a divisor`);
  },
  'mixedPrecision.paramDtype': ({ config }) =>
    usesFloat16(config)
      ? refused(
          "float16 needs a scaler of the loss, which fully_shard does not have; use 'bf16', or export to 'deepspeed'",
        )
      : inDDP(
          'said',
          'is torch.autocast: matmuls in this type, parameters and gradients in float32',
        )({ config }),
  'mixedPrecision.reduceDtype': inDDP('said'),
  'mixedPrecision.outputDtype': inDDP('said'),
  'mixedPrecision.castForwardInputs': inDDP('said'),
  gradScaler: left('nothing is float16, so a scale changes no value'),
  'offload.optimizer': left('optimizer states stay on the GPU; offload.parameters moves them too'),
  'offload.parameters': 'said',
};

export function wrapRule({ config }: BundleFacts): Said {
  const { wrap } = config.parallel;
  return wrap === 'root' || wrap === 'linear' || wrap === 'blocks'
    ? 'said'
    : other('every block is a unit: the same values, with other memory and messages');
}

/** Returns a rule for a setting of fully_shard, which DDP and ZeroRedundancyOptimizer do not have. */
function inDDP(sharded: Said, ddp?: string) {
  return ({ config }: Pick<BundleFacts, 'config'>): Said => {
    if (STRATEGIES[config.parallel.strategy].shardedAtRest.includes('gradient')) return sharded;
    return ddp === undefined
      ? left('DDP reduces float32 gradients, and rounds only within torch.autocast')
      : other(ddp);
  };
}

/** The rule for the type of reduced gradients. ds_config.json contains this type; without this file, Accelerate chooses it. */
function reductionRule(facts: BundleFacts): Said {
  return isByDeepSpeed(facts) ? 'said' : reducedIn(trainerReduction(facts), facts);
}

/** Rules of Accelerate. */
export const ACCELERATE_RULES: Rules = {
  ...SCRIPT,
  'parallel.strategy': (facts) =>
    isByDeepSpeed(facts)
      ? other('Accelerate uses DeepSpeed, with the settings in ds_config.json')
      : replicasRule(facts),
  'parallel.mesh': 'said',
  'parallel.reshardAfterForward': ({ config }) =>
    typeof config.parallel.reshardAfterForward === 'number'
      ? other('true: parameters are freed after forward and gathered from all ranks of the shard group')
      : 'said',
  'parallel.wrap': wrapRule,
  'parallel.bucketBytes': left("DDP's default size of buckets is used"),
  'parallel.noSync': left('Accelerate reduces gradients after the last microbatch: the same values'),
  'parallel.communicationDataType': left('gradients are reduced in the type of mixed_precision'),
  'parallel.tp': WITHOUT_TP,
  'mixedPrecision.paramDtype': reductionRule,
  'mixedPrecision.reduceDtype': reductionRule,
  'mixedPrecision.outputDtype': left("outputs have Accelerate's type"),
  'mixedPrecision.castForwardInputs': left('inputs are converted as Accelerate does by default'),
  gradScaler: ({ config }) => {
    if (!usesFloat16(config)) return left('nothing is float16, so a scale changes no value');
    return gradScalerOf(config) === null
      ? refused('float16 without a scaler of the loss is not in Accelerate; leave gradScaler out')
      : 'said';
  },
  'offload.optimizer': ({ config }) =>
    config.parallel.strategy === 'ZERO_1' || config.parallel.strategy === 'ZERO_2'
      ? 'said'
      : left('optimizer states stay on the GPU; offload.parameters moves them too'),
  'offload.parameters': 'said',
};

/** Rules of DeepSpeed. */
export const DEEPSPEED_RULES: Rules = {
  ...SCRIPT,
  'parallel.strategy': ({ config }) => {
    const { strategy } = config.parallel;
    if (strategy === 'SHARD_GRAD_OP') return other('is ZeRO-2: parameters are also whole between steps');
    if (STRATEGIES[strategy].isHybrid)
      return other(
        'is ZeRO-3 with zero_hpz_partition_size: parameters are gathered within a group, all other states are sharded over all ranks',
      );
    return 'said';
  },
  'parallel.mesh': 'said',
  'parallel.reshardAfterForward': left("DeepSpeed's stage decides"),
  'parallel.wrap': left('DeepSpeed gathers parameters module by module'),
  'parallel.bucketBytes': left("DeepSpeed's default size of buckets is used"),
  'parallel.noSync': left("DeepSpeed's stage decides when gradients are reduced: the same values"),
  'parallel.communicationDataType': ({ config }) =>
    config.mixedPrecision === null ? left('gradients are reduced in float32') : 'said',
  'parallel.tp': WITHOUT_TP,
  'mixedPrecision.reduceDtype': 'said',
  'mixedPrecision.outputDtype': left('outputs are not rounded'),
  'mixedPrecision.castForwardInputs': left('the model is converted as a whole'),
  gradScaler: ({ config }) => {
    const scaler = gradScalerOf(config);
    if (!usesFloat16(config)) return left('nothing is float16, so a scale changes no value');
    return scaler === null || (scaler.growthFactor === 2 && scaler.backoffFactor === 0.5)
      ? 'said'
      : other("DeepSpeed's factors are 2 and 0.5");
  },
  'offload.optimizer': ({ config }) =>
    config.parallel.strategy === 'NO_SHARD' ? left('stage 0 offloads nothing') : 'said',
  'offload.parameters': ({ config }) =>
    STRATEGIES[config.parallel.strategy].shardedAtRest.includes('parameter') &&
    config.parallel.strategy !== 'SHARD_GRAD_OP'
      ? 'said'
      : other('is offload of the optimizer: only stage 3 offloads parameters'),
};
