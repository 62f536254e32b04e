import * as tf from '../../core/tf';
import { type PartPass, recordPart } from '../../engine';
import type { LanguageModel, Module } from '../../nn';
import type { CollectiveOptions } from '../../wire';
import { requireDivisible } from '../pipeline/microbatches';
import { pipelineStages } from '../pipeline/pipeline-stages';
import { sumSharedGradients } from '../pipeline/shared-gradients';
import { type RankContext, tagModules } from '../run-as-unit';

/** This rank's stage of a pipeline. */
export interface NaivePipeline {
  /** The stage's part of the model, which the optimizer updates. */
  readonly module: Module;
  /**
   * Runs forward and backward of a batch in microbatches; gradients are those of the mean loss. Returns this loss on the last
   * stage, and null on other stages. Shapes: ids [B, T], targets [B·T]. Throws: SHAPE if the batch cannot be divided.
   */
  step(ids: tf.Tensor, targets: tf.Tensor, numMicrobatches: number): number | null;
}

/**
 * Divides a model's layers over the ranks, and runs them as a pipeline in the simplest way (GPipe): forward of all
 * microbatches, then backward of all microbatches. Each rank receives the input of its layers from the previous rank, sends
 * their output to the next rank, and waits for each message. All ranks give the same model, which must not be used afterwards.
 *
 * The real form (pipeline/) also has 1F1B, in which a rank runs a backward as soon as it can, so that it stores the activations
 * of at most as many microbatches as there are ranks; interleaved 1F1B; and zero bubble. It sends while it computes.
 * Source: Huang et al. 2019 (GPipe).
 */
export function naivePipeline(model: LanguageModel, { engine, group }: RankContext): NaivePipeline {
  const { dim } = model.shape;
  const { rank } = group;
  const [stage] = pipelineStages(model, { group }) as [ReturnType<typeof pipelineStages>[number]]; // one per rank
  tagModules(engine, stage.submod);

  const boundary = (before: number): CollectiveOptions => {
    return { cause: 'activation', module: `stage ${before} | ${before + 1}` };
  };

  const step = (ids: tf.Tensor, targets: tf.Tensor, numMicrobatches: number): number | null => {
    requireDivisible(ids, numMicrobatches, 'ids');
    const [batch = 0, seq = 0] = ids.shape;
    const rows = batch / numMicrobatches;
    const received = (from: number, before: number): tf.Tensor =>
      group.recv(tf.zeros([rows, seq, dim]), from, boundary(before)).wait();

    // 1. Forwards. Each pass stores what its backward needs.
    const passes: PartPass[] = [];
    let loss = 0;
    for (let micro = 0; micro < numMicrobatches; micro++) {
      const input = stage.isFirst
        ? tf.slice(ids, [micro * rows, 0], [rows, seq])
        : received(rank - 1, rank - 1);
      const target = stage.isLast ? tf.slice(targets, [micro * rows * seq], [rows * seq]) : undefined;
      const forward = (): tf.Tensor => stage.forward(input, target);
      const pass = recordPart(engine, {
        input: stage.isFirst ? null : input,
        forward,
        isLoss: stage.isLast,
      });
      if (stage.isLast) loss += (pass.output.dataSync()[0] ?? Number.NaN) / numMicrobatches;
      else group.send(pass.output, rank + 1, boundary(rank)).wait();
      passes.push(pass);
      tf.dispose([pass.output, input, ...(target === undefined ? [] : [target])]);
    }

    // 2. Backwards. The gradient of a stage's input is the gradient of the previous stage's output.
    for (const pass of passes) {
      const seed = stage.isLast ? tf.scalar(1 / numMicrobatches) : received(rank + 1, rank);
      const gradient = pass.backward(seed);
      if (gradient !== null) group.send(gradient, rank - 1, boundary(rank - 1)).wait();
      gradient?.dispose();
    }

    // 3. The first and the last stage both read a tied embedding: its gradient is the sum over both.
    sumSharedGradients(engine, stage.shared);
    return stage.isLast ? loss : null;
  };
  return { module: stage.submod, step };
}
