import {
  dataRanksOf,
  ENDING,
  isGathered,
  isSharded,
  STRATEGIES,
  usesFloat16,
  virtualStagesOf,
} from '../../config';
import { ConfigError } from '../../core';
import { layersPerStage } from '../trainers/torchtitan-parallel';
import { isByDeepSpeed } from './accelerate-files';
import { MODEL_FOLDER, modelSource } from './model-folder';
import { exportedToPeft } from './peft-targets';
import {
  left,
  OWN_BATCHES,
  onlyAllShards,
  onlyDivisorsOfHeads,
  onlyMeshes,
  onlyNamedUnits,
  onlyOptimizers,
  onlyRecompute,
  onlySchedules,
  other,
  reducedIn,
  refused,
} from './rules';
import { AS_HPZ, ofPrecision, onlyScaled, onlyStage3, trainerReduction } from './script-exceptions';
import { isByMegatron } from './swift-files';
import { type BundleFacts, type Exceptions, exportedOf, type Said, worldOf } from './target';
import { flavorOf } from './torchtitan-files';

/** Returns what FSDP2 excludes. Source: the checks of --use-torch-fsdp2 in Megatron-LM's megatron/training/arguments.py. */
function megatronStrategy({ config: { parallel, mixedPrecision }, shape }: BundleFacts): Said | null {
  const { strategy, tp, cp, pp } = parallel;
  if (STRATEGIES[strategy].isHybrid)
    return refused('Megatron-LM has no hybrid strategy by flags; use FULL_SHARD or ZERO_1');
  if (!isGathered(strategy))
    return isSharded(strategy, 'gradient')
      ? refused('Megatron-LM shards optimizer states alone or all states; use ZERO_1 or FULL_SHARD')
      : null;
  const obstacles = [
    ...(tp * cp * pp > 1 ? ['parallel.tp, cp and pp'] : []),
    ...(shape.tied ? ['model.tied true'] : []),
    ...(mixedPrecision?.paramDtype === 'float16' ? ['float16'] : []),
  ];
  return obstacles.length > 0
    ? refused(`${strategy} is Megatron-LM's FSDP2, which excludes ${obstacles.join(', ')}; use ZERO_1`)
    : other('is --use-torch-fsdp2, whose units are layers');
}

/** The exception of a schedule of a pipeline's stages in the place of which a program has 1F1B. */
const as1F1B =
  (...schedules: readonly string[]) =>
  ({ config: { parallel } }: BundleFacts): Said | null =>
    parallel.pp > 1 && schedules.includes(parallel.schedule)
      ? other('is 1F1B: the same values, in another order')
      : null;

const REDUCED_IN_FLOAT32 = reducedIn(() => 'float32');

/** Exceptions of Megatron-LM, which has its own training script, batches and initial values. */
export const MEGATRON_EXCEPTIONS: Exceptions = {
  'mixedPrecision.paramDtype': REDUCED_IN_FLOAT32,
  'mixedPrecision.reduceDtype': REDUCED_IN_FLOAT32,
  'parallel.strategy': megatronStrategy,
  'parallel.schedule': as1F1B('gpipe', 'zb'),
  accumulation: ({ config: { parallel } }) =>
    parallel.pp === 1 ? null : other('the pipeline runs the microbatches of all passes as one pass'),
  activationCheckpointing: ({ config: { activationCheckpointing: chosen } }) => {
    if (typeof chosen !== 'object' || chosen === null) return null;
    return 'everyNth' in chosen
      ? other("is 'full': every layer runs again")
      : other("is 'selective': attention runs again");
  },
  data: other(
    'the tokens of the first steps are a data set; Megatron-LM chooses its rows by a seed of its own',
  ),
  'optimizer.kind': onlyOptimizers('Megatron-LM', 'adamW', 'sgd'),
  schedule: onlySchedules('Megatron-LM'),
  seed: other('is the seed of other initial values and another order of rows'),
};

function titanModel({ shape, config }: BundleFacts): Said {
  if (shape.kind !== 'llama')
    return refused("TorchTitan has no model of kind 'gpt'; use a llama, or export to 'torchrun'");
  if (shape.tied) return refused("TorchTitan's Llama 3 has an output layer of its own; use tied false");
  if (shape.qkvBias) return refused("TorchTitan's Llama 3 has no qkvBias; export to 'swift'");
  return flavorOf({ config }) === undefined
    ? other('is in exported_model.py, which train.toml imports; its parameters are in the folder model/')
    : 'said';
}

