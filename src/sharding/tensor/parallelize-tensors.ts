import { flagSchema, parseOptions, type ShapeOf } from '../../config';
import { ConfigError } from '../../core';
import * as tf from '../../core/tf';
import { LanguageModel, type LogitsReader, type Module, mixturesIn, type TensorPlan } from '../../nn';
import { toColumnParallel } from './column-parallel-linear';
import {
  copyToTensorParallelRegion,
  gatherForWholeLayers,
  gatherFromSequenceParallelRegion,
  gatherFromTensorParallelRegion,
  scatterToSequenceParallelRegion,
} from './mappings';
import { apply, type ParallelPlan, stylesOf } from './parallelize-module';
import {
  ColwiseParallel,
  HeadsParallel,
  type ParallelStyle,
  RowwiseParallel,
  requireHeads,
  SequenceParallel,
  Shard,
} from './styles';
import type { TensorContext } from './tensor-context';
import { vocabParallelCrossEntropy } from './vocab-parallel-cross-entropy';

/** Options of `parallelizeTensors`. */
export interface TensorOptions {
  /**
   * Whether norms and residuals run on a part of the sequence on each rank; the ranks must then divide the sequence's length.
   * Default false.
   * Source: Korthikanti et al. 2022.
   */
  readonly sequenceParallel?: boolean | undefined;
}

const OPTIONS = { sequenceParallel: flagSchema.default(false) } satisfies ShapeOf<TensorOptions>;

/**
 * Makes a built-in GPT or Llama (also Mistral and Qwen2) tensor-parallel, in place, and returns the model. Attention is cut by
 * heads, feed-forward layers by features, embedding and head by the vocabulary. Layers with experts (`nn.moe`) are whole on
 * every rank. If there are fewer heads of keys and values than ranks, several ranks share such a head. The model computes the
 * same losses, and its logits are whole on every rank; a group of one rank changes nothing. Call this function before DDP and
 * fullyShard.
 * Source: Shoeybi et al. 2019. Throws: CONFIG for another model, heads that the ranks do not divide, unknown options, and a
 * sharded model.
 */
export function parallelizeTensors<M extends Module>(
  model: M,
  context: TensorContext,
  options: TensorOptions = {},
): M {
  const form = 'parallelizeTensors(model, mesh, { … })';
  const { sequenceParallel } = parseOptions(form, options, OPTIONS);
  const plan = model instanceof LanguageModel ? model.tensorPlan : null;
  if (!(model instanceof LanguageModel) || plan === null)
    throw new ConfigError(
      `parallelizeTensors: there is no plan for a ${model.constructor.name}, only for nn.gpt, nn.moe and nn.llama; name its layers: ` +
        "parallelizeModule(model, mesh, { 'blocks.*.fc1': ColwiseParallel(), 'blocks.*.fc2': RowwiseParallel() })",
    );
  divide(model, plan, context, sequenceParallel);
  return model;
}

function divide(model: LanguageModel, plan: TensorPlan, context: TensorContext, isSequence: boolean): void {
  requireHeads(plan.attention, model.shape.heads, context.group.size);
  apply(model, stylesOf(model, stylesFor(model, plan, isSequence)), context);
  if (isSequence) {
    // Positions are added to the whole sequence; the first layer then takes this rank's part.
    if (plan.isEmbeddingWhole) scatterInput(model.blocks.at(0), context);
    for (const mixture of mixturesIn(model)) gatherRows(mixture, context);
    model.sequenceRanks = context.group.size;
  }
  enterHead(model, context, isSequence);
}

/** Returns the style of each layer of the plan; under sequence parallelism, layers take and return parts of the sequence. */
function stylesFor(model: LanguageModel, plan: TensorPlan, isSequence: boolean): ParallelPlan {
  const enter = isSequence ? { inputLayouts: Shard(1) } : {};
  const leave = isSequence ? { outputLayouts: Shard(1) } : {};
  const all = (names: readonly string[], style: () => ParallelStyle): ParallelPlan =>
    Object.fromEntries(names.map((name) => [name, style()]));
  const columns = Object.entries(plan.columns).map(
    ([name, cut]) => [name, ColwiseParallel({ ...enter, ...cut })] as const,
  );
  return {
    [plan.embedding]: RowwiseParallel(plan.isEmbeddingWhole ? {} : leave),
    ...Object.fromEntries(columns),
    ...all(plan.heads, HeadsParallel),
    ...all(plan.rows, () => RowwiseParallel(leave)),
    ...all(isSequence ? plan.norms : [], SequenceParallel),
    ...headStyle(model),
  };
}

/**
 * Returns the style of the head: its input has already passed f in `enterHead`, and is [tokens, d] without a dim of the
 * sequence.
 */
function headStyle({ lm_head }: LanguageModel): Record<string, ParallelStyle> {
  if (lm_head === null) return {};
  const style: ParallelStyle = {
    name: 'ColwiseParallel',
    apply: (_head, { group, warn }, ties) =>
      toColumnParallel(lm_head, { group, isEntered: true }, warn, ties),
  };
  return { lm_head: style };
}

function scatterInput(block: Module | undefined, { group }: TensorContext): void {
  block?.wrap(([x, ...others], next) =>
    next(scatterToSequenceParallelRegion(x as tf.Tensor, group, block.path), ...others),
  );
}

/**
 * Gives a layer with experts whole sequences: every rank routes and computes all tokens, so the layer's gradients are whole on
 * every rank.
 */
function gatherRows(mixture: Module, { group }: TensorContext): void {
  const { path } = mixture;
  mixture.wrap(([x], next) => {
    const whole = gatherForWholeLayers(x as tf.Tensor, group, path);
    return scatterToSequenceParallelRegion(next(whole) as tf.Tensor, group, path);
  });
}

/**
 * Applies f of [Note: f and g] after the last norm, and makes the model compute losses from logits that are divided over ranks
 * by the vocabulary.
 */
function enterHead(model: LanguageModel, { group }: TensorContext, isSequence: boolean): void {
  if (group.size === 1) return;
  const { lastNorm: norm } = model;
  const enter = isSequence ? gatherFromSequenceParallelRegion : copyToTensorParallelRegion;
  norm.wrap((inputs, next) => enter(next(...inputs) as tf.Tensor, group, norm.path));
  const classes = model.shape.vocab;
  const module = model.lm_head?.path ?? 'lm_head';
  const vocabulary: LogitsReader = {
    loss: (logits, targets) => vocabParallelCrossEntropy(logits, targets, { group, classes, module }),
    whole(logits) {
      const all = gatherFromTensorParallelRegion(logits, group, module);
      return all.shape[1] === classes ? all : tf.slice(all, [0, 0], [-1, classes]);
    },
  };
  model.vocabulary = vocabulary;
}
