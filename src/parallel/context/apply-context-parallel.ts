import { tidy } from '../../autograd/tape';
import { ConfigError, classOf } from '../../core/errors';
import * as tf from '../../core/tf';
import type { ProcessGroup } from '../../dist/types';
import { CausalSelfAttention } from '../../nn/attention';
import { LlamaAttention } from '../../nn/llama-block';
import { GPT, MoeGPT } from '../../nn/models/gpt';
import { Llama } from '../../nn/models/llama';
import type { Module } from '../../nn/module';
import { type DividedSequences, fromBegin } from '../../nn/positions';
import { ContextParallel, type ContextParallelOptions } from './context-parallel';
import { requireHeads } from './ulysses-attention';

/** A built-in model whose attention is causal and whose positions are those of one sequence. */
export type SequenceModel = GPT | Llama;

/**
 * Divides the sequences of a model of `nn.gpt` or `nn.llama` over the ranks of `group`, in place, and returns the parallelism.
 * All ranks of the group give the model the same whole batch; each computes its own positions. With targets, the loss is the
 * mean over the tokens of all ranks; without, a rank has the logits of its own positions, and `gather` of the result
 * returns all. Gradients are a rank's own: reduce their mean over dp and cp together, by DDP or fullyShard over
 * `mesh.slice('dp', 'cp')`. Call it on all ranks, before or after fullyShard.
 * Throws: CONFIG for another model, a second call, and wrong options; SHAPE if Ulysses does not divide the heads.
 */
export function applyContextParallel(
  model: Module,
  group: ProcessGroup,
  options: ContextParallelOptions = {},
): ContextParallel {
  const sequenceModel = requireSequenceModel(model);
  const body = sequenceModel instanceof GPT ? sequenceModel : sequenceModel.model;
  if (body.positionsOf !== fromBegin) {
    throw new ConfigError(
      'applyContextParallel was already called on this model; build the model again to divide its sequences differently',
    );
  }
  const context = new ContextParallel(group, options);
  if (context.ulysses !== null) requireHeads(sequenceModel.shape.heads, context.ulysses.size);
  for (const module of model.modules()) {
    if (module instanceof CausalSelfAttention || module instanceof LlamaAttention)
      module.attend = context.attend(() => module.path);
  }
  body.positionsOf = (length) => context.positions(length * group.size);
  sequenceModel.sequences = context;
  model.wrap((inputs, next) => {
    const batch = batchOf(inputs);
    // The model refuses what is no batch.
    if (batch === null) return next(...inputs);
    const { ids, targets } = batch;
    return tidy(() => {
      const own = context.cut(ids);
      if (targets === null) return next(own);
      return context.mean(next(own, cutTargets(context, targets, ids.shape)) as tf.Tensor); // the model's loss
    });
  });
  return context;
}

/** Returns the targets of this rank's positions. Shapes: targets [B·T] → [B·T / ranks]; `shape` is [B, T]. */
export function cutTargets(sequences: DividedSequences, targets: tf.Tensor, shape: number[]): tf.Tensor {
  return tf.reshape(sequences.cut(tf.reshape(targets, shape)), [-1]);
}

/** Returns the tokens and their targets, if any; null if the inputs are no batch. */
function batchOf([ids, targets]: readonly unknown[]): { ids: tf.Tensor; targets: tf.Tensor | null } | null {
  if (!(ids instanceof tf.Tensor) || ids.rank !== 2) return null;
  if (targets === undefined) return { ids, targets: null };
  return targets instanceof tf.Tensor && targets.size === ids.size ? { ids, targets } : null;
}

function requireSequenceModel(model: unknown): SequenceModel {
  if (model instanceof GPT || model instanceof Llama) return model;
  const reason =
    model instanceof MoeGPT
      ? "a MoeGPT's gates draw noise by all earlier tokens of a sequence, and a rank has only its own"
      : `it takes a model of nn.gpt or nn.llama, not ${classOf(model)}`;
  throw new ConfigError(
    `applyContextParallel: ${reason}; in a module of your own, cut the input with contextParallel(group, …).cut, ` +
      'and call its attention in place of nn.attention. A model under DDP or FSDP is given without the wrapper',
  );
}
