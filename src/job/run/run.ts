import { join } from 'node:path';
import { inspect } from 'node:util';
import { configWarnings } from '../../config/config-warnings';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from '../../config/train-config';
import { itemBytes } from '../../core/dtypes';
import { ConfigError } from '../../core/errors';
import type { CommTimelineOptions } from '../../figures/comm-timeline';
import type { Figure } from '../../figures/figure';
import type { MemoryOptions } from '../../figures/memory-figure';
import type { RunView } from '../../figures/run-view';
import { DISPLAY, type DisplayBundle, type Table } from '../../figures/table';
import { type UnitFacts, unitsTable } from '../../figures/units-table';
import { SpillFile } from '../../ledger/spill-file';
import type { StepResult } from '../../train/step-result';
import type { Link } from '../../transport/link';
import { warnOnStderr } from '../control/folded-lines';
import type { RankGroups } from '../launch/groups';
import type { SaveDesk } from '../launch/save-desk';
import type { Supervisor } from '../launch/supervisor';
import { RunCalls } from './calls';
import { RunCheckpoints } from './checkpoints';
import { RunFigures, type RunFrames } from './figures';
import { RunHistory } from './history';
import { requireModelRoom } from './model-room';
import { planReshard, type ReshardChange } from './reshard-change';
import type { ReshardReport } from './reshard-report';
import type { RunLoad, RunLoadOptions, RunSave, RunSaveOptions } from './save';
import { StepFile } from './step-file';
import type { StepRecords } from './steps';
import type { RunSummary } from './summary';
import { placeText, runText } from './text';
import { RunTraining } from './training';
import { RunTurns } from './turns';

export interface RunOptions {
  readonly config: TrainConfigInput;
  /** A safetensors file with the initial parameters; default: from the config's seed. */
  readonly init?: string | undefined;
  /** Ranks of the job. */
  readonly numRanks: number;
  /** Ranks that train: the job's first. */
  readonly world: number;
  /** The job's shaped wire, if there is one. */
  readonly link?: Link | undefined;
  /** Number of the run in its job. */
  readonly number: number;
  /** The job's folder, for steps that are not in memory. */
  readonly folder: string;
  readonly supervisor: Supervisor;
  readonly groups: RankGroups;
  readonly saves: SaveDesk;
  /** Called when the run is disposed. */
  readonly disposed: (run: Run) => void;
}

/** A model in training on ranks of a job. Shown in a notebook as one line. */
export class Run {
  readonly #options: RunOptions;
  readonly #calls: RunCalls;
  readonly #checkpoints: RunCheckpoints;
  readonly #turns = new RunTurns();
  readonly #history: RunHistory;
  readonly #figures: RunFigures;
  readonly #training: RunTraining;
  #numParams = 0;
  #isDisposed = false;

  private constructor(options: RunOptions, config: TrainConfig) {
    const file = new SpillFile(join(options.folder, `run-${options.number}-steps`));
    const history = new RunHistory(config, options.world, new StepFile(file, (message) => warn([message])));
    const calls = new RunCalls(options.supervisor);
    const { number: run, saves } = options;
    this.#options = options;
    this.#calls = calls;
    this.#history = history;
    this.#figures = new RunFigures(history, options.link);
    this.#training = new RunTraining({ ...options, calls, history });
    this.#checkpoints = new RunCheckpoints({ run, saves, calls, history });
  }

  /** Builds the model on its ranks. Throws: CONFIG, OUT_OF_MEMORY and errors of ranks. */
  static async create(options: RunOptions): Promise<Run> {
    const run = new Run(options, parseTrainConfig(options.config));
    const { number, init, world, groups } = options;
    warn(configWarnings(options.config, run.config, world));
    requireModelRoom(run.config, world);
    const group = await groups.of(world);
    const work = { kind: 'train', run: number, config: run.config, init, group } as const;
    try {
      const [numParams] = await run.#calls.on<number>(world, work);
      run.#numParams = numParams ?? 0;
      return run;
    } catch (error) {
      // Ranks that had built the model when another rank failed still hold it.
      await run.#calls.free(world, number);
      throw await run.#training.advised(error);
    }
  }

  /** The ledgers of all ranks, step by step, rank by rank. `[...run.records]` loads all: tens of kilobytes per step and rank. */
  get records(): StepRecords {
    return this.#history.steps;
  }

  /** The current config; resharding changes it. */
  get config(): TrainConfig {
    return this.#history.phase.config;
  }

  /** Number of ranks that train. */
  get world(): number {
    return this.#history.phase.world;
  }

  /** Number of the last step, from 1; steps before a loaded checkpoint count too. 0 before the first. */
  get lastStep(): number {
    return this.#history.lastStep;
  }

  /** The result of each step. */
  get results(): readonly StepResult[] {
    return this.#history.steps.results();
  }

  /** Mean loss over all ranks, step by step. */
  get losses(): number[] {
    return this.#history.losses;
  }

