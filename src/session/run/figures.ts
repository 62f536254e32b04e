import { availableParallelism } from 'node:os';
import { z } from 'zod';
import {
  anyText,
  countSchema,
  index,
  isOwnModel,
  isVideoModel,
  modelShape,
  parseOptions,
  placeText,
  requireKind,
  type ShapeOf,
  type TrainConfig,
  wholeSchema,
} from '../../config';
import { ConfigError } from '../../core';
import {
  type CommTimelineOptions,
  createTable,
  type DataFrame,
  type Figure,
  type MemoryOptions,
  notRecorded,
  type RunView,
  runFigures,
  sessionGuesses,
  shownAsTables,
  type Table,
  type TrafficOptions,
} from '../../figures';
import { ownOnMeta } from '../../launch';
import { forecastRun, type MetaOwn, type RunForecast } from '../../planner';
import { type Link, linkText, type Nodes } from '../../wire';
import type { RunParts } from './calls';
import type { Phase, RunHistory } from './history';

/** The numbers behind the figures of recorded steps, as tables. */
export type RunFrames = Readonly<Record<'steps' | 'memory' | 'comm' | 'timeline', DataFrame>>;

const TIMELINE_FORMS = ['lanes', 'pipeline'] as const;

/** Options that say how a step's times are drawn. */
export interface TimelineOptions extends CommTimelineOptions {
  /** 'lanes' (default) draws main thread and wire of every rank; 'pipeline' draws the actions of a pipeline's schedule. */
  readonly as?: (typeof TIMELINE_FORMS)[number];
}

/** Options that say how bytes are drawn. */
export interface CommOptions extends TrafficOptions {
  /** 'causes' (default) groups the bytes by cause; 'traffic' groups them by sender and receiver. */
  readonly as?: 'causes' | 'traffic';
}

const MEMORY = {
  over: z.enum(['time', 'ranks']),
  space: z.enum(['device', 'both']),
  rank: wholeSchema,
  step: wholeSchema,
} satisfies ShapeOf<MemoryOptions>;

const COMM = {
  as: z.enum(['causes', 'traffic']).default('causes'),
  step: wholeSchema,
  ranksPerNode: countSchema,
} satisfies ShapeOf<CommOptions>;

const TIMELINE = {
  as: z.enum(TIMELINE_FORMS).default('lanes'),
  step: wholeSchema,
} satisfies ShapeOf<TimelineOptions>;

/** Recorded steps, and how figures show them. */
export interface RecordedSteps {
  readonly history: RunHistory<{ readonly world: number }>;
  /** Losses of the steps, in order. */
  readonly losses: number[];
  /** Says why there is nothing to draw before the first step. */
  readonly none: string;
  /** Returns the data for the figures of one step (default: the last step). */
  viewOf(step?: number): RunView;
  lossFigure(): Figure;
  /** Returns the table of the steps, with one row per step. */
  stepsTable(): Table;
}

/** The figures and tables of recorded steps: of a run, or of a job's cells and functions. */
export abstract class StepFigures {
  /** The steps to draw. */
  protected abstract get recorded(): RecordedSteps;

  /**
   * The data that figures draw: the steps that were made with the newest config, or by the newest cell.
   * @internal
   */
  get view(): RunView {
    return this.recorded.viewOf();
  }

  /** Mean loss over the ranks, step by step; NaN for a step of cells without a loss. */
  get losses(): number[] {
    return this.recorded.losses;
  }

  /**
   * Draws the memory of one step by cause, in bytes, over time or at every rank's peak. Throws: CONFIG before the first step.
   * @example
   * run.memory();
   * job.memory({ over: 'time', rank: 0 }); // of the last step of %%ranks cells and job.on().run
   */
  memory(options: MemoryOptions = {}): Figure {
    const drawn = parseOptions('memory({ … })', options, MEMORY);
    return this.#draw(drawn.step, (view) => runFigures.memory(view, drawn));
  }

