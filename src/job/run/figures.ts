import { availableParallelism } from 'node:os';
import type { TrainConfig } from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import { commCauses } from '../../figures/comm-causes';
import { type CommTimelineOptions, commTimeline } from '../../figures/comm-timeline';
import type { Figure } from '../../figures/figure';
import type { DataFrame } from '../../figures/frame';
import { lossCurve } from '../../figures/loss-curve';
import { type MemoryOptions, memoryFigure } from '../../figures/memory-figure';
import { processTable } from '../../figures/process-table';
import { notRecorded, type RunView } from '../../figures/run-view';
import { createTable, type Table } from '../../figures/table';
import type { StepResult } from '../../train/step-result';
import { type Link, linkText } from '../../transport/link';
import { sessionGuesses } from './guesses';
import type { RunHistory } from './history';
import type { StepRecords } from './steps';
import { placeText } from './text';
import { viewOf } from './view';

/** The figures and tables of a run. */
export abstract class RunFigures {
  /** The ledgers of all ranks, step by step, rank by rank. `[...run.records]` loads all: tens of kilobytes per step and rank. */
  readonly records: StepRecords;
  protected readonly history: RunHistory;
  readonly #link: Link | undefined;

  protected constructor(history: RunHistory, link: Link | undefined) {
    this.history = history;
    this.records = history.steps;
    this.#link = link;
  }

  /** The current config; resharding changes it. */
  get config(): TrainConfig {
    return this.history.phase.config;
  }

  /** Number of ranks that train. */
  get world(): number {
    return this.history.phase.world;
  }

  /** For subtitles: how ranks share this machine, and over which wire. */
  get note(): string {
    return this.#noteOf(this.world);
  }

  /** Number of the last step, from 1; steps before a loaded checkpoint count too. 0 before the first. */
  get lastStep(): number {
    return this.history.lastStep;
  }

  /** The result of each step. */
  get results(): readonly StepResult[] {
    return this.history.steps.results();
  }

  /** Mean loss over all ranks, step by step. */
  get losses(): number[] {
    return this.history.losses;
  }

  /** Memory of one step by cause, over time or at every rank's peak. */
  memory(options: MemoryOptions = {}): Figure {
    return this.#figure((view) => memoryFigure(view, options), options.step);
  }

  /** The bytes sent in one step, by cause. */
  comm(): Figure {
    return this.#figure(commCauses);
  }

  /** One step of all ranks: computing, waiting, and the wire's use. */
  timeline(options: CommTimelineOptions = {}): Figure {
    return this.#figure((view) => commTimeline(view, options), options.step);
  }

  /**
   * The memory of each rank's process at the end of a step (default: the last), with a name for every resident byte.
   */
  processes(step?: number): Table {
    return processTable(this.#viewOf(step).records, step);
  }

  /** The loss over all steps, with a mark at each reshard. */
  loss(): Figure {
    const [first, ...later] = this.history.phases;
    const marks = later.map((phase) => ({ step: phase.firstStep, text: placeText(phase) }));
    const name = later.length === 0 ? (first?.config.parallel.strategy ?? '') : '';
    return this.#figure(() => lossCurve([{ name, ...this.history.lossesByStep() }], { marks }));
  }

  /** The numbers behind the figures as danfojs DataFrames; its library loads on first use (seconds). */
  async frames(): Promise<Readonly<Record<'steps' | 'memory' | 'comm' | 'timeline', DataFrame>>> {
    const steps = createTable(
      this.results.map(({ spans, ...result }) => ({ ...result, ...spans, loss: result.loss })),
    );
    return {
      steps: await steps.frame(),
      memory: await this.memory().frame(),
      comm: await this.comm().frame(),
      timeline: await this.timeline().frame(),
    };
  }

  /** The run as figures see it: the steps with the newest config. */
  get view(): RunView {
    return this.#viewOf(undefined);
  }

  #figure(draw: (view: RunView) => Figure, step?: number): Figure {
    if (this.records.numSteps === 0) {
      throw new ConfigError(
        'this run has taken no step yet, so there is nothing to draw; await run.step() first',
      );
    }
    return sessionGuesses().reveal(draw(this.#viewOf(step)));
  }

  /** The phase of a step; between a reshard and the first step after it, the earlier phase. */
  #viewOf(step: number | undefined): RunView {
    const { history } = this;
    const phase = history.stepsOf(step ?? history.lastStep);
    if (step !== undefined && history.steps.numSteps > 0 && !phase.records.some((one) => one.step === step)) {
      throw notRecorded(step, history.firstStep, history.lastStep);
    }
    return viewOf({ ...phase, note: this.#noteOf(phase.world) });
  }

  #noteOf(world: number): string {
    const ranks = world === 1 ? '1 rank has' : `${world} ranks share`;
    const cores = availableParallelism();
    const wire = this.#link === undefined ? '' : `, ${linkText(this.#link)}`;
    return `${ranks} ${cores} ${cores === 1 ? 'core' : 'cores'}${wire}`;
  }
}
