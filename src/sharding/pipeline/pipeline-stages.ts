import {
  anyValue,
  countSchema,
  instance,
  nearest,
  type OptionKind,
  ofKind,
  parseOptions,
  type ShapeOf,
  SPLITS,
} from '../../config';
import { ConfigError, isPlain, isRecord, isWhole, type Seconds, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import { LanguageModel, Module, ModuleList, ModuleListPart, type Parameter } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { type MeasureContext, measurePieces, type TimedMicrobatch } from './measure-pieces';
import { type ModelPiece, piecesOf } from './pieces';
import { PipelineStage } from './pipeline-stage';
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

/** A module to which other modules can be added under their names. */
interface Container {
  put(name: string, child: Module): void;
}

/**
 * A container of the model that has only the modules of one stage. Names do not change, so initial values do not change
 * either.
 */
class Shell extends Module {
  put(name: string, child: Module): void {
    this.addChild(name, child);
  }

  forward(..._inputs: tf.Tensor[]): tf.Tensor {
    throw new ShardlabError('INTERNAL', `"${this.path}" is a container of a stage and has no forward`);
  }
}

/**
 * The part of a model that runs on one stage of a pipeline. Its parameters have the same names, seeds and initial values as in
 * the whole model. Shapes: the first stage takes the model's input, and each other stage takes the output of the previous
 * stage.
 */
class StageModule extends Shell {
  readonly #pieces: readonly ModelPiece[];
  readonly #whole: Module;

  /** Moves the pieces' modules out of the model, whose forward must not be called afterwards. */
  constructor(model: Module, pieces: readonly ModelPiece[]) {
    super();
    this.#pieces = pieces;
    this.#whole = model;
    this.manualSeed(model.seed);
    keepTiedValues(model);
    const containers = new Map<string, Module>(model.modules().map((module) => [module.path, module]));
    const shells = new Map<string, Container>([['', this]]);
    for (const module of new Set(pieces.flatMap((piece) => piece.modules))) {
      const names = module.path.split('.');
      const own = names.pop() ?? '';
      shellAt(names, shells, containers).put(own, module);
    }
    this.#takeOver(model);
  }

  override get whole(): Module {
    return this.#whole;
  }

  override forward(x: tf.Tensor, targets?: tf.Tensor): tf.Tensor {
    let output = x;
    for (const piece of this.#pieces) {
      const input = output;
      output = piece.run(input, targets);
      // As in `applyInTurn`, inputs are disposed, because forward has saved the tensors that backward needs.
      if (output !== input && input !== x) input.dispose();
    }
    return output;
  }

  /** Makes this module the reader of the parameters that the model itself read, such as the weight of a tied head. */
  #takeOver(model: Module): void {
    const inside = new Set<object>(this.modules());
    const readBy = (parameter: Parameter): object[] =>
      [...parameter.users].filter((user) => !inside.has(user));
    for (const parameter of this.parameters()) {
      for (const user of parameter.users) {
        if (!readBy(parameter).includes(user)) continue;
        parameter.noLongerUsedBy(user);
        if (user === model) this.sharesParameter(parameter);
      }
    }
  }
}

/**
 * Makes the initial values of tied parameters independent of names: initial values depend on a parameter's first name, but a
 * stage may have only the module with another name, such as a head without the embedding.
 */
function keepTiedValues(model: Module): void {
  const seen = new Set<Parameter>();
  for (const parameter of model.modules().flatMap((module) => [...module.ownParameters.values()])) {
    const { source } = parameter;
    if (seen.has(parameter) && source !== null) parameter.defer(source);
    seen.add(parameter);
  }
}

/** Returns the container with this path. If the container is missing, makes it and the missing containers around it. */
function shellAt(
  names: readonly string[],
  shells: Map<string, Container>,
  containers: ReadonlyMap<string, Module>,
): Container {
  const path = names.join('.');
  const known = shells.get(path);
  if (known !== undefined) return known;
  const original = containers.get(path);
  const made = original instanceof ModuleList ? new ModuleListPart() : new Shell();
  if (original !== undefined) made.manualSeed(original.seed);
  shells.set(path, made);
  shellAt(names.slice(0, -1), shells, containers).put(names.at(-1) ?? '', made);
  return made;
}

/**
 * How to choose the places at which a model is cut. 'layers' (default): equally many layers per stage; 'parameters': the largest
 * stage has as few parameters as possible; 'time': the slowest stage is as fast as possible, by the measured times of its parts;
 * numbers: layers per stage; names: the modules at which the second and later stages begin, such as ['blocks.2'].
 * Source: DeepSpeed's partition_method.
 */
export type Split = (typeof SPLITS)[number] | readonly number[] | readonly string[];

/**
 * Divides pieces into consecutive stages; no stage is empty. If layers do not divide evenly, the second and the following
 * stages get one more layer, because the first stage also has the embedding. Source: TorchTitan's generate_split_points.
 * `measure` returns the pieces' times for 'time'. Throws: CONFIG if there are fewer pieces than stages, and for numbers or
 * names that do not fit.
 */
export function splitPieces(
  pieces: readonly ModelPiece[],
  numStages: number,
  split: Split,
  measure: () => readonly Seconds[] = noTimes,
): ModelPiece[][] {
  const starts =
    split === 'time' ? timedStarts(pieces, numStages, measure()) : startsOf(pieces, numStages, split);
  return starts.map((start, stage) => pieces.slice(start, starts[stage + 1] ?? pieces.length));
}

