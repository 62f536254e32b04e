import { dataRanksOf, isGathered, isSharded, STRATEGIES, usesFloat16, virtualStagesOf } from '../../config';
import {
  as1F1B,
  type BundleFacts,
  builtInShape,
  type Exceptions,
  exportedOf,
  inexpressible,
  OWN_BATCHES,
  onlyAllShards,
  onlyDivisorsOfHeads,
  onlyMeshes,
  onlyOptimizers,
  onlyRecompute,
  onlySchedules,
  reducedIn,
  similar,
  type Treatment,
  worldOf,
} from '../../programs/toolkit';
import { flavorOf } from './torchtitan-files';
import { layersPerStage } from './torchtitan-parallel';

const REDUCED_IN_FLOAT32 = reducedIn(() => 'float32');

function titanModel({ shape, config }: BundleFacts): Treatment {
  if (shape.kind !== 'llama')
    return inexpressible("TorchTitan has no model of kind 'gpt'; use a llama, or export to 'torchrun'");
  if (shape.tied) return inexpressible("TorchTitan's Llama 3 has an output layer of its own; use tied false");
  if (shape.qkvBias) return inexpressible("TorchTitan's Llama 3 has no qkvBias; export to 'swift'");
  return flavorOf({ config }) === undefined
    ? similar('is in exported_model.py, which train.toml imports; its parameters are in the folder model/')
    : 'said';
}

function titanStrategy(facts: BundleFacts): Treatment | null {
  const { tp, cp, pp, strategy } = facts.config.parallel;
  const ranks = dataRanksOf(facts.config, worldOf(facts));
  if (!isSharded(strategy, 'optimizer')) {
    if (cp > 1) return inexpressible('TorchTitan shards over the ranks of parallel.cp; use FULL_SHARD');
    return ranks > 1 && tp * pp > 1
      ? inexpressible("TorchTitan's DDP excludes parallel.tp and pp; use FULL_SHARD or SHARD_GRAD_OP")
      : null;
  }
  if (!isGathered(strategy))
    return (
      onlyMeshes(facts) ??
      similar(
        'is fully_shard with fsdp_reshard_after_forward never, which shards parameters between steps too',
      )
    );
  return ranks * cp === 1 ? similar('is NO_SHARD: one rank has all shards') : onlyMeshes(facts);
}

/** The exception of stages of which train.toml cannot have the layers, or which its reader does not know. */
function titanStages(facts: BundleFacts): Treatment | null {
  const { parallel } = facts.config;
  if (parallel.pp === 1) return null;
  if (layersPerStage(exportedOf(facts)) === undefined)
    return inexpressible(
      `TorchTitan gives all stages equally many layers, but ${builtInShape(facts).layers} layers cannot be divided into ${parallel.pp * virtualStagesOf(parallel)} equal stages`,
    );
  // If train.toml names no published model, its reader does not know the number of layers, and assumes at most 2 stages per rank.
  return flavorOf(facts) !== undefined || virtualStagesOf(parallel) <= 2
    ? null
    : similar(
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
        ? inexpressible(
            `TorchTitan shards over the ranks of parallel.cp too, so dpShard ${parallel.mesh.dpShard} must be a multiple of parallel.cp ${parallel.cp}`,
          )
        : 'said',
  'parallel.reshardAfterForward': (facts) =>
    onlyAllShards(facts) ?? similar('is fsdp_reshard_after_forward, which is part of the strategy here'),
  'parallel.tp': (facts) =>
    onlyDivisorsOfHeads(facts) ??
    (facts.config.parallel.sequenceParallel
      ? null
      : similar('includes parallel.sequenceParallel, because TorchTitan always divides norms by positions')),
  'parallel.sequenceParallel': ({ config: { parallel } }) => (parallel.tp > 1 ? 'said' : null),
  'parallel.cpKind': ({ config: { parallel } }) =>
    parallel.cp > 1 && parallel.cpKind === 'ring' ? 'said' : null,
  'parallel.cp': ({ config: { parallel } }) =>
    parallel.cpKind === 'ring' ? null : similar('is ring attention: the same values'),
  'parallel.pp': (facts) => {
    const stages = titanStages(facts);
    return stages !== null && 'refused' in Object(stages) ? stages : null;
  },
  'parallel.virtualStages': titanStages,
  'parallel.schedule': as1F1B('zb'),
  'mixedPrecision.paramDtype': (facts) =>
    usesFloat16(facts.config)
      ? inexpressible("TorchTitan has no float16; use 'bf16', or export to 'deepspeed'")
      : REDUCED_IN_FLOAT32(facts),
  activationCheckpointing: onlyRecompute('full', 'selective', 'everyNth'),
  // Strategies that shard only some states are fully_shard there, which offloads what it shards.
  'offload.parameters': ({ config: { parallel } }) =>
    isSharded(parallel.strategy, 'optimizer') ? 'said' : null,
  'optimizer.kind': onlyOptimizers('TorchTitan', 'adamW', 'adam'),
  schedule: onlySchedules('TorchTitan'),
};
