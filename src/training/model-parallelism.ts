import { isVideoModel, modelShape, type TrainConfig } from '../config';
import { ConfigError, type Warn, warnOnce } from '../core';
import { LanguageModel, type Module, VideoModel } from '../nn';
import { applyContextParallel, applyExpertParallel, parallelizeTensors } from '../sharding';
import { initializeModelParallel, type ProcessGroup } from '../wire';

/** The groups of this rank in a training; each group shares one kind of work. */
interface TrainingGroups {
  /** The data-parallel group: its ranks train on different batches. */
  readonly data: ProcessGroup;
  /** The ranks that hold the same parts of matrices. They shard states and average gradients among themselves. */
  readonly shards: ProcessGroup;
  /** The ranks that hold the stages of the model, in order of the stages; null if every rank has all layers. */
  readonly pipeline: ProcessGroup | null;
}

interface Place {
  readonly config: TrainConfig;
  /** All ranks of the training. */
  readonly group: ProcessGroup;
  readonly warn?: Warn | undefined;
}

/**
 * Divides a model in place over ranks, by the config's degrees tp, cp and ep. Throws: CONFIG for a model that cannot be divided;
 * MESH if the degrees do not divide the ranks.
 */
export function applyModelParallelism(
  model: Module,
  { config, group, warn = () => undefined }: Place,
): TrainingGroups {
  const { tp, sequenceParallel, cp, cpKind, ep, pp, expertPlacement: placement } = config.parallel;
  if (tp * cp * ep * pp === 1) return { data: group, shards: group, pipeline: null };
  if (tp * cp > 1) requireDivisible(model, tp);
  const once = warnOnce(warn);
  const ranks = initializeModelParallel(group, {
    tensorModelParallelSize: tp,
    contextParallelSize: cp,
    pipelineModelParallelSize: pp,
    expertModelParallelSize: ep,
  });
  if (tp > 1) parallelizeTensors(model, { group: ranks.tp, warn: once }, { sequenceParallel });
  if (cp > 1) applyContextParallel(model, ranks.cp, { kind: cpKind });
  if (ep > 1) applyExpertParallel(model, ranks, { placement });
  return { data: ranks.dp, shards: ranks.dpCp, pipeline: pp > 1 ? ranks.pp : null };
}

/** Throws: CONFIG if not every rank has the model's output. `caller` is the call that reads the output. */
export function requireOutput(caller: string, config: Pick<TrainConfig, 'parallel' | 'model'>): void {
  requireWholeOutput(caller, config);
  const { pp } = config.parallel;
  if (pp === 1) return;
  throw new ConfigError(
    `${caller} reads the model's output, but with parallel.pp ${pp} only the ranks of the last stage have it; ` +
      'await run.reshard({ pp: 1 }) first',
  );
}

/** Throws: CONFIG unless the library has a plan that divides models of this class. */
function requireDivisible(model: Module, tp: number): void {
  const isDivisible = model instanceof LanguageModel && (tp === 1 || model.tensorPlan !== null);
  if (isDivisible || (model instanceof VideoModel && tp === 1)) return;
  throw new ConfigError(
    `parallel.tp and parallel.cp cannot divide a ${model.constructor.name} in job.train: both divide nn.gpt, nn.moe and nn.llama, and cp also divides nn.dit; in a loop of a %%ranks cell, ` +
      'parallelizeModule(model, mesh, plan) divides the matrices of any model by the names of its layers, and contextParallel(group) ' +
      'divides sequences',
  );
}

/** Throws: CONFIG if each rank has only the outputs of its own positions. `caller` is the call that reads the outputs of all positions. */
export function requireWholeOutput(caller: string, config: Pick<TrainConfig, 'parallel' | 'model'>): void {
  const { cp } = config.parallel;
  // The ranks of a model of videos gather the whole video, so each rank has the whole output.
  if (cp === 1 || isVideoModel(modelShape(config))) return;
  throw new ConfigError(
    `${caller} needs the outputs of whole sequences, but with parallel.cp ${cp} a rank has only outputs of its own positions; ` +
      'await run.reshard({ cp: 1 }) first',
  );
}