/** Returns the index of each stage's first piece. */
function startsOf(pieces: readonly ModelPiece[], numStages: number, split: Exclude<Split, 'time'>): number[] {
  if (split === 'parameters') return balancedStarts(pieces.map(sizeOf), numStages);
  if (typeof split === 'string' && split !== 'layers') {
    throw new ConfigError(
      `pipeline: split is '${split}'; give ${SPLITS.map((name) => `'${name}'`).join(', ')}, the numbers of layers per stage ([3, 2]), or the ` +
        "modules at which the second and each later stage begins (['blocks.3'])",
    );
  }
  const layers = pieces.flatMap(({ isLayer }, i) => (isLayer ? [i] : []));
  if (split === 'layers') return startsOfLayers(layers, evenCounts(layers.length, numStages));
  if (isNumbers(split)) {
    const total = split.reduce((sum, count) => sum + count, 0);
    const fits = split.length === numStages && split.every((count) => isWhole(count, 1));
    if (fits && total === layers.length) return startsOfLayers(layers, split);
    throw new ConfigError(
      `pipeline: split [${split}] does not divide ${layers.length} layers into ${numStages} stages; give ${numStages} numbers above 0 ` +
        `whose sum is ${layers.length}`,
    );
  }
  return namedStarts(pieces, numStages, split as readonly string[]); // the split is not a list of numbers
}

function isNumbers(split: readonly unknown[]): split is readonly number[] {
  return split.every((value) => typeof value === 'number');
}

function evenCounts(numLayers: number, numStages: number): number[] {
  if (numLayers < numStages) {
    throw new ConfigError(
      `pipeline: ${numLayers} layers cannot be divided into ${numStages} stages, because each stage needs one; use fewer ranks, or fewer virtual stages`,
    );
  }
  const least = Math.floor(numLayers / numStages);
  const extra = numLayers % numStages;
  return Array.from({ length: numStages }, (_, stage) => least + (stage >= 1 && stage <= extra ? 1 : 0));
}

/** `layers` are the indices of the layers among the pieces; pieces before the first layer are on the first stage. */
function startsOfLayers(layers: readonly number[], counts: readonly number[]): number[] {
  let before = 0;
  return counts.map((count, stage) => {
    const start = stage === 0 ? 0 : (layers[before] ?? 0);
    before += count;
    return start;
  });
}

function namedStarts(pieces: readonly ModelPiece[], numStages: number, names: readonly string[]): number[] {
  const known = pieces.map(({ name }) => name);
  const starts = names.map((name) => {
    const index = known.indexOf(name);
    if (index > 0) return index;
    const near = nearest(name, known.slice(1));
    throw new ConfigError(
      `pipeline: no stage can begin at "${name}". ${near === undefined ? '' : `Did you mean "${near}"? `}Stages can begin at ` +
        `${known.slice(1).join(', ')}`,
    );
  });
  const all = [0, ...starts];
  const isSorted = all.every((start, i) => i === 0 || start > (all[i - 1] ?? 0));
  if (isSorted && all.length === numStages) return all;
  throw new ConfigError(
    `pipeline: split names ${names.join(', ')}, but for ${numStages} stages it must name ${numStages - 1} modules in the order of ` +
      'forward: the modules at which the second and each later stage begins',
  );
}

/** A dry run without costs of kernels has no times; the numbers of parameters then replace the times. */
function timedStarts(pieces: readonly ModelPiece[], numStages: number, times: readonly Seconds[]): number[] {
  return balancedStarts(times.some((time) => time > 0) ? times : pieces.map(sizeOf), numStages);
}

function noTimes(): never {
  throw new ConfigError(
    "pipeline: split 'time' needs a microbatch on which parts are timed; give pipelineStages(model, { group, split: 'time', example: { x, target } })",
  );
}

/** Cuts so that the largest sum of sizes is smallest; among such cuts, early stages are filled first. */
function balancedStarts(sizes: readonly number[], numStages: number): number[] {
  if (sizes.length < numStages) {
    throw new ConfigError(
      `pipeline: the model has ${sizes.length} parts, which cannot be divided into ${numStages} stages; use fewer ranks, or fewer virtual stages`,
    );
  }
  for (const limit of [...new Set(contiguousSums(sizes))].sort((a, b) => a - b)) {
    const starts = filled(sizes, numStages, limit);
    if (starts !== null) return starts;
  }
  return sizes.map((_, i) => i).slice(0, numStages);
}

function sizeOf({ modules }: ModelPiece): number {
  const parameters = new Set(modules.flatMap((module) => module.parameters()));
  return [...parameters].reduce((sum, { size }) => sum + size, 0);
}

function contiguousSums(sizes: readonly number[]): number[] {
  return sizes.flatMap((_, from) => {
    let sum = 0;
    return sizes.slice(from).map((size) => {
      sum += size;
      return sum;
    });
  });
}

/** Fills stages up to a limit, and leaves at least one piece for each later stage; null if some pieces are left over. */
function filled(sizes: readonly number[], numStages: number, limit: number): number[] | null {
  const starts: number[] = [];
  let next = 0;
  for (let stage = 0; stage < numStages; stage++) {
    starts.push(next);
    const last = sizes.length - (numStages - 1 - stage);
    let sum = 0;
    const begin = next;
    while (next < last && (next === begin || sum + (sizes[next] ?? 0) <= limit)) sum += sizes[next++] ?? 0;
    if (sum > limit) return null;
  }
  return next === sizes.length ? starts : null;
}
