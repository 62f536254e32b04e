import { requireKnownOptions } from '../../config/option-names';
import { ShardlabError } from '../../core/errors';
import type { ProcessGroup } from '../../dist/types';
import { GPT } from '../../nn/models/gpt';
import { Llama } from '../../nn/models/llama';
import type { Module } from '../../nn/module';
import type { Parameter } from '../../nn/parameter';
import { fromBegin } from '../../nn/positions';
import { type Piece, piecesOf } from './pieces';
import { PipelineStage } from './pipeline-stage';
import { type Split, splitPieces } from './split';
import { StageModule } from './stage-module';

/** How a model is divided into stages. */
export interface PipelineStagesOptions {
  /** The ranks of the pipeline, in order: `initializeModelParallel(…).pp`. */
  readonly group: ProcessGroup;
  /** The number of stages per rank. Default 1. */
  readonly virtualStages?: number | undefined;
  /** Default 'layers'. */
  readonly split?: Split | undefined;
}

/**
 * Divides a model into stages and returns those of this rank: with V virtual stages, rank p of P has stages p, P + p, …. All ranks
 * give the same model; it must not be used afterwards. Only the values of this rank's stages are made, and they equal those of
 * the whole model ([Note: deferred values]). A parameter that several stages read (a tied embedding) is on each of them.
 * Throws: CONFIG if the model is already sharded or cannot be cut, with the reason. Source: torch.distributed.pipelining.pipeline.
 */
export function pipelineStages(model: Module, options: PipelineStagesOptions): PipelineStage[] {
  requireKnownOptions('pipelineStages(model, { … })', options, ['group', 'virtualStages', 'split']);
  const { group, virtualStages = 1, split = 'layers' } = options;
  requireUnsharded(model);
  requireWholeSequences(model);
  const { pieces, hasLoss } = piecesOf(model);
  const numStages = group.size * virtualStages;
  const stages = splitPieces(pieces, numStages, split);
  const shared = sharedGroups(stages, group);
  const outputShape = outputShapeOf(model);
  const own = stages.flatMap((parts, index) => {
    if (index % group.size !== group.rank) return [];
    const module = new StageModule(model, parts);
    const copies = module.parameters().flatMap((parameter) => {
      const ranks = shared.get(parameter);
      return ranks === undefined ? [] : [{ parameter, group: ranks }];
    });
    return [new PipelineStage(module, index, numStages, { group, shared: copies, hasLoss, outputShape })];
  });
  freeOthers(pieces, own);
  return own;
}

function requireUnsharded(model: Module): void {
  const held = model.parameters().find(({ isAdopted, unit }) => isAdopted || unit !== null);
  if (held === undefined) return;
  throw new ShardlabError(
    'CONFIG',
    `pipelineStages: DDP, FSDP or fullyShard already holds "${held.name}"; divide the model first, then wrap stage.submod`,
  );
}

/** Context parallelism cuts sequences in the model's own forward, which no stage runs. */
function requireWholeSequences(model: Module): void {
  const body = model instanceof Llama ? model.model : model;
  if (!('positionsOf' in body) || body.positionsOf === fromBegin) return;
  throw new ShardlabError(
    'CONFIG',
    'pipelineStages: applyContextParallel was called on this model, and stages do not cut sequences; use one of the two',
  );
}

/** Returns the ranks of each parameter that stages on several ranks read. All ranks of the pipeline make the same groups. */
function sharedGroups(
  stages: readonly (readonly Piece[])[],
  group: ProcessGroup,
): ReadonlyMap<Parameter, ProcessGroup> {
  const readers = new Map<Parameter, Set<number>>();
  stages.forEach((pieces, stage) => {
    for (const parameter of parametersOf(pieces)) {
      const ranks = readers.get(parameter) ?? new Set();
      readers.set(parameter, ranks.add(stage % group.size));
    }
  });
  const made = new Map<string, ProcessGroup | null>();
  const groups = new Map<Parameter, ProcessGroup>();
  for (const [parameter, ranks] of readers) {
    if (ranks.size === 1) continue;
    const members = [...ranks].sort((a, b) => a - b);
    const key = members.join();
    if (!made.has(key)) {
      const name = `tied[${members.map((rank) => group.ranks[rank]).join(',')}]`;
      made.set(key, members.length === group.size ? group : group.subgroup(members, name));
    }
    const own = made.get(key) ?? null;
    if (own !== null) groups.set(parameter, own);
  }
  return groups;
}

function parametersOf(pieces: readonly Piece[]): Set<Parameter> {
  return new Set(pieces.flatMap(({ modules }) => modules.flatMap((module) => module.parameters())));
}

/** Frees the values of the other ranks' stages, which only exist if the model was made or loaded with values. */
function freeOthers(pieces: readonly Piece[], own: readonly PipelineStage[]): void {
  const kept = new Set(own.flatMap(({ submod }) => submod.parameters()));
  for (const parameter of parametersOf(pieces)) if (!kept.has(parameter)) parameter.free();
}

function outputShapeOf(model: Module): ((input: readonly number[]) => readonly number[]) | undefined {
  if (!(model instanceof GPT || model instanceof Llama)) return undefined;
  const { dim } = model.shape;
  return (ids) => [...ids, dim];
}