  /**
   * Draws the bytes that are sent in one step, by cause; `as: 'traffic'` draws who sends them to whom, by axis of the mesh.
   * Throws: CONFIG before the first step.
   * @example
   * run.comm();
   * run.comm({ as: 'traffic', ranksPerNode: 2 }); // as if each machine had two ranks
   */
  comm(given: CommOptions = {}): Figure {
    const { as, ...options } = parseOptions('comm({ … })', given, COMM);
    return this.#draw(options.step, (view) =>
      as === 'traffic' ? runFigures.traffic(view, options) : runFigures.comm(view),
    );
  }

  /**
   * Draws one step of all ranks: when they compute and wait, and when the wire is used. `as: 'pipeline'` draws the schedule of a
   * pipeline's step, as predicted and as replayed with a core per rank. Throws: CONFIG before the first step, for an unknown
   * form, and for 'pipeline' if the model has no pipeline.
   */
  timeline(options: TimelineOptions = {}): Figure {
    const { as, step } = parseOptions('timeline({ … })', options, TIMELINE);
    return this.#draw(step, (view) =>
      as === 'pipeline'
        ? runFigures.pipeline(view, step)
        : runFigures.timeline(view, step === undefined ? {} : { step }),
    );
  }

  /** Returns a table of each process's resident memory at the end of a step (default: the last), by kind; no byte is left out. */
  processes(step?: number): Table {
    const { recorded } = this;
    requireSteps(recorded, step);
    return runFigures.processes(recorded.viewOf(step).records, step);
  }

  /** Draws the loss over all steps; for a run, with a mark at each reshard. Throws: CONFIG before the first step. */
  loss(): Figure {
    return this.#draw(undefined, () => this.recorded.lossFigure());
  }

  /** Returns the numbers behind the figures as danfojs DataFrames; the first call loads danfojs (seconds). */
  async frames(): Promise<RunFrames> {
    return shownAsTables({
      steps: await this.recorded.stepsTable().frame(),
      memory: await this.memory().frame(),
      comm: await this.comm().frame(),
      timeline: await this.timeline().frame(),
    });
  }

  /** Draws a figure, and shows the user's guesses about it. */
  #draw(step: number | undefined, figure: (view: RunView) => Figure): Figure {
    const { recorded } = this;
    requireSteps(recorded, step);
    return sessionGuesses().reveal(figure(recorded.viewOf(step)));
  }
}

/** The figures of a run. */
export abstract class RunFigures extends StepFigures {
  protected abstract get drawn(): RunParts;

  protected get recorded(): RecordedSteps {
    const { own, data } = this.drawn;
    return stepsOfRun(this.drawn, own && ownOnMeta(own.functions, data));
  }

  /**
   * The run's name in titles of figures: its strategy, with a number if other runs of the job began with it before, until you
   * assign a text. Throws: CONFIG for a name that is not a text.
   * @example
   * run.name = 'prefetch off';
   */
  get name(): string {
    return runName(this.drawn);
  }

  set name(name: string) {
    requireKind('run.name', 'the name', name, anyText);
    this.drawn.history.name = name;
  }

  /**
   * Says how many runs of the job, with this one, began with its strategy.
   * @internal
   */
  set numAlike(count: number) {
    this.drawn.history.numAlike = count;
  }
}

function requireSteps({ history, none }: RecordedSteps, step: number | undefined): void {
  if (history.steps.numSteps === 0) throw new ConfigError(none);
  if (step !== undefined) requireKind('a figure of a step', 'step', step, index);
}

/** Returns the data that a run's figures use. The forecast is a dry run of the run's config with the user's functions. */
export function viewOf(
  { config, ...run }: Omit<RunView, 'strategy' | 'forecast'> & { readonly config: TrainConfig },
  own?: MetaOwn,
): RunView {
  let known: RunForecast | null | undefined;
  return {
    ...run,
    strategy: config.parallel.strategy,
    hasOwnLoss: hasOwnLoss(config),
    forecast() {
      if (known === undefined) known = forecastRun(config, run.world, own, run.records.at(-1)?.step);
      return known;
    },
  };
}

