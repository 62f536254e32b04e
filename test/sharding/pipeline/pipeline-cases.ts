import type { PipelineScheduleName } from '../../../src/config/settings/pipeline';
import * as tf from '../../../src/core/tf';
import { Sequential } from '../../../src/nn/containers';
import { Linear } from '../../../src/nn/linear';
import { gpt } from '../../../src/nn/models/gpt';
import { llama } from '../../../src/nn/models/llama';
import { Module } from '../../../src/nn/module';
import { LayerNorm } from '../../../src/nn/norms';
import type { Split } from '../../../src/sharding/pipeline/pipeline-stages';

/** A pipeline that is compared with a single process. */
export interface PipelineCase {
  readonly model: keyof typeof MODELS;
  readonly schedule: PipelineScheduleName;
  readonly numMicrobatches: number;
  /** Ranks of the pipeline; the others are data-parallel. */
  readonly numRanks: number;
  readonly virtualStages?: number;
  readonly split?: Split;
  readonly wrap?: 'DDP' | 'fullyShard';
  readonly maxNorm?: number;
  readonly recompute?: boolean;
  /** By the naive form, which runs a language model by GPipe. */
  readonly isNaive?: boolean;
  /** Rows of a step's batch over all ranks. Default 12. */
  readonly rows?: number;
}

const SMALL = { dim: 8, heads: 2, vocab: 19, seq: 6 } as const;

/** A model of its own, whose forward applies its children in order. */
class Net extends Module {
  readonly first = new Linear(5, 8);
  readonly norm = new LayerNorm(8);
  readonly second = new Linear(8, 8);
  readonly last = new Linear(8, 3);

  forward(x: tf.Tensor): tf.Tensor {
    return this.last.apply(this.second.apply(this.norm.apply(this.first.apply(x))));
  }
}

/** Models of 5 layers and smaller; all have values of the same seed on every rank. */
export const MODELS = {
  'tied GPT': () => gpt({ ...SMALL, layers: 5, seed: 3 }),
  'plain GPT': () => gpt({ ...SMALL, layers: 4, tied: false, seed: 3 }),
  'wide GPT': () => gpt({ ...SMALL, layers: 8, seed: 3 }),
  Llama: () => llama({ ...SMALL, layers: 3, kvHeads: 1, ffn: 12, tied: true, seed: 3 }),
  Sequential: () =>
    new Sequential(
      new Linear(5, 8),
      (x: tf.Tensor) => tf.tanh(x),
      new Linear(8, 8),
      (x: tf.Tensor) => tf.tanh(x),
      new Linear(8, 3),
    ).manualSeed(3),
  Net: () => new Net().manualSeed(3),
} as const satisfies Record<string, () => Module>;

/** Whether the model takes tokens and computes its own loss. */
export function isLanguageModel(name: keyof typeof MODELS): boolean {
  return name !== 'Sequential' && name !== 'Net';
}

/** The default of `rows`. */
export const ROWS = 12;
export const NUM_STEPS = 3;

/** Returns the batch of a step: ids [rows, T] and targets [rows · T], or rows of numbers. */
export function batchOf(
  { model, rows = ROWS }: PipelineCase,
  step: number,
): { readonly x: tf.Tensor; readonly y: tf.Tensor } {
  const { seq, vocab } = SMALL;
  if (isLanguageModel(model)) {
    return {
      x: tf.randomUniform([rows, seq], 0, vocab, 'int32', 10 + step),
      y: tf.randomUniform([rows * seq], 0, vocab, 'int32', 20 + step),
    };
  }
  return {
    x: tf.randomNormal([rows, 5], 0, 1, 'float32', 10 + step),
    y: tf.randomNormal([rows, 3], 0, 1, 'float32', 20 + step),
  };
}

/** The loss of a model that has none of its own. */
export const squaredError = (output: tf.Tensor, target: tf.Tensor): tf.Tensor =>
  tf.mean(tf.square(tf.sub(output, target)));