function titanStrategy(facts: BundleFacts): Said | null {
  const { tp, cp, pp, strategy } = facts.config.parallel;
  const ranks = dataRanksOf(facts.config, worldOf(facts));
  if (!isSharded(strategy, 'optimizer')) {
    if (cp > 1) return refused('TorchTitan shards over the ranks of parallel.cp; use FULL_SHARD');
    return ranks > 1 && tp * pp > 1
      ? refused("TorchTitan's DDP excludes parallel.tp and pp; use FULL_SHARD or SHARD_GRAD_OP")
      : null;
  }
  if (!isGathered(strategy))
    return other(
      'is fully_shard with fsdp_reshard_after_forward never, which shards parameters between steps too',
    );
  return ranks * cp === 1 ? other('is NO_SHARD: one rank has all shards') : onlyMeshes(facts);
}

/** The exception of stages of which train.toml cannot have the layers, or which its reader does not know. */
function titanStages(facts: BundleFacts): Said | null {
  const { parallel } = facts.config;
  if (parallel.pp === 1) return null;
  if (layersPerStage(exportedOf(facts)) === undefined)
    return refused(
      `TorchTitan gives all stages equally many layers, but ${facts.shape.layers} layers cannot be divided into ${parallel.pp * virtualStagesOf(parallel)} equal stages`,
    );
  // If train.toml names no published model, its reader does not know the number of layers, and assumes at most 2 stages per rank.
  return flavorOf(facts) !== undefined || virtualStagesOf(parallel) <= 2
    ? null
    : other(
        'is pipeline_parallel_layers_per_stage; shardlab does not read it back, because train.toml has no sizes',
      );
}

/** Exceptions of TorchTitan's TOML. */
export const TORCHTITAN_EXCEPTIONS: Exceptions = {
  ...OWN_BATCHES,
  'mixedPrecision.reduceDtype': REDUCED_IN_FLOAT32,
  model: titanModel,
  'parallel.strategy': titanStrategy,
  'parallel.mesh': ({ config: { parallel } }) =>
    parallel.mesh === null || !STRATEGIES[parallel.strategy].isHybrid
      ? null
      : parallel.mesh.dpShard % parallel.cp !== 0
        ? refused(
            `TorchTitan shards over the ranks of parallel.cp too, so dpShard ${parallel.mesh.dpShard} must be a multiple of parallel.cp ${parallel.cp}`,
          )
        : 'said',
  'parallel.reshardAfterForward': (facts) =>
    onlyAllShards(facts) ?? other('is fsdp_reshard_after_forward, which is part of the strategy here'),
  'parallel.tp': (facts) =>
    onlyDivisorsOfHeads(facts) ??
    (facts.config.parallel.sequenceParallel
      ? null
      : other('includes parallel.sequenceParallel, because TorchTitan always divides norms by positions')),
  'parallel.sequenceParallel': ({ config: { parallel } }) => (parallel.tp > 1 ? 'said' : null),
  'parallel.cpKind': ({ config: { parallel } }) =>
    parallel.cp > 1 && parallel.cpKind === 'ring' ? 'said' : null,
  'parallel.cp': ({ config: { parallel } }) =>
    parallel.cpKind === 'ring' ? null : other('is ring attention: the same values'),
  'parallel.pp': (facts) => {
    const stages = titanStages(facts);
    return stages !== null && 'refused' in Object(stages) ? stages : null;
  },
  'parallel.virtualStages': titanStages,
  'parallel.schedule': as1F1B('zb'),
  'mixedPrecision.paramDtype': (facts) =>
    usesFloat16(facts.config)
      ? refused("TorchTitan has no float16; use 'bf16', or export to 'deepspeed'")
      : REDUCED_IN_FLOAT32(facts),
  activationCheckpointing: onlyRecompute('full', 'selective', 'everyNth'),
  // Strategies that shard only some states are fully_shard there, which offloads what it shards.
  'offload.parameters': ({ config: { parallel } }) =>
    isSharded(parallel.strategy, 'optimizer') ? 'said' : null,
  'optimizer.kind': onlyOptimizers('TorchTitan', 'adamW', 'adam'),
  schedule: onlySchedules('TorchTitan'),
};

/** The exception of a model that a program reads from a folder or from a hub. */
function hubModel(facts: BundleFacts): Said {
  return modelSource(facts) === MODEL_FOLDER
    ? other('is in the folder model/, in the format of Hugging Face; its sizes are in model/config.json')
    : other('has the published weights; the bundle sets the length of sequences');
}

