import { requireKnownOptions } from '../../config/option-names';
import { ConfigError, classOf } from '../../core/errors';
import * as tf from '../../core/tf';
import { GPT, type LogitsReader, MoeGPT } from '../../nn/models/gpt';
import { Llama } from '../../nn/models/llama';
import type { Module } from '../../nn/module';
import { mixturesIn } from '../../nn/moe/mixture-of-experts';
import { toColumnParallel } from './column-parallel-linear';
import {
  copyToTensorParallelRegion,
  gatherForWholeLayers,
  gatherFromSequenceParallelRegion,
  gatherFromTensorParallelRegion,
  scatterToSequenceParallelRegion,
} from './mappings';
import { apply, stylesOf } from './parallelize-module';
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
  const sequenceParallel = isSequenceParallel(options);
  if (model instanceof GPT || model instanceof MoeGPT) parallelizeGpt(model, context, sequenceParallel);
  else if (model instanceof Llama) parallelizeLlama(model, context, sequenceParallel);
  else
    throw new ConfigError(
      `parallelizeTensors: there is no plan for a ${model.constructor.name}, only for nn.gpt, nn.moe and nn.llama; name its layers: ` +
        "parallelizeModule(model, mesh, { 'blocks.*.fc1': ColwiseParallel(), 'blocks.*.fc2': RowwiseParallel() })",
    );
  return model;
}

function isSequenceParallel(options: TensorOptions): boolean {
  requireKnownOptions('parallelizeTensors(model, mesh, { … })', options, ['sequenceParallel']);
  const { sequenceParallel = false } = options;
  if (typeof sequenceParallel === 'boolean') return sequenceParallel;
  throw new ConfigError(
    `parallelizeTensors: sequenceParallel is ${classOf(sequenceParallel)}; give true or false`,
  );
}

function parallelizeGpt(model: GPT | MoeGPT, context: TensorContext, isSequence: boolean): void {
  const { heads } = model.shape;
  requireHeads('blocks.*.attention', heads, context.group.size);
  const { enter, leave, norm } = stylesFor(isSequence);
  const styles = stylesOf(model, {
    wte: RowwiseParallel(),
    'blocks.*.qkv': ColwiseParallel({ ...enter, heads, parts: 3 }),
    'blocks.*.attention': HeadsParallel(),
    'blocks.*.proj': RowwiseParallel(leave),
    ...(model instanceof MoeGPT
      ? {}
      : { 'blocks.*.fc1': ColwiseParallel(enter), 'blocks.*.fc2': RowwiseParallel(leave) }),
    ...norm('blocks.*.ln1', 'blocks.*.ln2', 'ln_f'),
    ...headStyle(model),
  });
  apply(model, styles, context);
  // Position embeddings are added to the whole sequence; the first block then takes this rank's part.
  if (isSequence) {
    scatterInput(model.blocks.at(0), context);
    for (const mixture of mixturesIn(model)) gatherRows(mixture, context);
    model.sequenceRanks = context.group.size;
  }
  enterHead(model, model.ln_f, context, isSequence);
}

function parallelizeLlama(model: Llama, context: TensorContext, isSequence: boolean): void {
  const { heads, kvHeads = heads } = model.shape;
  requireHeads('model.layers.*.self_attn', heads, context.group.size);
  const { enter, leave, norm } = stylesFor(isSequence);
  const keys = ColwiseParallel({ ...enter, heads: kvHeads });
  const styles = stylesOf(model, {
    'model.embed_tokens': RowwiseParallel(leave),
    'model.layers.*.self_attn.q_proj': ColwiseParallel({ ...enter, heads }),
    'model.layers.*.self_attn.k_proj': keys,
    'model.layers.*.self_attn.v_proj': keys,
    'model.layers.*.self_attn.o_proj': RowwiseParallel(leave),
    'model.layers.*.mlp.gate_proj': ColwiseParallel(enter),
    'model.layers.*.mlp.up_proj': ColwiseParallel(enter),
    'model.layers.*.mlp.down_proj': RowwiseParallel(leave),
    ...norm('model.layers.*.input_layernorm', 'model.layers.*.post_attention_layernorm', 'model.norm'),
    ...headStyle(model),
  });
  apply(model, styles, context);
  if (isSequence) model.sequenceRanks = context.group.size;
  enterHead(model, model.model.norm, context, isSequence);
}

/** Returns the layouts with which activations enter and leave split matrices; `norm` returns the styles of the named norms. */
function stylesFor(isSequence: boolean) {
  return {
    enter: isSequence ? { inputLayouts: Shard(1) } : {},
    leave: isSequence ? { outputLayouts: Shard(1) } : {},
    norm: (...names: readonly string[]): Record<string, ParallelStyle> =>
      Object.fromEntries(isSequence ? names.map((name) => [name, SequenceParallel()]) : []),
  };
}

/**
 * Returns the style of the head: its input has already passed f in `enterHead`, and is [tokens, d] without a dim of the
 * sequence.
 */
function headStyle({ lm_head }: GPT | MoeGPT | Llama): Record<string, ParallelStyle> {
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
function enterHead(
  model: GPT | MoeGPT | Llama,
  norm: Module,
  { group }: TensorContext,
  isSequence: boolean,
): void {
  if (group.size === 1) return;
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
