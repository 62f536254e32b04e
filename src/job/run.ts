import { availableParallelism } from 'node:os';
import { inspect } from 'node:util';
import type { DataFrame } from 'danfojs-node';
import { currentDisplay } from '../cell/display';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from '../config/train-config';
import { ConfigError, ShardlabError } from '../core/errors';
import { commCauses } from '../figures/comm-causes';
import { type CommTimelineOptions, commTimeline } from '../figures/comm-timeline';
import type { Figure } from '../figures/figure';
import { lossCurve } from '../figures/loss-curve';
import { type MemoryOptions, memoryFigure } from '../figures/memory-figure';
import { processTable } from '../figures/process-table';
import { type RunView, viewOf } from '../figures/run-view';
import { createTable, DISPLAY, type DisplayBundle, type Table } from '../figures/table';
import type { StepRecord } from '../ledger/record';
import type { StepResult } from '../train/step-result';
import { type Link, linkText } from '../transport/link';
import type { CallSink } from './call';
import type { RankStep } from './messages';
import { createProgress } from './progress';
import { createRunSummary, type RunSummary } from './run-summary';
import { runText } from './run-text';
import { sessionLesson } from './session-lesson';
import { firstGrant, Stepping } from './stepping';
import type { Supervisor } from './supervisor';

/** Steps of which every allocation and free is kept, from the newest back; older records keep their totals. */
const NUM_CURVES = 2;
/** An interrupt waits at most so long for the running step's end; then the step is broken off. */
const STOP_MS = 3000;

export interface RunOptions {
  readonly config: TrainConfigInput;
  /** A safetensors file with the initial parameters; default: from the config's seed. */
  readonly init?: string | undefined;
  readonly numRanks: number;
  /** The job's shaped wire, where there is one. */
  readonly link?: Link | undefined;
  /** Number of the run in its job. */
  readonly number: number;
  readonly supervisor: Supervisor;
  /** Told when the run is disposed. */
  readonly disposed: (run: Run) => void;
}

/** A model in training on all ranks of a job. Shown in a notebook as one line. */
export class Run {
  readonly config: TrainConfig;
  /** What each step came to. */
  readonly results: readonly StepResult[];
  /** The ledgers of all ranks, step by step, rank by rank. */
  readonly records: readonly StepRecord[];
  readonly #options: RunOptions;
  readonly #results: StepResult[] = [];
  readonly #records: StepRecord[] = [];
  #stepping: Promise<void> | undefined;
  #isStopping = false;
  #steps: Stepping | undefined;
  #numParams = 0;
  #isDisposed = false;
  /** Why no further step can be made. */
  #ended: ShardlabError | undefined;

  private constructor(options: RunOptions, config: TrainConfig) {
    this.#options = options;
    this.config = config;
    this.results = this.#results;
    this.records = this.#records;
  }

  /** Builds the model on all ranks. Throws: CONFIG, OUT_OF_MEMORY and what ranks throw. */
  static async create(options: RunOptions): Promise<Run> {
    const run = new Run(options, parseTrainConfig(options.config));
    const { number, init } = options;
    const [numParams] = await run.#call<number>({ kind: 'train', run: number, config: run.config, init });
    run.#numParams = numParams ?? 0;
    return run;
  }

  /** Parameters of the whole model; tied ones count once. */
  get numParams(): number {
    return this.#numParams;
  }

  /** Number of ranks. */
  get world(): number {
    return this.#options.numRanks;
  }

  /** For subtitles: how ranks share this machine, and over which wire. */
  get note(): string {
    const ranks = this.world === 1 ? '1 rank has' : `${this.world} ranks share`;
    const cores = availableParallelism();
    const { link } = this.#options;
    const wire = link === undefined ? '' : `, ${linkText(link)}`;
    return `${ranks} ${cores} ${cores === 1 ? 'core' : 'cores'}${wire}`;
  }

  /** Mean loss over all ranks, step by step. */
  get losses(): number[] {
    return this.#results.map(({ loss }) => loss);
  }

  /**
   * Trains `numSteps` steps and shows loss and speed while they run. An interrupt ends it after the running step.
   * Throws: INTERRUPTED, OUT_OF_MEMORY and what ranks throw; CLOSED when the run has ended.
   */
  async step(numSteps = 1): Promise<RunSummary> {
    if (!Number.isInteger(numSteps) || numSteps < 1) {
      throw new ConfigError(`step(${numSteps}) is no number of steps; give a whole number from 1`);
    }
    if (this.#stepping !== undefined && !this.#isStopping) {
      throw new ConfigError('this run is stepping already; await the first step() before the next');
    }
    const work = this.#stepAfter(this.#stepping, numSteps);
    this.#stepping = work.then(
      () => undefined,
      () => undefined,
    );
    const ending = this.#stepping;
    try {
      return await work;
    } finally {
      if (this.#stepping === ending) this.#stepping = undefined;
    }
  }

  /** Memory of one step by cause, over time or at every rank's peak. */
  memory(options: MemoryOptions = {}): Figure {
    return this.#figure((view) => memoryFigure(view, options));
  }

  /** What was sent in one step and why, by cause. */
  comm(): Figure {
    return this.#figure(commCauses);
  }

  /** One step of all ranks: computing, waiting, and what the wire did meanwhile. */
  timeline(options: CommTimelineOptions = {}): Figure {
    return this.#figure((view) => commTimeline(view, options));
  }

