import { unbroken } from '../../cell';
import { ShardlabError } from '../../core';
import { counted } from '../../figures';
import type { RankStep } from '../../launch';
import type { StepResult } from '../../training';
import type { WalkSink } from '../walk/walk';
import type { Callbacks } from './callbacks';
import type { RunParts, RunTurns } from './calls';
import { loadRun, saveRun } from './checkpoints';
import { evaluateRun } from './inference';
import { isOutOfPatience, type LoopOptions } from './loop-options';
import { OutputFolder } from './output-folder';
import type { StepProgress } from './progress';
import type { RunLogs } from './run-logs';
import type { RunTraining } from './training';

/** The parts of a run that its training loops use. */
export interface LoopHome<R> {
  readonly run: R;
  readonly parts: RunParts;
  readonly training: RunTraining;
  readonly turns: RunTurns;
  readonly callbacks: Callbacks<R>;
  readonly logs: RunLogs;
  /** Sends the ranks the learning rate that the user has set, if they have not got it yet. */
  readonly sendRate: () => Promise<void>;
}

/** The call that began a loop: its name, options and progress. */
export interface LoopCall {
  /** 'run.step' or 'run.steps'; messages contain it. */
  readonly name: string;
  /** The most steps; Infinity if the loop runs until its caller ends it. */
  readonly numSteps: number;
  readonly options: LoopOptions;
  readonly progress: StepProgress;
  /** Gets the points of a walked step. */
  readonly walk?: WalkSink | undefined;
}

/**
 * The steps of one call, and what happens between them: logs, callbacks, evaluations, saves, an early stop. Steps without anything
 * between them run on the ranks as one piece of work.
 */
export class TrainingLoop<R> {
  readonly #home: LoopHome<R>;
  readonly #call: LoopCall;
  readonly #folder: OutputFolder | undefined;
  #numDone = 0;
  #endedEarly: string | null = null;
  #isInterrupted = false;
  #isStopPressed = false;
  readonly #notes: string[] = [];

  constructor(home: LoopHome<R>, call: LoopCall) {
    this.#home = home;
    this.#call = call;
    const { outputDir } = call.options;
    this.#folder = outputDir === undefined ? undefined : new OutputFolder(outputDir);
  }

  /** The reason why the steps ended before the wanted number; null if they did not end early. */
  get endedEarly(): string | null {
    return this.#endedEarly;
  }

  get isDone(): boolean {
    return this.#endedEarly !== null || this.#numDone >= this.#call.numSteps;
  }