function trainerSchedule(facts: BundleFacts): Said | null {
  const { schedule, steps } = facts.config;
  if (schedule === null) return null;
  const { kind, maxSteps = steps, etaMin } = schedule;
  if (ENDING.includes(kind) && maxSteps !== steps)
    return refused(
      `transformers' schedules end with the run, but maxSteps ${maxSteps} differs from steps ${steps}; leave maxSteps out`,
    );
  if (kind === 'linear' && etaMin > 0)
    return refused(`transformers' linear schedule falls to 0, not to etaMin ${etaMin}; use cosine`);
  return onlySchedules('transformers')(facts);
}

/** The exception of adapters. PEFT stops for layers that the model does not have. */
function adapters(facts: BundleFacts): Said {
  try {
    exportedToPeft(facts);
  } catch (error) {
    if (error instanceof ConfigError) return refused(error.message);
    throw error;
  }
  return facts.shape.kind === 'gpt'
    ? other('names the layers as GPT-2 does, such as attn.c_attn for qkv')
    : 'said';
}

/** Exceptions of transformers' Trainer, which swift sft and LLaMA-Factory use. */
const TRAINER: Exceptions = {
  ...OWN_BATCHES,
  'mixedPrecision.paramDtype': reducedIn(trainerReduction),
  'mixedPrecision.reduceDtype': reducedIn(trainerReduction),
  model: hubModel,
  'parallel.reshardAfterForward': (facts) =>
    onlyAllShards(facts) ?? other('is reshard_after_forward of FSDP, which is part of the strategy here'),
  'parallel.wrap': onlyNamedUnits,
  'parallel.communicationDataType': reducedIn(trainerReduction),
  gradScaler: onlyScaled('the Trainer', other("is torch's GradScaler with its defaults")),
  activationCheckpointing: onlyRecompute('full'),
  'optimizer.kind': onlyOptimizers('transformers', 'adamW', 'adamW8bit', 'sgd', 'lion'),
  schedule: trainerSchedule,
  frozen: refused(
    'modules have other names in this program; leave it out, and add freeze_parameters (swift) or freeze_trainable_layers (LLaMA-Factory) to the bundle',
  ),
  lora: adapters,
};

const AS_ULYSSES = other('is Ulysses, or a ring if the heads do not suffice');

/** Returns the exceptions of swift, which trains by `swift sft` or by `megatron sft`. */
export function swiftExceptions(facts: BundleFacts): Exceptions {
  const { strategy } = facts.config.parallel;
  const { isHybrid, zeroStage } = STRATEGIES[strategy];
  const model =
    facts.shape.kind === 'gpt'
      ? refused("swift has no GPT-2; use a llama, or export to 'llamafactory'")
      : hubModel(facts);
  if (isByMegatron(facts)) {
    const isStageTwo = isGathered(strategy) && zeroStage === 2;
    return {
      ...MEGATRON_EXCEPTIONS,
      ...OWN_BATCHES,
      model,
      'parallel.strategy': isHybrid
        ? refused('Megatron-FSDP has no hybrid strategy by arguments; use FULL_SHARD or ZERO_1')
        : isStageTwo
          ? other('is ZERO_2: parameters are whole between steps too')
          : null,
      gradScaler: ({ config }) =>
        usesFloat16(config) ? other("is Megatron-LM's scaler with its defaults") : null,
    };
  }
  return {
    ...TRAINER,
    model,
    'parallel.strategy': isHybrid ? AS_HPZ : null,
    'parallel.mesh': isHybrid ? other('is zero_hpz_partition_size, the number of ranks in a group') : null,
    'parallel.cp': ({ config: { parallel } }) => (parallel.cpKind === 'ulysses' ? null : AS_ULYSSES),
    'parallel.cpKind': ({ config: { parallel } }) => (parallel.cp > 1 ? AS_ULYSSES : null),
    'offload.optimizer':
      isSharded(strategy, 'gradient') && !isGathered(strategy)
        ? 'said'
        : left("optimizer states stay on the GPU; swift's own setting zero2_offload moves them"),
  };
}

/** Returns the exceptions of LLaMA-Factory's YAML. DeepSpeed's JSON, if there is one, has the types of gradients and the offload. */
export const llamaFactoryExceptions = (facts: BundleFacts): Exceptions => ({
  ...TRAINER,
  'parallel.strategy': onlyMeshes,
  ...(isByDeepSpeed(facts) && {
    'parallel.communicationDataType': ofPrecision,
    'mixedPrecision.paramDtype': null,
    'mixedPrecision.reduceDtype': null,
    'offload.parameters': onlyStage3,
  }),
});
