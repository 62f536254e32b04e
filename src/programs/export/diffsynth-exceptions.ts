import { STRATEGIES } from '../../config';
import { ConfigError } from '../../core';
import { releaseIn } from './diffsynth-files';
import { inexpressible, leftOut, onlyOptimizers, similar } from './rules';
import { onlyScaled } from './script-exceptions';
import type { BundleFacts, Exceptions, Treatment } from './target';

/** The exception of a model: DiffSynth-Studio loads the releases of Wan only. */
function onlyReleases(facts: BundleFacts): Treatment {
  try {
    return similar(`has the published weights of ${releaseIn(facts).release.hub}`);
  } catch (error) {
    if (error instanceof ConfigError) return { refused: error.message, namesOthers: true };
    throw error;
  }
}

/** The exception of the text encoder, which DiffSynth-Studio loads for every release. */
function wholeEncoder({ config: { textEncoder, parallel } }: BundleFacts): Treatment {
  if (textEncoder === null) return similar('DiffSynth-Studio loads UMT5-XXL in any case');
  if (textEncoder.model !== 'umt5-xxl-encoder')
    return inexpressible("Wan's text encoder is UMT5-XXL; write textEncoder: { model: 'umt5-xxl-encoder' }");
  const isPartitioned = STRATEGIES[parallel.strategy].zeroStage === 3;
  if (textEncoder.fsdp === isPartitioned) return 'said';
  return isPartitioned
    ? similar('stage 3 shards the text encoder too: the same values, with less memory')
    : similar('each GPU has the whole text encoder: the same values, with more memory');
}

function strategy({ config: { parallel } }: BundleFacts): Treatment | null {
  const { isHybrid, zeroStage } = STRATEGIES[parallel.strategy];
  if (isHybrid)
    return inexpressible(
      "Accelerate's YAML has no hybrid strategy for DeepSpeed; use FULL_SHARD, ZERO_2 or NO_SHARD",
    );
  return zeroStage === 2 && parallel.strategy !== 'ZERO_2'
    ? similar('is ZeRO-2: parameters are also whole between steps')
    : null;
}

const BF16 = similar('DiffSynth-Studio loads all weights in bfloat16, and gradients are bfloat16 too');

/** Exceptions of DiffSynth-Studio under Accelerate; its script and its scheduler decide much that is a setting here. */
export const DIFFSYNTH_EXCEPTIONS: Exceptions = {
  model: onlyReleases,
  textEncoder: wholeEncoder,
  data: similar('the videos and captions of --dataset_base_path'),
  movingShapes: leftOut('the videos are those of --dataset_base_path'),
  seed: similar('DiffSynth-Studio has no argument for the seed, so each run draws other noise'),
  steps: similar('--num_epochs, --dataset_repeat and the number of videos decide'),
  batch: ({ config }) =>
    config.batch === 1
      ? 'said'
      : inexpressible('DiffSynth-Studio trains one video per GPU and pass; write batch 1 and accumulation'),
  'parallel.strategy': strategy,
  'parallel.wrap': leftOut('DeepSpeed and DDP have no units'),
  'mixedPrecision.paramDtype': ({ config }) =>
    config.mixedPrecision?.paramDtype === 'bfloat16' ? 'said' : BF16,
  'mixedPrecision.reduceDtype': ({ config }) =>
    (config.mixedPrecision?.reduceDtype ?? 'bfloat16') === 'bfloat16' ? 'said' : BF16,
  'mixedPrecision.outputDtype': BF16,
  'mixedPrecision.castForwardInputs': BF16,
  'mixedPrecision.keepLowPrecisionGrads': BF16,
  gradScaler: onlyScaled('DiffSynth-Studio', null),
  activationCheckpointing: ({ config }) =>
    config.activationCheckpointing === 'full'
      ? 'said'
      : similar("is 'full': DiffSynth-Studio recomputes all blocks in any case"),
  'offload.optimizer': ({ config: { parallel, offload } }) =>
    STRATEGIES[parallel.strategy].zeroStage === 0 && !offload.parameters
      ? leftOut('without DeepSpeed, the optimizer is offloaded together with the parameters only')
      : null,
  'offload.parameters': ({ config: { parallel } }) => {
    const { zeroStage } = STRATEGIES[parallel.strategy];
    return zeroStage === 1 || zeroStage === 2 ? leftOut('only stage 3 offloads parameters') : null;
  },
  clipNorm: ({ config: { parallel, clipNorm } }) =>
    clipNorm !== null && STRATEGIES[parallel.strategy].zeroStage === 0
      ? inexpressible('DiffSynth-Studio clips under DeepSpeed only; write clipNorm null, or a ZeRO stage')
      : null,
  'optimizer.kind': onlyOptimizers('DiffSynth-Studio', 'adamW'),
  schedule: inexpressible('DiffSynth-Studio has a scheduler of its own; leave schedule out'),
  lora: ({ config: { lora } }) => {
    if (lora === null) return null;
    if (lora.targets === 'all-linear')
      return inexpressible(
        "write the names of the layers as lora.targets: ['q', 'k', 'v', 'o', 'ffn.0', 'ffn.2']",
      );
    return lora.alpha === lora.r && lora.dropout === 0 && !lora.useDora
      ? 'said'
      : inexpressible('DiffSynth-Studio has adapters with alpha = r, without dropout and DoRA');
  },
};

/** Returns sentences about what DiffSynth-Studio does otherwise. */
export function diffSynthNotes({ config }: BundleFacts): readonly string[] {
  const isDDP = STRATEGIES[config.parallel.strategy].zeroStage === 0;
  return [
    'It has no argument for the seed, and --num_epochs, --dataset_repeat and the number of videos give the number of steps.',
    "Its scheduler is torch's ConstantLR: the first steps have a third of the learning rate.",
    'It draws timesteps that are shifted towards noise, and weights their losses; timesteps are drawn uniformly here.',
    'It saves weights without the states of the optimizer, so a training cannot continue in the middle.',
    'It loads UMT5-XXL and the VAE on each GPU, and encodes each video in each step.',
    ...(config.mixedPrecision === null ? ['It loads all weights in bfloat16.'] : []),
    ...(isDDP && config.clipNorm !== null ? ['It does not clip gradients without DeepSpeed.'] : []),
    'launch_N.sh changes into the folder of this bundle: relative paths begin there.',
  ];
}