  /**
   * Runs at most `most` steps, and then the work that is due after the last step (logs, callbacks, an evaluation, a save).
   * Returns the last step's result. Throws: INTERRUPTED, CALLBACK, and errors of steps, evaluations and saves.
   */
  async advance(most: number): Promise<StepResult> {
    try {
      this.#requireGoing();
      const last = await this.#steps(Math.min(most, this.#numToNextStop()));
      this.#requireGoing();
      await this.#followUp(last);
      this.#requireGoing();
      if (this.#isStopPressed && !this.isDone) this.stop(stoppedBy('the Stop button', last.step));
      return last;
    } catch (error) {
      const isInterrupt = error instanceof ShardlabError && error.code === 'INTERRUPTED';
      throw isInterrupt ? this.#interrupted() : error;
    }
  }

  /** Ends the loop after the running step. */
  interrupt(): void {
    this.#isInterrupted = true;
  }

  /** Ends the loop after the running step, as the Stop button does: the call then returns its steps. */
  pressStop(): void {
    this.#isStopPressed = true;
    this.#home.training.stop();
  }

  /** Ends the loop before its next step. */
  stop(reason: string): void {
    this.#endedEarly ??= reason;
  }

  /** Loads the best parameters after the last step of the call, if `loadBestModelAtEnd` is true. */
  async finish(): Promise<void> {
    const { parts } = this.#home;
    const { options, progress } = this.#call;
    if (options.loadBestModelAtEnd !== true || this.#folder === undefined) return;
    const best = this.#folder.best(parts.history.evaluations);
    if (best === undefined || best.step === parts.history.lastStep) return;
    await loadRun(parts, this.#folder.of(best.step), { parametersOnly: true }, progress.place);
    this.#notes.push(
      `loaded the best parameters, of step ${best.step}: validation loss ${best.loss.toFixed(4)}`,
    );
  }

  /** Shows the final state in the progress display, with the notes of the loop. */
  end(): void {
    const note = [this.#endedEarly ?? [], this.#notes].flat().join('; ') || null;
    unbroken(() => this.#call.progress.finish(note));
  }

  /** Runs steps between which nothing else is due; returns the result of the last step. */
  async #steps(numSteps: number): Promise<StepResult> {
    const { training, parts, logs, sendRate } = this.#home;
    let last: StepResult | undefined;
    await sendRate();
    const { progress, walk } = this.#call;
    const done = (ranks: readonly RankStep[]): void => {
      last = parts.history.keep(ranks);
      this.#numDone++;
      logs.step(last, ranks);
      progress.show(last, ranks);
      // A press between two calls on the ranks has found no steps to stop.
      if (this.#isStopPressed) training.stop();
    };
    await training.step(numSteps, done, walk);
    if (last === undefined) throw this.#interrupted();
    return last;
  }

  /** Returns the number of steps until a callback, an evaluation or a save is due, or until the last step. */
  #numToNextStop(): number {
    const { parts, callbacks, logs } = this.#home;
    const { numSteps, options } = this.#call;
    if (callbacks.has('onStepEnd') || logs.hasFunctions) return 1;
    const step = parts.history.lastStep;
    const toNext = [options.evalSteps, options.saveSteps].map((every) =>
      every === undefined ? Number.POSITIVE_INFINITY : every - (step % every),
    );
    return Math.min(numSteps - this.#numDone, ...toNext);
  }

  /** Does the work that is due after a step: logs, callbacks, an evaluation, a save. */
  async #followUp(last: StepResult): Promise<void> {
    const { parts, callbacks, logs, run } = this.#home;
    const { options, progress } = this.#call;
    const { step } = last;
    await this.#lend('onStepEnd', async () => {
      await logs.settle();
      return callbacks.call('onStepEnd', last, run);
    });
    if (isMultiple(step, options.evalSteps)) {
      const evaluation = await evaluateRun(parts, {}, progress.place);
      logs.evaluated(evaluation);
      await this.#lend('onEvaluate', async () => {
        await logs.settle();
        return callbacks.call('onEvaluate', evaluation, run);
      });
      if (isOutOfPatience(parts.history.evaluations, options)) {
        const { earlyStoppingPatience } = options;
        this.stop(`ended after step ${step}, by early stopping: ${noBetter(earlyStoppingPatience ?? 1)}`);
      }
    }
    if (!isMultiple(step, options.saveSteps) || this.#folder === undefined) return;
    const save = await saveRun(parts, this.#folder.of(step), {}, { place: progress.place });
    const { saveTotalLimit } = options;
    if (saveTotalLimit !== undefined) {
      this.#folder.rotate(saveTotalLimit, step, this.#folder.best(parts.history.evaluations)?.step);
    }
    await this.#lend('onSave', () => callbacks.call('onSave', save, run));
  }

  /** Runs the user's functions, which may use the run. */
  async #lend(name: string, work: () => Promise<'stop' | undefined>): Promise<void> {
    const answer = await this.#home.turns.lend(work);
    if (answer === 'stop') this.stop(stoppedBy(name, this.#home.parts.history.lastStep));
  }

  #requireGoing(): void {
    if (this.#isInterrupted && !this.isDone) throw this.#interrupted();
  }

  #interrupted(): ShardlabError {
    const { name, numSteps } = this.#call;
    const { history, calls } = this.#home.parts;
    const { lastStep } = history;
    const of = Number.isFinite(numSteps) ? ` of ${numSteps}` : '';
    const when = this.#numDone === 0 ? 'before its first step' : `after ${this.#numDone}${of} steps`;
    const outcome = calls.ended?.message ?? `the run is intact: step() continues from step ${lastStep}`;
    return new ShardlabError('INTERRUPTED', `${name} was interrupted ${when}; ${outcome}`);
  }
}

/** Returns a text that says which callback ended the training, and after which step. */
export function stoppedBy(callback: string, step: number): string {
  return `ended after step ${step}, by ${callback}`;
}

function noBetter(patience: number): string {
  return `no better validation loss in ${counted(patience, 'evaluation')}`;
}

function isMultiple(step: number, every: number | undefined): boolean {
  return every !== undefined && step % every === 0;
}
