import { tensorsIn } from '../../core';
import * as tf from '../../core/tf';
import { untracked } from '../../engine';
import type { Mail } from './mail';
import type { PipelineContext } from './pipeline-context';
import type { PipelineStage } from './pipeline-stage';
import { forwardOf, mailOf, ownActions, type RunInputs, takeInputs } from './run-inputs';
import type { Action } from './schedules';

/** The forwards of a pipeline on this rank, without gradients. */
export class ForwardRun {
  readonly #context: PipelineContext;
  readonly #inputs: RunInputs;
  readonly #mail: Mail;
  #result: tf.Tensor | null = null;

  constructor(context: PipelineContext, inputs: RunInputs) {
    this.#context = context;
    this.#inputs = inputs;
    this.#mail = mailOf(context.engine, inputs);
  }

  /** Runs all forwards, and returns the result of the last stage, which the caller disposes; null on other ranks. */
  finish(): tf.Tensor | null {
    const abandon = (): void => {
      this.#mail.abandon();
      this.#result?.dispose();
    };
    const forget = this.#context.engine.onRecover(abandon);
    try {
      for (const action of ownActions(this.#inputs)) this.#forward(action);
      this.#mail.finish();
      return this.#result;
    } catch (error) {
      const cause = this.#mail.causeOf(error);
      abandon();
      throw cause;
    } finally {
      forget();
    }
  }

  #forward({ chunk, microbatch }: Action): void {
    const stage = this.#inputs.stages[chunk] as PipelineStage; // an action's chunk is an index of `stages`
    const { input, target } = takeInputs(this.#context.engine, this.#inputs, this.#mail, stage, microbatch);
    try {
      const output = untracked(() => tf.keep(tf.tidy(() => forwardOf(this.#inputs, stage, input, target))));
      if (stage.isLast) this.#result = output;
      else {
        this.#mail.send({ content: 'output', stage: stage.stageIndex, microbatch }, output);
        output.dispose();
      }
    } finally {
      tf.dispose([input, ...tensorsIn(target)]);
    }
  }
}
