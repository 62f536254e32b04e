import {
  anyValue,
  countSchema,
  instance,
  type OptionKind,
  ofKind,
  parseOptions,
  type ShapeOf,
} from '../../config';
import { ConfigError, isPlain, isRecord, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { LanguageModel, type Module, type Parameter } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { type MeasureContext, measurePieces, type TimedMicrobatch } from './measure-pieces';
import { type ModelPiece, piecesOf } from './pieces';
import { PipelineStage } from './pipeline-stage';
import { type Split, splitPieces } from './split';
import { StageModule } from './stage-module';
import { isElsewhere, leaveElsewhere } from './state-elsewhere';

/** Options of `pipelineStages`. */
export interface PipelineStagesOptions {
  /** The ranks of the pipeline, in order: `initializeModelParallel(…).pp`. */
  readonly group: ProcessGroup;
  /** The number of stages per rank. Default 1. */
  readonly virtualStages?: number | undefined;
  /** How the model is cut into stages. Default 'layers'. */
  readonly split?: Split | undefined;
  /** One microbatch, on which split 'time' measures the model's parts. */
  readonly example?: TimedMicrobatch | undefined;
}

const EXAMPLE: OptionKind = {
  words: 'one microbatch with a tensor x, as { x, target }',
  accepts: (value) => isRecord(value) && value.x instanceof tf.Tensor,
};

const OPTIONS = {
  group: ofKind<ProcessGroup>(instance).nonoptional(),
  virtualStages: countSchema.default(1),
  split: anyValue<Split>().default('layers'), // `splitPieces` checks it
  example: ofKind<TimedMicrobatch>(EXAMPLE),
} satisfies ShapeOf<PipelineStagesOptions>;

/**
 * Divides a model into stages and returns this rank's stages: with V virtual stages, rank p of P has stages p, P + p, …. All
 * ranks give the same model, which must not be used afterwards. Only the values of this rank's stages are made; they equal the
 * values in the whole model ([Note: deferred values]). A parameter that several stages read (a tied embedding) is on each of
 * these stages. `context` has the engine and the ranks with which split 'time' measures. Throws: CONFIG if the model is already
 * sharded or cannot be cut, with the reason.
 * Source: torch.distributed.pipelining.pipeline.
 */
export function pipelineStages(
  model: Module,
  options: PipelineStagesOptions,
  context?: MeasureContext,
): PipelineStage[] {
  requireRanks(options);
  const { group, virtualStages, split, example } = parseOptions(
    'pipelineStages(model, { … })',
    options,
    OPTIONS,
  );
  requireUnsharded(model);
  const { pieces, hasLoss } = piecesOf(model);
  const numStages = group.size * virtualStages;
  const isTimed = example !== undefined && context !== undefined;
  const measure = isTimed ? () => measurePieces(model, pieces, example, context) : undefined;
  const stages = splitPieces(pieces, numStages, split, measure);
  const shared = sharedGroups(stages, group);
  for (const parameter of shared.keys()) parameter.copiedBy = 'other stages';
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
  leaveOthers(model, own);
  return own;
}

/** Throws: CONFIG, with the form of the call, for a group or a mesh in place of options. */
function requireRanks(options: PipelineStagesOptions): void {
  const value: object = options;
  const isGroup = isPlain(value) && Array.isArray((options as Partial<PipelineStagesOptions>).group?.ranks);
  if (isGroup && !('axisNames' in value || 'mesh' in value)) return;
  throw new ConfigError(
    'pipelineStages(model, { … }) takes the ranks of the pipeline as { group }; write pipelineStages(model, { group: parallel.pp }), ' +
      'with parallel = initializeModelParallel({ pipelineModelParallelSize: 2 })',
  );
}

function requireUnsharded(model: Module): void {
  const held = model.parameters().find(({ isAdopted, unit }) => isAdopted || unit !== null);
  if (held === undefined) return;
  if (isElsewhere(held))
    throw new ConfigError('pipelineStages: the model is already divided into stages; build it again');
  throw new ShardlabError(
    'CONFIG',
    `pipelineStages: DDP, FSDP or fullyShard already holds "${held.name}"; divide the model first, then wrap stage.submod`,
  );
}

/**
 * Returns, for each parameter that stages on several ranks read, the group of these ranks. All ranks of the pipeline make the
 * same groups.
 */
function sharedGroups(
  stages: readonly (readonly ModelPiece[])[],
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

function parametersOf(pieces: readonly ModelPiece[]): Set<Parameter> {
  return new Set(pieces.flatMap(({ modules }) => modules.flatMap((module) => module.parameters())));
}

/** Frees the parameters and buffers of the other ranks' stages. */
function leaveOthers(model: Module, own: readonly PipelineStage[]): void {
  const kept = new Set(own.flatMap(({ submod }) => tensorsOf(submod)));
  for (const tensor of tensorsOf(model)) if (!kept.has(tensor)) leaveElsewhere(tensor);
}

function tensorsOf(module: Module): Parameter[] {
  return [...module.parameters(), ...module.buffers()];
}

function outputShapeOf(model: Module): ((input: readonly number[]) => readonly number[]) | undefined {
  if (!(model instanceof LanguageModel)) return undefined;
  const { shape, sequences, sequenceRanks } = model;
  const ranks = sequenceRanks * (sequences?.group.size ?? 1);
  return ([rows = 0, positions = 0]) => [rows, positions / ranks, shape.dim];
}
