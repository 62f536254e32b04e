import { stageConflict } from '../../config';
import { ConfigError } from '../../core';
import * as tf from '../../core/tf';
import { tidy, untracked } from '../../engine';
import { LanguageModel, type Module, ModuleDict, ModuleList, mixturesIn, Sequential } from '../../nn';
import { cutTargets } from '../context/apply-context-parallel';

/** A part of a model that cannot be divided between stages. A model applies its pieces one after another. */
export interface ModelPiece {
  /** The name of the piece's first module, at which a stage may begin. */
  readonly name: string;
  /** The modules whose parameters the piece reads. */
  readonly modules: readonly Module[];
  /** Whether the piece counts as a layer when layers are divided evenly. */
  readonly isLayer: boolean;
  /** Computes the piece; the last piece of a language model computes the loss if there are targets. */
  run(x: tf.Tensor, targets?: tf.Tensor): tf.Tensor;
}

/** A model as a sequence of pieces. */
export interface PieceChain {
  readonly pieces: readonly ModelPiece[];
  /** Whether the last piece computes the model's own loss from targets. */
  readonly hasLoss: boolean;
}

/**
 * Divides a model into its pieces. The pieces of a language model are its embedding, its layers and its head; the pieces of an
 * `nn.Sequential` are its modules. Any other module is divided into its children (and the items of its lists) if its forward
 * only applies these one after another.
 * Throws: CONFIG with the reason if the model cannot be cut.
 */
export function piecesOf(model: Module): PieceChain {
  if (model instanceof LanguageModel) return { pieces: languagePieces(model), hasLoss: true };
  requireNoOwnTensors(model);
  if (model instanceof Sequential) return { pieces: stepPieces(model), hasLoss: false };
  const parts = partsOf(model);
  if (parts.length === 0) throw uncut(model, 'it has no modules inside');
  const chain = untracked(() => traceChain(model, parts));
  if (typeof chain === 'string') throw uncut(model, chain);
  const pieces = chain.map((part) => ({
    name: part.path,
    modules: [part],
    isLayer: true,
    run: (x: tf.Tensor) => part.apply(x) as tf.Tensor, // the stage checks the type of its output
  }));
  return { pieces, hasLoss: false };
}

/** Returns the embedding, the layers and the head of a language model. */
function languagePieces(model: LanguageModel): ModelPiece[] {
  for (const { options, experts } of mixturesIn(model)) {
    const reason = stageConflict(options, experts.length);
    if (reason !== null) throw uncut(model, reason);
  }
  const { embeddings, lastNorm, lm_head } = model;
  const [first] = embeddings;
  const layers = [...model.blocks].map((block) =>
    layerPiece(
      block,
      (x) => block.apply(x, ...model.besides((x.shape[1] ?? 0) * model.sequenceRanks)) as tf.Tensor, // layers return activations
    ),
  );
  return [
    {
      name: first.path,
      modules: embeddings,
      isLayer: false,
      run: (ids) => ofOwnPositions(model, ids, (own) => model.embed(own)),
    },
    ...layers,
    {
      name: lastNorm.path,
      modules: [lastNorm, lm_head ?? first],
      isLayer: false,
      run: (x, targets) => headOf(model, x, targets),
    },
  ];
}

/** Runs the embedding on the positions that this rank has under context parallelism. Shapes: ids [B, T]. */
function ofOwnPositions(
  { sequences }: LanguageModel,
  ids: tf.Tensor,
  embed: (own: tf.Tensor) => tf.Tensor,
): tf.Tensor {
  return sequences === null ? embed(ids) : tidy(() => embed(sequences.cut(ids)));
}

/** Runs the head; under context parallelism, on this rank's part of the targets. Shapes: targets [B·T] or [B, T]. */
function headOf(model: LanguageModel, x: tf.Tensor, targets: tf.Tensor | undefined): tf.Tensor {
  const { sequences } = model;
  if (targets === undefined) return model.head(x);
  if (sequences === null) return model.head(x, targets.rank === 1 ? targets : tf.reshape(targets, [-1]));
  const rows = x.shape[0] ?? 1;
  return tidy(() =>
    sequences.mean(model.head(x, cutTargets(sequences, targets, [rows, targets.size / rows]))),
  );
}

