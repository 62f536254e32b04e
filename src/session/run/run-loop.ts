import { ConfigError, classOf, isWhole, shown } from '../../core';
import type { Tensor } from '../../core/tf';
import type { ParityFigure } from '../../figures';
import type { EvaluatedStep } from '../../launch';
import type { FileBatch, StepResult } from '../../training';
import { Callbacks, type CallbackValue, type RunCallback } from './callbacks';
import { type RunParts, RunTurns, sendRate, withCallLine } from './calls';
import { hasOwnLoss, StepFigures } from './figures';
import { type EvaluateOptions, type Evaluation, evaluateRun } from './inference';
import type { LogRow } from './log-file';
import { checkLoopOptions, type LoopOptions } from './loop-options';
import { type ComparedRun, compareTraining, type ParityOptions } from './parity';
import { createRunSummary, ProgressPlaces, type RunSummary } from './progress';
import { RunLogs } from './run-logs';
import type { RunTraining } from './training';
import { type LoopHome, stoppedBy, TrainingLoop } from './training-loop';

/** An interrupt waits at least for the time of this number of steps: twice the number that is granted in advance ([Note: grants]). */
const STOP_STEPS = 4;

/** The parts of a run that training needs. */
export interface RunLoopParts extends RunParts {
  /** The job's folder. */
  readonly folder: string;
  readonly warn: (message: string) => void;
}

/** The training of a run: its steps, its learning rate, and what the user adds to the steps. */
export abstract class RunLoop extends StepFigures {
  readonly #parts: RunLoopParts;
  readonly #training: RunTraining;
  readonly #turns = new RunTurns();
  readonly #places = new ProgressPlaces();
  readonly #callbacks = new Callbacks<this>();
  protected readonly logs: RunLogs;
  /** Loops of steps that have begun and not ended, including loops whose caller does other work between two steps. */
  readonly #loops = new Set<Pick<TrainingLoop<this>, 'interrupt' | 'stop'>>();
  /** A learning rate that the ranks have not got yet; null if there is none. */
  #rate: number | null = null;

  constructor(parts: RunLoopParts, training: RunTraining) {
    super();
    this.#parts = parts;
    this.#training = training;
    this.logs = new RunLogs(parts.warn);
  }

  /**
   * The learning rate that was set for the next step, else the last step's, else the config's. Setting it changes all
   * groups of parameters, as a loop over torch's optimizer.param_groups does; a schedule continues from the new rate
   * and scales its later rates. Throws: CONFIG for a value that is not a number from 0 on.
   * @example
   * run.lr = 1e-4;
   * await run.step(20);
   */
  get lr(): number {
    const { history } = this.#parts;
    const [last] = history.steps.results(history.steps.numSteps - 1);
    return this.#rate ?? last?.lr ?? history.phase.config.optimizer.lr;
  }

  set lr(lr: number) {
    if (!Number.isFinite(lr) || lr < 0)
      throw new ConfigError(`run.lr = ${lr}: give a number from 0 on, as 1e-4`);
    this.#rate = lr;
  }

  /** The validation losses so far, by step. */
  get evaluations(): readonly EvaluatedStep[] {
    return this.#parts.history.evaluations;
  }

  /**
   * Trains `numSteps` steps and shows loss and speed while they run; `options` say when the run is evaluated and saved, and when it
   * ends early. An interrupt ends the training after the running step.
   * Throws: CONFIG, INTERRUPTED, CALLBACK, OUT_OF_MEMORY and errors of ranks; CLOSED when the run has ended.
   * @example
   * await run.step(20);
   */
  async step(numSteps = 1, options: LoopOptions = {}): Promise<RunSummary> {
    const loop = this.#loop('run.step', numSteps, options);
    const { history } = this.#parts;
    return await this.take('stepping', async () => {
      const first = history.steps.numSteps;
      this.#loops.add(loop);
      try {
        while (!loop.isDone) await loop.advance(numSteps);
        await loop.finish();
        return createRunSummary(history.steps.results(first), loop.endedEarly, history.replicas.drift);
      } finally {
        this.#loops.delete(loop);
        loop.end();
      }
    });
  }