/** Whether a config's loss may differ from cross-entropy. */
export function hasOwnLoss(config: TrainConfig): boolean {
  const shape = modelShape(config);
  return config.loss !== null || config.dpo !== null || isOwnModel(shape) || isVideoModel(shape);
}

/**
 * Returns a run's name in titles: what the user assigned, else its strategy, with a number from the second run of the job on that
 * began with this strategy.
 */
export function runName({ history: { name, phase, numAlike } }: Pick<RunParts, 'history'>): string {
  const { strategy } = phase.config.parallel;
  return name ?? (numAlike > 1 ? `${strategy}, run ${numAlike}` : strategy);
}

/** Returns the steps of a run's history, in the form that figures show. */
function stepsOfRun(
  {
    history,
    link,
    nodes,
    torch,
    calls: { ended },
  }: Pick<RunParts, 'history' | 'link' | 'nodes' | 'torch' | 'calls'>,
  own: MetaOwn | undefined,
): RecordedSteps {
  return {
    history,
    get losses() {
      return history.losses;
    },
    none:
      ended === undefined
        ? 'this run has taken no step yet, so there is nothing to draw; await run.step() first'
        : `this run has ended without a complete step, so there is nothing to draw: ${ended.message}`,
    viewOf: (step) => {
      const place = phaseOf(history, { link, nodes }, step);
      const view = { ...viewOf(place, own), name: runName({ history }) };
      // A dry run predicts this library's ranks, not those of PyTorch.
      return torch === undefined ? view : { ...view, forecast: () => null };
    },
    lossFigure() {
      const [, ...later] = history.phases;
      const marks = later.map((phase) => ({ step: phase.firstStep, text: placeText(phase) }));
      const name = later.length === 0 ? runName({ history }) : (history.name ?? '');
      return runFigures.loss(
        [
          {
            name,
            ...history.lossesByStep(),
            margins: history.margins,
            hasOwnLoss: hasOwnLoss(history.phase.config),
            evaluations: history.evaluations,
          },
        ],
        { marks },
      );
    },
    stepsTable() {
      const results = history.steps.results();
      return createTable(
        results.map(({ spans, experts: _, rankRows: __, rewards, ...result }) => ({
          ...result,
          ...rewards,
          ...spans,
          loss: result.loss,
        })),
      );
    },
  };
}

/** Returns the phase of a step, with the phase's records. Default: the last step, even if a later phase has begun. */
export function phaseOf<P extends { readonly world: number }>(
  history: RunHistory<P>,
  wires: JobWires,
  step?: number,
): Phase<P> & Omit<RunView, 'strategy' | 'forecast'> {
  const phase = history.stepsOf(step ?? history.lastStep);
  if (step !== undefined && history.steps.numSteps > 0 && !phase.records.some((one) => one.step === step)) {
    const newest = [...new Set(phase.records.map((one) => one.step))];
    throw notRecorded(step, history.firstStep, history.lastStep, newest);
  }
  const { nodes } = wires;
  const placed = nodes === undefined ? {} : { ranksPerNode: nodes.ranksPerNode };
  return { ...phase, ...placed, note: noteOf(phase.world, wires) };
}

/** The shaped links of a job, and its nodes. */
export interface JobWires {
  readonly link?: Link | undefined;
  readonly nodes?: Nodes | undefined;
}

/** Returns a note that says how `world` ranks share this machine's cores, and over which links they communicate. */
function noteOf(world: number, { link, nodes }: JobWires): string {
  const ranks = world === 1 ? '1 rank has' : 'which share';
  const cores = availableParallelism();
  const shared =
    world > 1 && world === cores ? 'with a core each' : `${ranks} ${cores} ${cores === 1 ? 'core' : 'cores'}`;
  const wire = link === undefined ? '' : `, ${linkText(link)}`;
  const inside = nodes?.link == null ? '' : `, ${linkText(nodes.link)} within`;
  const among =
    nodes === undefined ? '' : `${wire === '' ? ', in' : ' between'} nodes of ${nodes.ranksPerNode}`;
  return `${shared}${wire}${among}${inside}`;
}
