import { placeText } from '../../config';
import { ConfigError, isWhole, shown } from '../../core';
import type { Tensor } from '../../core/tf';
import { firstRanks, type Planted } from '../../launch';
import type { FileBatch, StepResult } from '../../training';
import { Walk, type WalkSink } from '../walk/walk';
import { Callbacks, type CallbackValue } from './callbacks';
import { type RunParts, RunTurns, sendRate, withCallLine } from './calls';
import { hasOwnLoss, runName } from './figures';
import { type EvaluateOptions, type Evaluation, evaluateRun } from './inference';
import { checkLoopOptions, type LoopOptions } from './loop-options';
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
  readonly planted: Planted;
  readonly warn: (message: string) => void;
}

/** The training of a run: its steps, its learning rate, and what the user adds to the steps. */
export class RunLoop<R> {
  readonly #run: R;
  readonly #parts: RunLoopParts;
  readonly #training: RunTraining;
  readonly #turns = new RunTurns();
  readonly #places = new ProgressPlaces();
  /** The functions that the user adds. */
  readonly callbacks = new Callbacks<R>();
  readonly logs: RunLogs;
  /** Loops of steps that have begun and not ended, including loops whose caller does other work between two steps. */
  readonly #loops = new Set<Pick<TrainingLoop<R>, 'interrupt' | 'stop'>>();
  /** The newest walk. */
  #walk: Walk | undefined;
  /** A learning rate that the ranks have not got yet; null if there is none. */
  #rate: number | null = null;

  constructor(run: R, parts: RunLoopParts, training: RunTraining) {
    this.#run = run;
    this.#parts = parts;
    this.#training = training;
    this.logs = new RunLogs(parts.warn);
  }

  /** The rate of the next step: see `Run.lr`. */
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

  /** Trains some steps: see `Run.step`. */
  async step(numSteps = 1, options: LoopOptions = {}): Promise<RunSummary> {
    const loop = this.#loop('run.step', numSteps, options);
    const { history, planted } = this.#parts;
    return await this.take('stepping', async () => {
      const first = history.steps.numSteps;
      this.#loops.add(loop);
      try {
        while (!loop.isDone) await loop.advance(numSteps);
        await loop.finish();
        const { drift } = history.replicas;
        return createRunSummary(history.steps.results(first), loop.endedEarly, drift, planted.note);
      } finally {
        this.#loops.delete(loop);
        loop.end();
      }
    });
  }

  /** Trains step by step: see `Run.steps`. */
  steps(numSteps = Number.POSITIVE_INFINITY, options: LoopOptions = {}): AsyncGenerator<StepResult, void> {
    return this.#iterate(this.#loop('run.steps', numSteps, options));
  }

  /** Walks over the next step: see `Run.walk`. */
  async walk(): Promise<Walk> {
    const { history, supervisor, torch } = this.#parts;
    if (torch !== undefined) {
      throw new ConfigError(
        "run.walk() halts ranks of engine wasm, and these are ranks of PyTorch; launch without engine: 'torch'",
      );
    }
    const { world, config } = history.phase;
    const step = history.lastStep + 1;
    const title = `${placeText({ config, world })}, step ${step}`;
    const begin = (walk: WalkSink): Promise<void> =>
      this.take('walking', async () => {
        const loop = this.#loop('run.walk', 1, {}, walk);
        this.#loops.add(loop);
        try {
          await loop.advance(1);
        } finally {
          this.#loops.delete(loop);
          loop.end();
        }
      });
    return await Walk.begin({ title, step, ranks: firstRanks(world), supervisor, begin }, (walk) => {
      this.#walk = walk;
    });
  }

  /** Evaluates the run: see `Run.evaluate`. */
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
    // The step of a walk is completed, as a running step is.
    if (this.#walk?.isOver === false) this.#walk.goOn();
    const { steps } = this.#parts.history;
    const [last] = steps.results(steps.numSteps - 1);
    return this.#turns.stop(() => this.#training.stop(), STOP_STEPS * (last?.seconds ?? 0));
  }

  /** Runs `work` alone, after the ranks got the learning rate that was set. [Note: lines of calls] */
  take<T>(business: Parameters<RunTurns['take']>[0], work: () => Promise<T>): Promise<T> {
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

  /** Runs `work` alone; the ranks get the learning rate that was set only with the next work. [Note: lines of calls] */
  takeToHeal<T>(work: () => Promise<T>): Promise<T> {
    const { calls, supervisor } = this.#parts;
    const { numInterrupts } = supervisor;
    return withCallLine(() => this.#turns.take('healing', () => calls.during(numInterrupts, work)));
  }

  /** Runs `work` alone, then the event's callbacks unless a callback called this method. Throws: CALLBACK, errors of `work`. */
  takeAndCall<Name extends 'onEvaluate' | 'onSave', T extends CallbackValue<Name>>(
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
        return this.callbacks.call(name, value, this.#run);
      });
      if (answer === 'stop') {
        for (const loop of this.#loops) loop.stop(stoppedBy(name, this.#parts.history.lastStep));
      }
      return value;
    });
  }

  async *#iterate(loop: TrainingLoop<R>): AsyncGenerator<StepResult, void> {
    this.#loops.add(loop);
    try {
      while (!loop.isDone) yield await this.take('stepping', () => loop.advance(1));
      await this.take('stepping', () => loop.finish());
    } finally {
      this.#loops.delete(loop);
      loop.end();
    }
  }

  #loop(
    name: 'run.step' | 'run.steps' | 'run.walk',
    numSteps: number,
    options: LoopOptions,
    walk?: WalkSink,
  ): TrainingLoop<R> {
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
    const stop = (): void => loop.pressStop();
    const progress = this.#places.of({
      stop,
      name: runName(this.#parts),
      numSteps: isEndless ? null : numSteps,
      hasOwnLoss: hasOwnLoss(history.phase.config),
      keepsCurve: options.curve === true || options.live === true,
      hasMemory: options.live === true,
      evaluations: () => history.evaluations,
    });
    const loop = new TrainingLoop(this.#home, { name, numSteps, options, progress, walk });
    return loop;
  }

  get #home(): LoopHome<R> {
    return {
      run: this.#run,
      parts: this.#parts,
      training: this.#training,
      turns: this.#turns,
      callbacks: this.callbacks,
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
