import { sequenceConflict } from '../../config';
import { ConfigError, classOf } from '../../core';
import * as tf from '../../core/tf';
import { tidy } from '../../engine';
import {
  type DividedSequences,
  fromBegin,
  LanguageModel,
  type Module,
  mixturesIn,
  SequenceAttention,
  VideoModel,
} from '../../nn';
import { type ProcessGroup, requireGroup } from '../../wire';
import { sumCounts } from '../experts/balance-experts';
import { ContextParallel, type ContextParallelOptions } from './context-parallel';
import { requireUlyssesHeads } from './ulysses-attention';

/**
 * Divides the sequences of a model of `nn.gpt`, `nn.moe` or `nn.llama`, or the patches of an `nn.dit`, over the ranks of
 * `group`, in place. All ranks of the group give the model the same whole batch; each rank computes its own positions. With
 * targets, the model returns the mean loss over the tokens of all ranks. Without targets, the model returns the logits of the
 * rank's own positions, and `gather` of the result returns the logits of all positions. A dit returns the whole video on every
 * rank, so that the loss is over the whole video. Each rank has its own gradients: average these over dp and cp together, by
 * DDP or fullyShard over `mesh.slice('dp', 'cp')`. Call this function on all ranks, before or after fullyShard.
 * Throws: CONFIG for another model, a router that needs all rows of a batch, a second call, and wrong options; SHAPE if Ulysses
 * does not divide the heads.
 */
export function applyContextParallel(
  model: Module,
  group: ProcessGroup,
  options: ContextParallelOptions = {},
): ContextParallel {
  requireGroup('applyContextParallel', group);
  if (model instanceof VideoModel) return dividePatches(model, group, options);
  const sequenceModel = requireSequenceModel(model);
  if (sequenceModel.positionsOf !== fromBegin) {
    throw new ConfigError(CALLED);
  }
  const context = new ContextParallel(group, options);
  if (context.ulysses !== null) requireUlyssesHeads(sequenceModel.shape.heads, context.ulysses.size);
  for (const module of model.modules()) {
    if (module instanceof SequenceAttention) module.attend = context.attend(() => module.path);
  }
  for (const { auxiliary } of mixturesIn(model)) auxiliary.total = (counts) => sumCounts(counts, group);
  sequenceModel.positionsOf = (length) => context.positions(length * group.size);
  sequenceModel.sequences = context;
  model.wrap((inputs, next) => {
    const batch = batchOf(inputs);
    // The model itself refuses inputs that are not a batch.
    if (batch === null) return next(...inputs);
    const { ids, targets } = batch;
    sequenceModel.readWhole(ids, context.positions(ids.shape[1] ?? 0));
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

/** Divides the patches of a dit's videos. Attention has no causal order, so a ring's ranks have consecutive patches. */
function dividePatches(
  model: VideoModel,
  group: ProcessGroup,
  options: ContextParallelOptions,
): ContextParallel {
  const { kind = 'ulysses' } = options;
  const context = new ContextParallel(
    group,
    kind === 'ulysses' ? options : { order: 'contiguous', ...options },
  );
  if (context.ulysses !== null) requireUlyssesHeads(model.shape.heads, context.ulysses.size);
  if (!model.dividePatches(context, (module) => context.attend(() => module.path)))
    throw new ConfigError(CALLED);
  return context;
}

const CALLED =
  'applyContextParallel was already called on this model; build the model again to divide its sequences differently';

/** Returns the tokens and their targets, if any; null if the inputs are not a batch. */
function batchOf([ids, targets]: readonly unknown[]): { ids: tf.Tensor; targets: tf.Tensor | null } | null {
  if (!(ids instanceof tf.Tensor) || ids.rank !== 2) return null;
  if (targets === undefined) return { ids, targets: null };
  return targets instanceof tf.Tensor && targets.size === ids.size ? { ids, targets } : null;
}

function requireSequenceModel(model: Module): LanguageModel {
  if (model instanceof LanguageModel) {
    for (const { options, experts } of mixturesIn(model)) {
      const reason = sequenceConflict(options, experts.length);
      if (reason !== null)
        throw new ConfigError(
          `applyContextParallel: a ${model.constructor.name} cannot be divided: ${reason}`,
        );
    }
    return model;
  }
  throw new ConfigError(
    `applyContextParallel takes a model of nn.gpt, nn.moe, nn.llama or nn.dit, not ${classOf(model)}. In a module of your own, make context = contextParallel(group, …), cut the input with ` +
      'context.cut, and call context.attention in place of nn.attention. For a model under DDP or FSDP, give the module that is inside the wrapper',
  );
}
