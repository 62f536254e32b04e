import { availableParallelism } from 'node:os';
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
import { type Link, linkText } from '../../transport/link';
import { sessionGuesses } from './guesses';
import type { RunHistory } from './history';
import { placeText } from './text';
import { viewOf } from './view';

/** The numbers behind a run's figures. */
export type RunFrames = Readonly<Record<'steps' | 'memory' | 'comm' | 'timeline', DataFrame>>;

/** What is drawn and listed of a run's history; `Run` says what each shows. */
export class RunFigures {
  readonly #history: RunHistory;
  readonly #link: Link | undefined;

  constructor(history: RunHistory, link: Link | undefined) {
    this.#history = history;
    this.#link = link;
  }

  memory(options: MemoryOptions): Figure {
    return this.#figure((view) => memoryFigure(view, options), options.step);
  }

  comm(): Figure {
    return this.#figure(commCauses);
  }

  timeline(options: CommTimelineOptions): Figure {
    return this.#figure((view) => commTimeline(view, options), options.step);
  }

  processes(step: number | undefined): Table {
    return processTable(this.#viewOf(step).records, step);
  }

  loss(): Figure {
    const [first, ...later] = this.#history.phases;
    const marks = later.map((phase) => ({ step: phase.firstStep, text: placeText(phase) }));
    const name = later.length === 0 ? (first?.config.parallel.strategy ?? '') : '';
    return this.#figure(() => lossCurve([{ name, ...this.#history.lossesByStep() }], { marks }));
  }

  async frames(): Promise<RunFrames> {
    const steps = createTable(
      this.#history.steps
        .results()
        .map(({ spans, ...result }) => ({ ...result, ...spans, loss: result.loss })),
    );
    return {
      steps: await steps.frame(),
      memory: await this.memory({}).frame(),
      comm: await this.comm().frame(),
      timeline: await this.timeline({}).frame(),
    };
  }

  /** The run as figures see it: the steps with the newest config. */
  get view(): RunView {
    return this.#viewOf(undefined);
  }

  #figure(draw: (view: RunView) => Figure, step?: number): Figure {
    if (this.#history.steps.numSteps === 0) {
      throw new ConfigError(
        'this run has taken no step yet, so there is nothing to draw; await run.step() first',
      );
    }
    return sessionGuesses().reveal(draw(this.#viewOf(step)));
  }

  /** The phase of a step; between a reshard and the first step after it, the earlier phase. */
  #viewOf(step: number | undefined): RunView {
    const history = this.#history;
    const phase = history.stepsOf(step ?? history.lastStep);
    if (step !== undefined && history.steps.numSteps > 0 && !phase.records.some((one) => one.step === step)) {
      throw notRecorded(step, history.firstStep, history.lastStep);
    }
    return viewOf({ ...phase, note: this.#noteOf(phase.world) });
  }

  /** How `world` ranks share this machine, and over which wire. */
  #noteOf(world: number): string {
    const ranks = world === 1 ? '1 rank has' : `${world} ranks share`;
    const cores = availableParallelism();
    const wire = this.#link === undefined ? '' : `, ${linkText(this.#link)}`;
    return `${ranks} ${cores} ${cores === 1 ? 'core' : 'cores'}${wire}`;
  }
}
