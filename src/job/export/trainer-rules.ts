import { gradScalerOf, usesFloat16 } from '../../config/settings/precision';
import { ENDING } from '../../config/settings/schedule';
import { STRATEGIES } from '../../config/strategies';
import { ConfigError } from '../../core/errors';
import { isByDeepSpeed } from './accelerate-files';
import {
  ANYWHERE,
  left,
  OWN_DATA_RULE,
  OWN_SEED_RULE,
  other,
  type Rules,
  reducedIn,
  refused,
  replicasRule,
  trainerReduction,
} from './common-rules';
import { MEGATRON_RULES } from './megatron-rules';
import { MODEL_FOLDER, modelSource } from './model-folder';
import { exportedToPeft } from './peft-targets';
import { DEEPSPEED_RULES, wrapRule } from './script-rules';
import { isByMegatron } from './swift-files';
import type { BundleFacts, Rule, Said } from './target';

const BY_SWIFT = refused("LLaMA-Factory's Trainer divides no model; export it to 'swift', which has it");

function modelRule(facts: BundleFacts): Said {
  return modelSource(facts) === MODEL_FOLDER
    ? other('is in the folder model/, in the format of Hugging Face; its sizes are in model/config.json')
    : other('has the published weights; the bundle sets the length of sequences');
}

const reductionRule = (facts: BundleFacts): Said => reducedIn(trainerReduction(facts), facts);

function scheduleRule({ config: { schedule, steps } }: BundleFacts): Said {
  if (schedule === null) return 'said';
  const { kind, maxSteps = steps, etaMin } = schedule;
  if (kind === 'step' || kind === 'exponential')
    return refused(`transformers has no schedule '${kind}'; use linear, cosine or wsd`);
  if (ENDING.includes(kind) && maxSteps !== steps)
    return refused(
      `transformers' schedules end with the run, but maxSteps ${maxSteps} differs from steps ${steps}; leave maxSteps out`,
    );
  if (kind === 'linear' && etaMin > 0)
    return refused(`transformers' linear schedule falls to 0, not to etaMin ${etaMin}; use cosine`);
  return kind === 'WarmupCosineLR' ? other('is cosine, which ends one step later') : 'said';
}

/** Rules for the arguments of transformers' Trainer, which swift sft and LLaMA-Factory use. */
const TRAINER = {
  ...ANYWHERE,
  model: modelRule,
  'parallel.reshardAfterForward': ({ config }: BundleFacts): Said =>
    typeof config.parallel.reshardAfterForward === 'number'
      ? other('true: parameters are freed after forward and gathered from all ranks of the shard group')
      : other('is reshard_after_forward of FSDP, which is part of the strategy here'),
  'parallel.wrap': wrapRule,
  'parallel.bucketBytes': left("the framework's default size of buckets is used"),
  'parallel.noSync': left('the Trainer reduces gradients after the last microbatch: the same values'),
  'parallel.communicationDataType': reductionRule,
  'parallel.schedule': left('without parallel.pp, it has no effect'),
  'parallel.virtualStages': left('without parallel.pp, it has no effect'),
  'parallel.microbatches': left('without parallel.pp, it has no effect'),
  'parallel.stageSplit': left('without parallel.pp, it has no effect'),
  'parallel.sequenceParallel': left('without parallel.tp, it has no effect'),
  'mixedPrecision.paramDtype': reductionRule,
  'mixedPrecision.reduceDtype': reductionRule,
  'mixedPrecision.outputDtype': left("outputs have the Trainer's type"),
  'mixedPrecision.castForwardInputs': left('inputs are converted as the Trainer does by default'),
  gradScaler: ({ config }: BundleFacts): Said => {
    if (!usesFloat16(config)) return left('nothing is float16, so a scale changes no value');
    return gradScalerOf(config) === null
      ? refused('float16 without a scaler of the loss is not in the Trainer; leave gradScaler out')
      : other("is torch's GradScaler with its defaults");
  },
  activationCheckpointing: ({ config: { activationCheckpointing: chosen } }: BundleFacts): Said =>
    chosen === 'full' || chosen === null
      ? 'said'
      : other("is 'full': more is computed again, and less is stored"),
  data: OWN_DATA_RULE,
  'optimizer.kind': ({ config: { optimizer } }: BundleFacts): Said =>
    optimizer.kind === 'adam' ? refused('transformers has no adam; use adamW with weightDecay 0') : 'said',
  'optimizer.momentum': ({ config: { optimizer } }: BundleFacts): Said =>
    optimizer.kind === 'sgd'
      ? refused("transformers' sgd has no momentum; leave it out")
      : left('only sgd reads it'),
  'optimizer.amsgrad': refused('transformers has no amsgrad; leave it out'),
  'optimizer.nesterov': refused("transformers' sgd has no nesterov; leave it out"),
  'optimizer.maximize': refused('transformers only minimizes; leave it out'),
  schedule: scheduleRule,
  frozen: refused(
    'modules have other names in this program; leave it out, and add freeze_parameters (swift) or freeze_trainable_layers (LLaMA-Factory) to the bundle',
  ),
  lora: adapterRule,
  seed: OWN_SEED_RULE,
} as const satisfies Partial<Rules>;