  /** As figures see it: the steps that were made with the newest config. */
  get view(): RunView {
    return this.#figures.view;
  }

  /** Number of parameters of the whole model; tied parameters count once. */
  get numParams(): number {
    return this.#numParams;
  }

  /**
   * Trains `numSteps` steps and shows loss and speed while they run. An interrupt ends the training after the running
   * step.
   * Throws: INTERRUPTED, OUT_OF_MEMORY and errors of ranks; CLOSED when the run has ended.
   * @example
   * await run.step(20);
   */
  async step(numSteps = 1): Promise<RunSummary> {
    if (!Number.isInteger(numSteps) || numSteps < 1) {
      throw new ConfigError(`step(${numSteps}) is not a number of steps; give a whole number from 1`);
    }
    return this.#turns.take('stepping', () => this.#training.step(numSteps));
  }

  /**
   * Changes strategy, wrapping, precision or number of ranks in the running job: parameters and optimizer states move
   * to their new ranks, and each element is compared with the old one, bit by bit. The next step continues from them.
   * Throws: CONFIG, and the run does not change; CHECK if an element differs, and errors of ranks: these end the run
   * once states are moving.
   */
  async reshard(change: ReshardChange): Promise<ReshardReport> {
    return this.#turns.take('resharding', () => {
      const from = { config: this.config, world: this.world };
      const to = planReshard(from, change, this.#options.numRanks);
      const { world: _, mixedPrecision = null, ...parallel } = change;
      warn(configWarnings({ mixedPrecision, parallel }, to.config, to.world));
      return this.#training.reshard(from, to);
    });
  }

  /**
   * Saves the run into a folder and replaces the checkpoint there when everything is on the disk; each rank writes its
   * own shards. With `async: true` it resolves when the state is copied, and `done` resolves when the checkpoint is in
   * place.
   * Throws: IO naming file and tensor; then the run can continue, and the previous checkpoint is complete.
   */
  async save(path: string, options: RunSaveOptions = {}): Promise<RunSave> {
    return this.#turns.take('saving', () => this.#checkpoints.save(path, options));
  }

  /**
   * Continues from a checkpoint of the same model, whatever world and strategy saved it. This run's records of later
   * steps are dropped. Throws: SHAPE naming tensors that do not fit, IO; a damaged file ends the run.
   */
  async load(path: string, options: RunLoadOptions = {}): Promise<RunLoad> {
    return this.#turns.take('loading', () => this.#checkpoints.load(path, options));
  }

  /**
   * The units of the model: elements, padding, bytes, on a shaped link also the time of a gather, and hints.
   * Throws: CONFIG if the model has no units (NO_SHARD).
   */
  async units(): Promise<Table> {
    const { number: run, link } = this.#options;
    // All ranks have the same units.
    const [facts = []] = await this.#calls.on<UnitFacts[]>(1, { kind: 'units', run });
    if (facts.length === 0) {
      throw new ConfigError(
        `${placeText(this)} has no units: every rank holds the whole model; await run.reshard({ strategy: 'FULL_SHARD' })`,
      );
    }
    const { paramDtype = null } = this.config.mixedPrecision ?? {};
    return unitsTable(facts, { link, wireItemBytes: itemBytes(paramDtype ?? 'float32') });
  }

  /**
   * Memory of one step by cause, in bytes, over time or at every rank's peak. Throws: CONFIG before the first step.
   * @example
   * run.memory();
   * run.memory({ over: 'time', rank: 0 });
   */
  memory(options: MemoryOptions = {}): Figure {
    return this.#figures.memory(options);
  }

  /** The bytes sent in one step, by cause. */
  comm(): Figure {
    return this.#figures.comm();
  }

  /** One step of all ranks: computing, waiting, and the wire's use. */
  timeline(options: CommTimelineOptions = {}): Figure {
    return this.#figures.timeline(options);
  }

  /** The memory of each rank's process at the end of a step (default: the last), with a name for every resident byte. */
  processes(step?: number): Table {
    return this.#figures.processes(step);
  }

  /** The loss over all steps, with a mark at each reshard. */
  loss(): Figure {
    return this.#figures.loss();
  }

  /** The numbers behind the figures as danfojs DataFrames; its library loads on first use (seconds). */
  async frames(): Promise<RunFrames> {
    return this.#figures.frames();
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

  /** Ends step() after the running step. Says whether it ended in time, or whether nothing had to be awaited. */
  async stop(): Promise<'stopped' | 'late' | 'idle'> {
    return this.#turns.stop(() => this.#training.stop());
  }

  /** Frees the model on all ranks; the records stay. */
  async dispose(): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#options.disposed(this);
    await this.#calls.dispose(this.world, this.#options.number);
  }
}

/** Writes each warning as a line of stderr; a notebook shows it under the cell. */
function warn(messages: readonly string[]): void {
  for (const message of messages) warnOnStderr(message);
}