  /** What each rank's process held at the end of a step (default: the last): every resident byte has a name. */
  processes(step?: number): Table {
    return processTable(this.#records, step);
  }

  /** The loss over all steps. */
  loss(): Figure {
    return this.#figure(() => lossCurve([{ name: this.config.parallel.strategy, losses: this.losses }]));
  }

  /** The numbers behind the figures as danfojs DataFrames; its library loads on first use (seconds). */
  async frames(): Promise<Readonly<Record<'steps' | 'memory' | 'comm' | 'timeline', DataFrame>>> {
    const steps = createTable(
      this.#results.map(({ spans, ...result }) => ({ ...result, ...spans, loss: result.loss })),
    );
    return {
      steps: await steps.frame(),
      memory: await this.memory().frame(),
      comm: await this.comm().frame(),
      timeline: await this.timeline().frame(),
    };
  }

  [DISPLAY](): DisplayBundle {
    return { 'text/plain': this[inspect.custom]() };
  }

  /** For hosts that inspect values. */
  [inspect.custom](): string {
    return runText({
      ...this.config.parallel,
      world: this.world,
      numParams: this.numParams,
      losses: this.losses,
    });
  }

  #figure(draw: (view: RunView) => Figure): Figure {
    if (this.#records.length === 0) {
      throw new ConfigError(
        'this run has taken no step yet, so there is nothing to draw; await run.step() first',
      );
    }
    return sessionLesson().reveal(draw(viewOf(this)));
  }

  /** Ends step() after the running step: whether it ended in time, or nothing ran. */
  async stop(): Promise<'stopped' | 'late' | 'idle'> {
    if (this.#stepping === undefined) return 'idle';
    this.#isStopping = true;
    this.#steps?.stop();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), STOP_MS);
    });
    const stopped = this.#stepping.then(() => 'stopped' as const);
    return Promise.race([stopped, late]).finally(() => clearTimeout(timer));
  }

  /** Frees the model on all ranks; what was recorded stays. */
  async dispose(): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#ended ??= new ShardlabError('CLOSED', 'this run was disposed; make another with job.train(config)');
    this.#options.disposed(this);
    await this.#callAll({ kind: 'disposeRun', run: this.#options.number });
  }

  /** A call that was stopped may still be ending its step. */
  async #stepAfter(stopped: Promise<void> | undefined, numSteps: number): Promise<RunSummary> {
    await stopped;
    this.#isStopping = false;
    return this.#stepMany(numSteps);
  }

  async #stepMany(numSteps: number): Promise<RunSummary> {
    const first = this.#results.length;
    const progress = createProgress(currentDisplay(), numSteps);
    const { numRanks, number: run, supervisor } = this.#options;
    const steps = new Stepping(
      { numSteps, numRanks },
      (grant) => supervisor.grant(grant),
      (done) => {
        const last = this.#keep(done);
        progress.show(this.#results.slice(first), last);
      },
    );
    this.#steps = steps;
    try {
      const work = { kind: 'steps', run, numSteps, grant: firstGrant(numSteps) } as const;
      await this.#call(work, { step: (rank, step) => steps.receive(rank, step) });
    } finally {
      this.#steps = undefined;
      progress.finish();
    }
    if (steps.numDone < numSteps) throw this.#stopped(steps.numDone, numSteps);
    return createRunSummary(this.#results.slice(first));
  }

  /** Keeps one step of all ranks. */
  #keep(steps: readonly RankStep[]): StepResult {
    const [first] = steps;
    if (first === undefined) throw new ShardlabError('INTERNAL', 'a step came back without results');
    this.#results.push(first.result);
    this.#records.push(...steps.map(({ record }) => record));
    this.#dropCurves();
    return first.result;
  }

  /** Long runs keep totals of every step, but not every allocation of every step. */
  #dropCurves(): void {
    const old = this.#records.length - (NUM_CURVES + 1) * this.#options.numRanks;
    for (let i = Math.max(0, old); i < old + this.#options.numRanks; i++) {
      const record = this.#records[i];
      if (record?.memory.curve) this.#records[i] = { ...record, memory: { ...record.memory, curve: null } };
    }
  }

  #stopped(done: number, numSteps: number): ShardlabError {
    return new ShardlabError(
      'INTERRUPTED',
      `run.step was interrupted after ${done} of ${numSteps} steps; the run is whole: step() goes on from step ${this.#results.length}`,
    );
  }

  /** Work on all ranks. A failure within a step leaves ranks with different parameters, so it ends the run. */
  async #call<T>(work: RunWork, sink: CallSink = {}): Promise<T[]> {
    if (this.#ended !== undefined) throw this.#ended;
    try {
      // Ranks answer each kind of work with the type that the caller names.
      return (await this.#callAll(work, sink)) as T[];
    } catch (error) {
      if (work.kind === 'steps') this.#ended = brokenOff(error, this.#results.length + 1);
      throw error;
    }
  }

  #callAll(work: RunWork, sink: CallSink = {}): Promise<unknown[]> {
    const ranks = Array.from({ length: this.#options.numRanks }, (_, rank) => rank);
    return this.#options.supervisor.run(ranks, work, sink);
  }
}

type RunWork = Parameters<Supervisor['run']>[1] & { kind: 'train' | 'steps' | 'disposeRun' };

function brokenOff(cause: unknown, step: number): ShardlabError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ShardlabError(
    'CLOSED',
    `this run broke off within step ${step}, so its ranks may hold different parameters; make another with job.train(config). It ended with: ${why}`,
    { cause },
  );
}