/** The rule of adapters. PEFT stops for layers that the model does not have. */
function adapterRule(facts: BundleFacts): Said {
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

/** The rule of offload.parameters. The setting has no effect without sharded parameters. */
const ofSharded: Rule = ({ config }) =>
  STRATEGIES[config.parallel.strategy].shardedAtRest.includes('parameter')
    ? 'said'
    : left('only sharded parameters are offloaded');

/** Rules of swift sft. */
const SWIFT_SFT: Rules = {
  ...TRAINER,
  'parallel.strategy': ({ config }) =>
    STRATEGIES[config.parallel.strategy].isHybrid
      ? other(
          'is ZeRO-3 with zero_hpz_partition_size: parameters are gathered within a group, all other states are sharded over all ranks',
        )
      : 'said',
  'parallel.mesh': other('is zero_hpz_partition_size, the number of ranks in a group'),
  'parallel.tp': 'said',
  'parallel.pp': 'said',
  'parallel.cp': ({ config }) =>
    config.parallel.cpKind === 'ulysses'
      ? 'said'
      : other('is Ulysses, or a ring if the heads do not suffice'),
  'parallel.cpKind': ({ config }) =>
    config.parallel.cp > 1
      ? other('is Ulysses, or a ring if the heads do not suffice')
      : left('without parallel.cp, it has no effect'),
  'offload.optimizer': ({ config }) =>
    config.parallel.strategy === 'ZERO_2'
      ? 'said'
      : left("optimizer states stay on the GPU; swift's own setting zero2_offload moves them"),
  'offload.parameters': ofSharded,
};

/** Rules of megatron sft, which has Megatron-LM's arguments. */
const MEGATRON_SFT: Rules = {
  ...MEGATRON_RULES,
  model: modelRule,
  'parallel.strategy': ({ config }) => {
    const { strategy } = config.parallel;
    if (STRATEGIES[strategy].isHybrid)
      return refused('Megatron-FSDP has no hybrid strategy by arguments; use FULL_SHARD or ZERO_1');
    return strategy === 'SHARD_GRAD_OP' ? other('is ZERO_2: parameters are whole between steps too') : 'said';
  },
  gradScaler: ({ config }) =>
    usesFloat16(config)
      ? other("is Megatron-LM's scaler with its defaults")
      : left('nothing is float16, so a scale changes no value'),
  data: OWN_DATA_RULE,
  seed: OWN_SEED_RULE,
};

/** Rules of swift, which trains by `swift sft` or by `megatron sft`. */
export const SWIFT_RULES = Object.fromEntries(
  Object.keys(SWIFT_SFT).map((key) => {
    const path = key as keyof Rules; // the rules' keys are the paths of settings
    const rule: Rule = (facts) => {
      if (path === 'model' && facts.shape.kind === 'gpt')
        return refused("swift has no GPT-2; use a llama, or export to 'llamafactory'");
      const asked: Rule = (isByMegatron(facts) ? MEGATRON_SFT : SWIFT_SFT)[path];
      return typeof asked === 'function' ? asked(facts) : asked;
    };
    return [path, rule];
  }),
) as Rules; // every path has a rule

/** Rules of LLaMA-Factory's YAML. */
export const LLAMA_FACTORY_RULES: Rules = {
  ...TRAINER,
  'parallel.strategy': replicasRule,
  'parallel.mesh': 'said',
  'parallel.tp': BY_SWIFT,
  'parallel.pp': BY_SWIFT,
  'parallel.cp': BY_SWIFT,
  'parallel.cpKind': left('without parallel.cp, it has no effect'),
  'parallel.communicationDataType': byDeepSpeed('parallel.communicationDataType', reductionRule),
  'mixedPrecision.paramDtype': byDeepSpeed('mixedPrecision.paramDtype', reductionRule),
  'mixedPrecision.reduceDtype': byDeepSpeed('mixedPrecision.reduceDtype', reductionRule),
  'offload.optimizer': byDeepSpeed(
    'offload.optimizer',
    left('optimizer states stay on the GPU; offload.parameters moves them too'),
  ),
  'offload.parameters': ofSharded,
};

/** Returns a rule: DeepSpeed's rule of the setting if ds_config.json is part of the bundle, else `otherwise`. */
function byDeepSpeed(path: keyof Rules, otherwise: Rule): Rule {
  return (facts) => {
    const rule: Rule = isByDeepSpeed(facts) ? DEEPSPEED_RULES[path] : otherwise;
    return typeof rule === 'function' ? rule(facts) : rule;
  };
}
