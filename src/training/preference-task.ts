import type { DpoConfig } from '../config';
import { mean } from '../core';
import * as tf from '../core/tf';
import { type Engine, softmaxCrossEntropy } from '../engine';
import type { Module } from '../nn';
import type { BatchSource } from './data/batch';
import type { ReferenceModel } from './reference-model';
import type { Rewards, Task } from './task';
import { type TokenTensors, tokenTask } from './token-task';

/** What a task on pairs needs besides its model. */
interface PreferenceParts {
  readonly engine: Engine;
  /** Batches whose first half of rows has the chosen answers, and the second half the rejected ones, in the same order. */
  readonly batches: BatchSource;
  readonly reference: ReferenceModel;
  readonly dpo: DpoConfig;
}

/**
 * The task of direct preference optimization: the mean over pairs of −log σ(m), where m, the margin, is beta times
 * (log π(chosen) − log π(rejected)) − (log π_ref(chosen) − log π_ref(rejected)), and a log-probability is the sum over the tokens of
 * an answer. With label smoothing ε, the loss is −(1 − ε) log σ(m) − ε log σ(−m).
 * Source: Rafailov et al. 2023, eq. 7; TRL's DPOTrainer with loss_type 'sigmoid'.
 */
export function preferenceTask(model: Module, parts: PreferenceParts): Task<TokenTensors> {
  const { engine, batches, reference, dpo } = parts;
  /** The reference's log-probabilities of the batch's answers, and the rewards of the last loss. */
  let known: Float32Array = new Float32Array(0);
  let rewards: Rewards = { margin: 0, accuracy: 0, chosen: 0, rejected: 0 };
  return {
    ...tokenTask(engine, model, batches),
    prepare({ tensors }) {
      const [ids, labels] = tensors as [tf.Tensor, tf.Tensor]; // tokenTask makes two tensors
      known = tf.tidy(() => {
        const logProbs = answerLogProbs(reference.logits(ids), labels);
        // Ranks of a dry run have no values.
        return engine.hasValues ? logProbs.dataSync<'float32'>() : new Float32Array(logProbs.size);
      });
    },
    lossOf({ tensors }, seen) {
      const [ids, labels] = tensors as [tf.Tensor, tf.Tensor]; // tokenTask makes two tensors
      const logits = model.apply(ids) as tf.Tensor; // a language model returns logits
      seen?.(logits, { x: ids, y: tf.reshape(labels, ids.shape) });
      const ofReference = engine.tagged({ cause: 'batch', module: '' }, () => tf.tensor1d(known));
      const answers = tf.mul(tf.sub(answerLogProbs(logits, labels), ofReference), dpo.beta);
      if (engine.hasValues) rewards = rewardsOf(answers.dataSync<'float32'>());
      const [chosen, rejected] = tf.split(answers, 2) as [tf.Tensor, tf.Tensor]; // two halves
      return smoothedLoss(tf.sub(chosen, rejected), dpo.labelSmoothing);
    },
    measured: () => rewards,
    ...(reference.fingerprint !== undefined && { reference: reference.fingerprint }),
    abandon: () => reference.abandon(),
    dispose: () => reference.dispose(),
  };
}

/** Returns the mean of −(1 − ε) log σ(m) − ε log σ(−m) over the margins m. */
function smoothedLoss(margins: tf.Tensor, labelSmoothing: number): tf.Tensor {
  const wrong = tf.softplus(tf.neg(margins)); // −log σ(m)
  if (labelSmoothing === 0) return tf.mean(wrong);
  const right = tf.softplus(margins); // −log σ(−m)
  return tf.mean(tf.add(tf.mul(wrong, 1 - labelSmoothing), tf.mul(right, labelSmoothing)));
}

/**
 * Returns each row's log-probability of its answer: the sum over its labels, without IGNORED_LABEL. Shapes: logits [N, T, V], labels
 * [N · T] → [N].
 */
function answerLogProbs(logits: tf.Tensor, labels: tf.Tensor): tf.Tensor {
  const [rows = 1, seq = 1, vocab = 1] = logits.shape;
  const ofRows = tf.split(tf.reshape(logits, [rows * seq, vocab]), rows);
  const labelsOfRows = tf.split(labels, rows);
  const sums = ofRows.map((row, i) => {
    const loss = softmaxCrossEntropy(row, labelsOfRows[i] ?? labels, { consumeLogits: true });
    return tf.reshape(tf.mul(loss, -seq), [1]);
  });
  return tf.concat(sums);
}

/** Returns the mean rewards of a batch, whose first half is the chosen answers. */
function rewardsOf(answers: Float32Array): Rewards {
  const half = answers.length / 2;
  const [chosen, rejected] = [Array.from(answers.subarray(0, half)), Array.from(answers.subarray(half))];
  const margins = chosen.map((reward, i) => reward - (rejected[i] ?? Number.NaN));
  return {
    margin: mean(margins),
    accuracy: margins.filter((margin) => margin > 0).length / half,
    chosen: mean(chosen),
    rejected: mean(rejected),
  };
}
