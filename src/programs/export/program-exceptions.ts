import { ENDING, isGathered, isSharded, STRATEGIES, usesFloat16 } from '../../config';
import { ConfigError } from '../../core';
import { MODEL_FOLDER, modelSource } from './model-folder';
import { exportedToPeft } from './peft-targets';
import {
  inexpressible,
  leftOut,
  OWN_BATCHES,
  onlyAllShards,
  onlyNamedUnits,
  onlyOptimizers,
  onlyRecompute,
  onlySchedules,
  reducedIn,
  similar,
} from './rules';
import { AS_HPZ, onlyScaled, trainerReduction } from './script-exceptions';
import { isByMegatron } from './swift-files';
import { type BundleFacts, builtInShape, type Exceptions, type Treatment } from './target';

/** Returns what FSDP2 excludes. Source: the checks of --use-torch-fsdp2 in Megatron-LM's megatron/training/arguments.py. */
function megatronStrategy(facts: BundleFacts): Treatment | null {
  const { parallel, mixedPrecision } = facts.config;
  const shape = builtInShape(facts);
  const { strategy, tp, cp, pp } = parallel;
  if (STRATEGIES[strategy].isHybrid)
    return inexpressible('Megatron-LM has no hybrid strategy by flags; use FULL_SHARD or ZERO_1');
  if (!isGathered(strategy))
    return isSharded(strategy, 'gradient')
      ? inexpressible('Megatron-LM shards optimizer states alone or all states; use ZERO_1 or FULL_SHARD')
      : null;
  const obstacles = [
    ...(tp * cp * pp > 1 ? ['parallel.tp, cp and pp'] : []),
    ...(shape.tied ? ['model.tied true'] : []),
    ...(mixedPrecision?.paramDtype === 'float16' ? ['float16'] : []),
  ];
  return obstacles.length > 0
    ? inexpressible(`${strategy} is Megatron-LM's FSDP2, which excludes ${obstacles.join(', ')}; use ZERO_1`)
    : similar('is --use-torch-fsdp2, whose units are layers');
}

/** The exception of a schedule of a pipeline's stages in the place of which a program has 1F1B. */
export const as1F1B =
  (...schedules: readonly string[]) =>
  ({ config: { parallel } }: BundleFacts): Treatment | null =>
    parallel.pp > 1 && schedules.includes(parallel.schedule)
      ? similar('is 1F1B: the same values, in another order')
      : null;

const REDUCED_IN_FLOAT32 = reducedIn(() => 'float32');

/** Exceptions of Megatron-LM, which has its own training script, batches and initial values. */
export const MEGATRON_EXCEPTIONS: Exceptions = {
  'mixedPrecision.paramDtype': REDUCED_IN_FLOAT32,
  'mixedPrecision.reduceDtype': REDUCED_IN_FLOAT32,
  'parallel.strategy': megatronStrategy,
  'parallel.schedule': as1F1B('gpipe', 'zb'),
  accumulation: ({ config: { parallel } }) =>
    parallel.pp === 1 ? null : similar('the pipeline runs the microbatches of all passes as one pass'),
  activationCheckpointing: ({ config: { activationCheckpointing: chosen } }) => {
    if (typeof chosen !== 'object' || chosen === null) return null;
    return 'everyNth' in chosen
      ? similar("is 'full': every layer runs again")
      : similar("is 'selective': attention runs again");
  },
  data: similar(
    'the tokens of the first steps are a data set; Megatron-LM chooses its rows by a seed of its own',
  ),
  'optimizer.kind': onlyOptimizers('Megatron-LM', 'adamW', 'sgd'),
  schedule: onlySchedules('Megatron-LM'),
  seed: similar('is the seed of other initial values and another order of rows'),
};

/** The exception of a model that a program reads from a folder or from a hub. */
function hubModel(facts: BundleFacts): Treatment {
  return modelSource(facts) === MODEL_FOLDER
    ? similar('is in the folder model/, in the format of Hugging Face; its sizes are in model/config.json')
    : similar('has the published weights; the bundle sets the length of sequences');
}

