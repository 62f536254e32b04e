import { dataRanksOf } from '../../config/settings/model-parallel';
import { virtualStagesOf } from '../../config/settings/pipeline';
import { usesFloat16 } from '../../config/settings/precision';
import { STRATEGIES } from '../../config/strategies';
import { layersPerStage } from '../../dialects/trainers/torchtitan-parallel';
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
} from './common-rules';
import { type BundleFacts, exportedOf, type Said, worldOf } from './target';
import { flavorOf } from './torchtitan-files';

const NO_STAGES = left('without parallel.pp, it has no effect');

function modelRule({ shape, config }: BundleFacts): Said {
  if (shape.kind !== 'llama')
    return refused("TorchTitan has no model of kind 'gpt'; use a llama, or export to 'torchrun'");
  if (shape.tied) return refused("TorchTitan's Llama 3 has an output layer of its own; use tied false");
  if (shape.qkvBias) return refused("TorchTitan's Llama 3 has no qkvBias; export to 'swift'");
  return flavorOf({ config }) === undefined
    ? other('is in exported_model.py, which train.toml imports; its parameters are in the folder model/')
    : 'said';
}

function strategyRule(facts: BundleFacts): Said {
  const { tp, cp, pp, strategy } = facts.config.parallel;
  const ranks = dataRanksOf(facts.config, worldOf(facts));
  if (strategy === 'NO_SHARD') {
    if (cp > 1) return refused('TorchTitan shards over the ranks of parallel.cp; use FULL_SHARD');
    return ranks > 1 && tp * pp > 1
      ? refused("TorchTitan's DDP excludes parallel.tp and pp; use FULL_SHARD or SHARD_GRAD_OP")
      : 'said';
  }
  if (strategy === 'ZERO_1' || strategy === 'ZERO_2')
    return other(
      'is fully_shard with fsdp_reshard_after_forward never, which shards parameters between steps too',
    );
  if (ranks * cp === 1) return other('is NO_SHARD: one rank has all shards');
  return replicasRule(facts);
}

function meshRule(facts: BundleFacts): Said {
  const { mesh, cp } = facts.config.parallel;
  return mesh !== null && mesh.dpShard % cp !== 0
    ? refused(
        `TorchTitan shards over the ranks of parallel.cp too, so dpShard ${mesh.dpShard} must be a multiple of parallel.cp ${cp}`,
      )
    : 'said';
}

function tensorRule({ shape, config: { parallel } }: BundleFacts): Said {
  const kvHeads = shape.kind === 'llama' ? (shape.kvHeads ?? shape.heads) : shape.heads;
  if (kvHeads % parallel.tp !== 0)
    return refused(`${parallel.tp} does not divide the ${kvHeads} heads of keys and values; use a divisor`);
  return parallel.sequenceParallel
    ? 'said'
    : other('includes parallel.sequenceParallel, because TorchTitan always divides norms by positions');
}

function stagesRule(facts: BundleFacts): Said {
  if (facts.config.parallel.pp === 1) return NO_STAGES;
  if (layersPerStage(exportedOf(facts)) === undefined)
    return refused(
      `TorchTitan gives all stages equally many layers, but ${facts.shape.layers} layers cannot be divided into ${facts.config.parallel.pp * virtualStagesOf(facts.config.parallel)} equal stages`,
    );
  // If train.toml names no published model, its reader does not know the number of layers, and assumes at most 2 stages per rank.
  const isKnown = flavorOf(facts) !== undefined || virtualStagesOf(facts.config.parallel) <= 2;
  return isKnown
    ? 'said'
    : other(
        'is pipeline_parallel_layers_per_stage; shardlab does not read it back, because train.toml has no sizes',
      );
}

