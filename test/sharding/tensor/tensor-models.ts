import * as tf from '../../../src/core/tf';
import { Dropout } from '../../../src/nn/layers/dropout';
import { Linear } from '../../../src/nn/linear';
import { type GptOptions, gpt } from '../../../src/nn/models/gpt';
import { type LlamaOptions, llama } from '../../../src/nn/models/llama';
import { Module } from '../../../src/nn/module';
import { LayerNorm } from '../../../src/nn/norms';
import type { ParallelPlan } from '../../../src/sharding/tensor/parallelize-module';
import {
  ColwiseParallel,
  Replicate,
  RowwiseParallel,
  SequenceParallel,
  Shard,
} from '../../../src/sharding/tensor/styles';

/** What a run trains; 'own' and 'ownSequence' are `Own` with one of its plans. */
export type ModelCase =
  | ({ readonly kind: 'gpt' } & GptOptions)
  | ({ readonly kind: 'llama' } & LlamaOptions)
  | { readonly kind: 'own' | 'ownSequence'; readonly seed: number };

/** The sizes of a case's batches: tokens from 0 to vocab - 1. */
export interface BatchSizes {
  readonly vocab: number;
  readonly seq: number;
}

export function sizesOf(model: ModelCase): BatchSizes {
  return 'vocab' in model ? { vocab: model.vocab, seq: model.seq } : { vocab: VOCAB, seq: 6 };
}

export function modelOf(model: ModelCase): Module {
  if (model.kind === 'gpt') return gpt(withoutKind(model));
  if (model.kind === 'llama') return llama(withoutKind(model));
  return new Own(model.kind === 'ownSequence').manualSeed(model.seed);
}

function withoutKind<T extends { readonly kind: string }>({ kind: _kind, ...rest }: T): Omit<T, 'kind'> {
  return rest;
}

const VOCAB = 11;
const DIM = 12;
/** Neither 2 nor 3 ranks divide it. */
const INNER = 7;

/** A model of someone's own: its inner activation is not 0 at 0, and random elements of its residual are dropped. */
class Own extends Module {
  readonly into = new Linear(VOCAB, DIM);
  readonly norm = new LayerNorm(DIM);
  readonly up = new Linear(DIM, INNER);
  readonly down = new Linear(INNER, DIM);
  readonly gate = new Linear(DIM, DIM);
  readonly drop: Dropout;
  readonly out = new Linear(DIM, VOCAB);

  constructor(isSequence: boolean) {
    super();
    this.drop = new Dropout(isSequence ? 0 : 0.3);
  }

  forward(ids: tf.Tensor, targets: tf.Tensor): tf.Tensor {
    const x = this.into.apply(tf.cast(tf.oneHot(tf.cast(ids, 'int32'), VOCAB), 'float32'));
    const inner = this.down.apply(tf.sigmoid(this.up.apply(this.norm.apply(x))));
    const gated = tf.tanh(this.gate.apply(tf.add(x, this.drop.apply(inner))));
    const logits = this.out.apply(gated);
    const rows = tf.reshape(logits, [-1, VOCAB]);
    const labels = tf.oneHot(tf.cast(targets, 'int32'), VOCAB);
    return tf.neg(tf.mean(tf.sum(tf.mul(tf.logSoftmax(rows), labels), 1)));
  }
}

/** The plans of `Own`. */
export const OWN_PLANS: Readonly<Record<'own' | 'ownSequence', ParallelPlan>> = {
  own: {
    up: ColwiseParallel(),
    down: RowwiseParallel(),
    gate: RowwiseParallel({ inputLayouts: Replicate() }),
    out: ColwiseParallel({ outputLayouts: Replicate() }),
  },
  ownSequence: {
    into: RowwiseParallel({ inputLayouts: Replicate(), outputLayouts: Shard(1) }),
    norm: SequenceParallel(),
    drop: SequenceParallel(),
    up: ColwiseParallel({ inputLayouts: Shard(1) }),
    down: RowwiseParallel({ outputLayouts: Shard(1) }),
    gate: ColwiseParallel({ inputLayouts: Shard(1) }),
    out: RowwiseParallel(),
  },
};