function trainerSchedule(facts: BundleFacts): Treatment | null {
  const { schedule, steps } = facts.config;
  if (schedule === null) return null;
  const { kind, maxSteps = steps, etaMin } = schedule;
  if (ENDING.includes(kind) && maxSteps !== steps)
    return inexpressible(
      `transformers' schedules end with the run, but maxSteps ${maxSteps} differs from steps ${steps}; leave maxSteps out`,
    );
  if (kind === 'linear' && etaMin > 0)
    return inexpressible(`transformers' linear schedule falls to 0, not to etaMin ${etaMin}; use cosine`);
  return onlySchedules('transformers')(facts);
}

/** The exception of adapters. PEFT stops for layers that the model does not have. */
function adapters(facts: BundleFacts): Treatment {
  try {
    exportedToPeft(facts);
  } catch (error) {
    if (error instanceof ConfigError) return inexpressible(error.message);
    throw error;
  }
  return facts.shape.kind === 'gpt'
    ? similar('names the layers as GPT-2 does, such as attn.c_attn for qkv')
    : 'said';
}

/** Exceptions of programs with transformers' Trainer. */
export const TRAINER_EXCEPTIONS: Exceptions = {
  ...OWN_BATCHES,
  'mixedPrecision.paramDtype': reducedIn(trainerReduction),
  'mixedPrecision.reduceDtype': reducedIn(trainerReduction),
  model: hubModel,
  'parallel.reshardAfterForward': (facts) =>
    onlyAllShards(facts) ?? similar('is reshard_after_forward of FSDP, which is part of the strategy here'),
  'parallel.wrap': onlyNamedUnits,
  'parallel.communicationDataType': reducedIn(trainerReduction),
  gradScaler: onlyScaled('the Trainer', similar("is torch's GradScaler with its defaults")),
  activationCheckpointing: onlyRecompute('full'),
  'optimizer.kind': onlyOptimizers('transformers', 'adamW', 'adamW8bit', 'sgd', 'lion'),
  schedule: trainerSchedule,
  frozen: inexpressible(
    'modules have other names in this program; leave it out, and add freeze_parameters (swift) or freeze_trainable_layers (LLaMA-Factory) to the bundle',
  ),
  lora: adapters,
};

const AS_ULYSSES = similar('is Ulysses, or a ring if the heads do not suffice');

/** Returns the exceptions of swift, which trains by `swift sft` or by `megatron sft`. */
export function swiftExceptions(facts: BundleFacts): Exceptions {
  const { strategy } = facts.config.parallel;
  const { isHybrid, zeroStage } = STRATEGIES[strategy];
  const model =
    facts.shape.kind === 'gpt'
      ? { refused: 'swift has no GPT-2; use a llama', namesOthers: true }
      : hubModel(facts);
  if (isByMegatron(facts)) {
    const isStageTwo = isGathered(strategy) && zeroStage === 2;
    return {
      ...MEGATRON_EXCEPTIONS,
      ...OWN_BATCHES,
      model,
      'parallel.strategy': isHybrid
        ? inexpressible('Megatron-FSDP has no hybrid strategy by arguments; use FULL_SHARD or ZERO_1')
        : isStageTwo
          ? similar('is ZERO_2: parameters are whole between steps too')
          : null,
      gradScaler: ({ config }) =>
        usesFloat16(config) ? similar("is Megatron-LM's scaler with its defaults") : null,
    };
  }
  return {
    ...TRAINER_EXCEPTIONS,
    model,
    'parallel.strategy': isHybrid ? AS_HPZ : null,
    'parallel.mesh': isHybrid ? similar('is zero_hpz_partition_size, the number of ranks in a group') : null,
    'parallel.cp': ({ config: { parallel } }) => (parallel.cpKind === 'ulysses' ? null : AS_ULYSSES),
    'parallel.cpKind': ({ config: { parallel } }) => (parallel.cp > 1 ? AS_ULYSSES : null),
    'offload.optimizer':
      isSharded(strategy, 'gradient') && !isGathered(strategy)
        ? 'said'
        : leftOut("optimizer states stay on the GPU; swift's own setting zero2_offload moves them"),
  };
}