/** Rules of TorchTitan's TOML. */
export const TORCHTITAN_RULES: Rules = {
  ...ANYWHERE,
  model: modelRule,
  'parallel.strategy': strategyRule,
  'parallel.mesh': meshRule,
  'parallel.reshardAfterForward': ({ config }) =>
    typeof config.parallel.reshardAfterForward === 'number'
      ? other('true: parameters are freed after forward and gathered from all ranks of the shard group')
      : other('is fsdp_reshard_after_forward, which is part of the strategy here'),
  'parallel.wrap': ({ config }) =>
    config.parallel.wrap === 'blocks' ? 'said' : other('every block is a unit'),
  'parallel.bucketBytes': left("DDP's default size of buckets is used"),
  'parallel.noSync': left('gradients are reduced in every pass: the same values'),
  'parallel.communicationDataType': left(
    'gradients are reduced in float32, the only type that TorchTitan has',
  ),
  'parallel.tp': tensorRule,
  'parallel.sequenceParallel': ({ config }) =>
    config.parallel.tp > 1 ? 'said' : left('without parallel.tp, it has no effect'),
  'parallel.cp': ({ config }) =>
    config.parallel.cpKind === 'ring' ? 'said' : other('is ring attention: the same values'),
  'parallel.cpKind': ({ config }) =>
    config.parallel.cp > 1 ? 'said' : left('without parallel.cp, it has no effect'),
  'parallel.pp': (facts) => {
    const said = stagesRule(facts);
    return typeof said === 'object' && 'refused' in said ? said : 'said';
  },
  'parallel.schedule': ({ config: { parallel } }) => {
    if (parallel.pp === 1) return NO_STAGES;
    return parallel.schedule === 'zb' ? other('is 1F1B: the same values, in another order') : 'said';
  },
  'parallel.virtualStages': stagesRule,
  'parallel.microbatches': ({ config }) => (config.parallel.pp === 1 ? NO_STAGES : 'said'),
  'parallel.stageSplit': ({ config: { parallel } }) =>
    parallel.pp === 1 || parallel.stageSplit === 'layers'
      ? NO_STAGES
      : other('stages have equally many layers'),
  'mixedPrecision.paramDtype': ({ config }) => {
    if (usesFloat16(config))
      return refused("TorchTitan has no float16; use 'bf16', or export to 'deepspeed'");
    return reducedIn('float32', { config });
  },
  'mixedPrecision.reduceDtype': (facts) => reducedIn('float32', facts),
  'mixedPrecision.outputDtype': left('outputs are not rounded'),
  'mixedPrecision.castForwardInputs': left('inputs are rounded as fully_shard does by default'),
  gradScaler: left('nothing is float16, so a scale changes no value'),
  'offload.optimizer': left('optimizer states stay on the GPU; offload.parameters moves them too'),
  'offload.parameters': ({ config }) =>
    STRATEGIES[config.parallel.strategy].shardedAtRest.length > 0
      ? 'said'
      : left('TorchTitan offloads only what it shards'),
  activationCheckpointing: ({ config: { activationCheckpointing: chosen } }) => {
    if (chosen === 'full' || chosen === 'selective' || chosen === null) return 'said';
    return 'everyNth' in chosen ? 'said' : other("is 'full': more is computed again, and less is stored");
  },
  data: OWN_DATA_RULE,
  'optimizer.kind': ({ config: { optimizer } }) =>
    optimizer.kind === 'adamW' || optimizer.kind === 'adam'
      ? 'said'
      : refused(`TorchTitan has no ${optimizer.kind}; use adamW or adam`),
  'optimizer.amsgrad': refused('TorchTitan has no amsgrad; leave it out'),
  'optimizer.nesterov': refused('TorchTitan has no sgd; leave it out'),
  'optimizer.maximize': refused('TorchTitan only minimizes; leave it out'),
  schedule: ({ config: { schedule } }) => {
    if (schedule?.kind === 'step' || schedule?.kind === 'exponential')
      return refused(`TorchTitan has no schedule '${schedule.kind}'; use linear, cosine or wsd`);
    return schedule?.kind === 'WarmupCosineLR' ? other('is cosine, which ends one step later') : 'said';
  },
  frozen: refused('TorchTitan freezes nothing by its settings; leave it out'),
  seed: OWN_SEED_RULE,
};