function layerPiece(module: Module, run: (x: tf.Tensor) => tf.Tensor): ModelPiece {
  return { name: module.path, modules: [module], isLayer: true, run };
}

/** A function between modules belongs to the piece before it. Functions before the first module belong to the first piece. */
function stepPieces({ steps }: Sequential): ModelPiece[] {
  const starts = steps.flatMap((step, i) => (typeof step === 'function' && !('path' in step) ? [] : [i]));
  return starts.map((start, i) => {
    const own = steps.slice(i === 0 ? 0 : start, starts[i + 1] ?? steps.length);
    const first = steps[start] as Module; // `starts` has only modules
    const run = (x: tf.Tensor): tf.Tensor =>
      own.reduce<tf.Tensor>((y, step) => ('path' in step ? (step.apply(y) as tf.Tensor) : step(y)), x);
    return layerPiece(first, run);
  });
}

/** Returns a module's children. A list or dictionary has no forward, so its items are returned in its place. */
function partsOf(module: Module): Module[] {
  return [...module.children.values()].flatMap((child) =>
    child instanceof ModuleList || child instanceof ModuleDict ? partsOf(child) : [child],
  );
}

function requireNoOwnTensors(model: Module): void {
  const [own] = [...model.namedState().keys()].filter((name) => !name.includes('.'));
  if (own !== undefined)
    throw uncut(
      model,
      `it has the parameter or buffer "${own}" itself, outside of its modules, so no stage would have this tensor`,
    );
}

function uncut(model: Module, reason: string): ConfigError {
  return new ConfigError(
    `pipeline: ${model.constructor.name} cannot be cut into stages: ${reason}. Write it as an nn.Sequential, or as modules that forward ` +
      'applies one after another, or make each stage yourself: new PipelineStage(module, stageIndex, numStages, { group })',
  );
}

/** A call of a part during tracing. */
interface Call {
  readonly part: Module;
  readonly inputs: readonly unknown[];
  readonly output: tf.Tensor;
}

/**
 * Finds the order in which a model's forward applies its parts. Forward runs on stand-ins: each part returns a new scalar and
 * computes nothing, so the values of parameters are not made. Returns the parts in order, or the reason why the model does not
 * apply its parts one after another.
 * Source: torch.fx's symbolic tracing.
 */
function traceChain(model: Module, parts: readonly Module[]): readonly Module[] | string {
  const calls: Call[] = [];
  let isTracing = true;
  for (const part of parts) {
    part.wrap((inputs, next) => {
      if (!isTracing) return next(...inputs);
      const output = tf.scalar(0);
      calls.push({ part, inputs, output });
      return output;
    });
  }
  let chainOrReason: readonly Module[] | string = [];
  try {
    tf.tidy(() => {
      const input = tf.scalar(0);
      chainOrReason = chainOf(calls, parts, input, model.forward(input));
    });
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return `forward fails (${text}) when its modules return stand-ins for their outputs, so it computes something itself`;
  } finally {
    isTracing = false;
  }
  return chainOrReason;
}

function chainOf(
  calls: readonly Call[],
  parts: readonly Module[],
  input: tf.Tensor,
  result: unknown,
): readonly Module[] | string {
  let before: { readonly output: tf.Tensor; readonly name: string } = { output: input, name: 'its input' };
  for (const { part, inputs, output } of calls) {
    const name = `"${part.path}"`;
    if (inputs.length !== 1)
      return `${name} gets ${inputs.length} inputs, but a stage passes on only one tensor`;
    if (inputs[0] !== before.output) {
      const earlier = calls.find((call) => call.output === inputs[0]);
      const from = inputs[0] === input ? 'the input of the model' : `the output of "${earlier?.part.path}"`;
      const reads =
        inputs[0] === input || earlier !== undefined
          ? `${name} reads ${from}, which stages after ${before.name} do not have`
          : `forward computes something itself between ${before.name} and ${name}`;
      return reads;
    }
    before = { output, name };
  }
  const counts = new Map(parts.map((part) => [part, calls.filter((call) => call.part === part).length]));
  for (const [part, count] of counts) {
    if (count !== 1)
      return `forward ${count === 0 ? `does not apply "${part.path}"` : `applies "${part.path}" ${count} times, not once`}`;
  }
  if (result !== before.output) return `forward computes something itself after ${before.name}`;
  return calls.map(({ part }) => part);
}
