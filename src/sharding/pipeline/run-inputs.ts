import type * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import { Mail } from './mail';
import { microbatchIn, microbatchOf } from './microbatches';
import type { LossFn } from './pipeline-context';
import type { PipelineStage } from './pipeline-stage';
import type { Action } from './schedules';

/** The inputs of a step or an evaluation of a pipeline. */
export interface RunInputs {
  /** This rank's stages. */
  readonly stages: readonly PipelineStage[];
  readonly numMicrobatches: number;
  /** A text that names the schedule. */
  readonly schedule: string;
  readonly x: tf.Tensor | undefined;
  /** The targets: a tensor, or lists and objects of tensors. */
  readonly target: unknown;
  readonly lossFn: LossFn<never> | undefined;
  /** All ranks' actions, by rank of the pipeline. */
  readonly actions: readonly (readonly Action[])[];
}

/** Makes the mail of a run. */
export function mailOf(engine: Engine, { stages, numMicrobatches, x, actions, schedule }: RunInputs): Mail {
  const [first] = stages as readonly [PipelineStage]; // a schedule has at least one stage
  const { group, numStages, outputShape } = first;
  const shape = (): readonly number[] => {
    const [rows = 0, ...rest] = x?.shape ?? [];
    return outputShape?.([rows / numMicrobatches, ...rest]) ?? [];
  };
  return new Mail({ engine, group, numStages, actions, schedule, shape });
}

/** Returns this rank's actions. */
export function ownActions({ stages, actions }: RunInputs): readonly Action[] {
  return actions[stages[0]?.group.rank ?? 0] ?? [];
}

/** Takes the input and the targets of a stage's forward; the caller disposes them. */
export function takeInputs(
  engine: Engine,
  { x, target, numMicrobatches }: RunInputs,
  mail: Mail,
  stage: PipelineStage,
  microbatch: number,
): { readonly input: tf.Tensor; readonly target: unknown } {
  const { stageIndex, isFirst, isLast } = stage;
  const input = isFirst
    ? microbatchOf(engine, x as tf.Tensor, microbatch, numMicrobatches) // the schedule has checked x
    : mail.take({ content: 'output', stage: stageIndex - 1, microbatch });
  return { input, target: isLast ? microbatchIn(engine, target, microbatch, numMicrobatches) : undefined };
}

/** Runs a stage's forward; on the last stage, also computes the loss. */
export function forwardOf(
  { lossFn }: RunInputs,
  stage: PipelineStage,
  input: tf.Tensor,
  target: unknown,
): tf.Tensor {
  if (target === undefined) return stage.forward(input, undefined);
  if (lossFn === undefined) return stage.forward(input, target as tf.Tensor); // the model's own loss takes a tensor
  return lossFn(stage.forward(input, undefined), target as never); // the caller gives a target of the type that the loss takes
}