  /**
   * Trains step by step: each turn of the loop gets the result of one step, and the next step waits for the loop's body. Without
   * `numSteps`, it continues until `break`. `options` are those of `run.step`. Throws: as `run.step` does.
   * @example
   * for await (const { step, loss } of run.steps(20)) {
   *   if (loss < 1) break;
   *   if (step % 10 === 0) console.log(await run.sample('function ', { tokens: 20 }));
   * }
   */
  steps(numSteps = Number.POSITIVE_INFINITY, options: LoopOptions = {}): AsyncGenerator<StepResult, void> {
    return this.#iterate(this.#loop('run.steps', numSteps, options));
  }

  /**
   * Adds functions that the run calls while it trains; returns a function that removes them. The next step waits for a function that
   * is async. If one returns 'stop', the training ends after that step; if one throws, the call of run.step throws too, and the
   * run can continue. Throws: CONFIG.
   * @example
   * const remove = run.addCallback({
   *   onStepEnd: ({ loss }) => (loss < 0.5 ? 'stop' : undefined),
   *   onEvaluate: ({ step, loss }) => console.log(step, loss),
   * });
   * await run.step(5);
   * remove();
   */
  addCallback(callback: RunCallback<this>): () => void {
    return this.#callbacks.add(callback);
  }

  /**
   * From now on, writes a row per step and per evaluation into a file of JSON lines, or calls a function with each row. The file
   * is complete after each step. Rows are appended; if the run continues from a checkpoint, rows of later steps are removed from
   * the file's end. Returns a function that ends the log. Throws: CONFIG, IO.
   * @example
   * run.log('jsonl', 'log.jsonl');
   * const end = run.log((row) => row.kind === 'step' && console.log(row.step, row.loss));
   * await run.step(2);
   * end();
   */
  log(target: 'jsonl', path: string): () => void;
  log(target: (row: LogRow) => unknown): () => void;
  log(target: unknown, path?: unknown): () => void {
    return this.logs.add(target, path);
  }

  /**
   * Trains this run and another run for some steps. Compares losses, gradients, parameters, calls and bytes of collectives, and
   * memory by cause. Names the first difference: step, module, parameter. Both runs must have the same model, data, optimizer and
   * number of steps so far; their jobs' engines may differ. [Note: what counts as equal] Throws: CONFIG, errors of ranks.
   * @example
   * const [here, there] = await Promise.all([sl.launch({ ranks: 2 }), sl.launch({ ranks: 2 })]);
   * const sharded = await here.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });
   * const whole = await there.train({ model: 'tiny', parallel: { strategy: 'NO_SHARD' } });
   * await sharded.parity(whole, { steps: 2 });
   */
  async parity(other: this, options: ParityOptions = {}): Promise<ParityFigure> {
    if (!(other instanceof RunLoop))
      throw new ConfigError(`run.parity takes another run, as run.parity(other), not ${classOf(other)}`);
    return await compareTraining([this.#compared, other.#compared], options);
  }

  /**
   * Returns the mean loss on the rows that are never trained on, with dropout off. Every row counts once, even if ranks
   * cannot share the rows equally. `metrics` are functions of the model's output and the batch, which ranks call with
   * the scope; each result is the mean over all rows. Throws: CONFIG if the config's data have no validation rows, or for
   * metrics of a model that returns only its loss; errors of ranks.
   * @example
   * const run = await job.train({ model: 'tiny', data: { path: './text.txt', validation: 0.1 } });
   * const { loss, metrics } = await run.evaluate({
   *   metrics: { accuracy: (logits, { y }, { tf }) => tf.mean(tf.equal(tf.argMax(logits, -1), y)) },
   * });
   * [loss, metrics.accuracy];
   */
  async evaluate<Name extends string = never, Output = Tensor, Batch = FileBatch>(
    options: EvaluateOptions<Name, Output, Batch> = {},
  ): Promise<Evaluation<Name>> {
    return await this.takeAndCall('evaluating', 'onEvaluate', async () => {
      const evaluation = await evaluateRun(this.#parts, options);
      this.logs.evaluated(evaluation);
      return evaluation;
    });
  }

  /** Ends the running work after the running step. Returns whether the work ended in time, or 'idle' if there was no work. */
  async stop(): Promise<'stopped' | 'late' | 'idle'> {
    for (const loop of this.#loops) loop.interrupt();
    const { steps } = this.#parts.history;
    const [last] = steps.results(steps.numSteps - 1);
    return this.#turns.stop(() => this.#training.stop(), STOP_STEPS * (last?.seconds ?? 0));
  }

  /** Runs `work` alone, after the ranks got the learning rate that was set. [Note: lines of calls] */
  protected take<T>(business: Parameters<RunTurns['take']>[0], work: () => Promise<T>): Promise<T> {
    const { calls, supervisor } = this.#parts;
    const { numInterrupts } = supervisor;
    return withCallLine(() =>
      this.#turns.take(business, () =>
        calls.during(numInterrupts, async () => {
          await this.#sendRate();
          return await work();
        }),
      ),
    );
  }

  /** Runs `work` alone, then the event's callbacks unless a callback called this method. Throws: CALLBACK, errors of `work`. */
  protected takeAndCall<Name extends 'onEvaluate' | 'onSave', T extends CallbackValue<Name>>(
    business: Parameters<RunTurns['take']>[0],
    name: Name,
    work: () => Promise<T>,
  ): Promise<T> {
    const isInCallback = this.#turns.isLent;
    return this.take(business, async () => {
      const value = await work();
      if (isInCallback) return value;
      const answer = await this.#turns.lend(async () => {
        await this.logs.settle();
        return this.#callbacks.call(name, value, this);
      });
      if (answer === 'stop') {
        for (const loop of this.#loops) loop.stop(stoppedBy(name, this.#parts.history.lastStep));
      }
      return value;
    });
  }

  async *#iterate(loop: TrainingLoop<this>): AsyncGenerator<StepResult, void> {
    this.#loops.add(loop);
    try {
      while (!loop.isDone) yield await this.take('stepping', () => loop.advance(1));
      await this.take('stepping', () => loop.finish());
    } finally {
      this.#loops.delete(loop);
      loop.end();
    }
  }

  #loop(name: 'run.step' | 'run.steps', numSteps: number, options: LoopOptions): TrainingLoop<this> {
    const isEndless = name === 'run.steps' && numSteps === Number.POSITIVE_INFINITY;
    if (!isEndless && !isWhole(numSteps, 1)) {
      const method = name.slice('run.'.length);
      throw new ConfigError(
        `${method}(${shown(numSteps)}) is not a number of steps; give a whole number from 1`,
      );
    }
    const { history, warn } = this.#parts;
    for (const warning of checkLoopOptions(name, options, numSteps, {
      ...this.#parts,
      lastStep: history.lastStep,
    }))
      warn(warning);
    const progress = this.#places.of({
      numSteps: isEndless ? null : numSteps,
      hasOwnLoss: hasOwnLoss(history.phase.config),
      evaluations: () => history.evaluations,
    });
    return new TrainingLoop(this.#home, { name, numSteps, options, progress });
  }

  /** The parts of this run that a comparison needs. */
  get #compared(): ComparedRun {
    return { parts: this.#parts, run: this, take: (work) => this.take('comparing', work) };
  }

  get #home(): LoopHome<this> {
    return {
      run: this,
      parts: this.#parts,
      training: this.#training,
      turns: this.#turns,
      callbacks: this.#callbacks,
      logs: this.logs,
      sendRate: () => this.#sendRate(),
    };
  }

  async #sendRate(): Promise<void> {
    const lr = this.#rate;
    if (lr !== null) await sendRate(this.#parts, lr);
    if (this.#rate === lr) this.#rate = null;
  }
}
