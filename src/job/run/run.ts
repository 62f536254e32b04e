import { join } from 'node:path';
import { inspect } from 'node:util';
import { currentDisplay } from '../../cell/display';
import type { Redistributed } from '../../checkpoint/reshard/redistribute';
import { configWarnings } from '../../config/config-warnings';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from '../../config/train-config';
import { itemBytes } from '../../core/dtypes';
import { ConfigError, ShardlabError } from '../../core/errors';
import { now } from '../../core/units';
import { DISPLAY, type DisplayBundle, type Table } from '../../figures/table';
import { type UnitFacts, unitsTable } from '../../figures/units-table';
import { SpillFile } from '../../ledger/spill-file';
import type { Link } from '../../transport/link';
import { warnOnStderr } from '../control/folded-lines';
import type { RankGroups } from '../launch/groups';
import type { SaveDesk } from '../launch/save-desk';
import type { Supervisor } from '../launch/supervisor';
import { RunCalls } from './calls';
import { RunCheckpoints } from './checkpoints';
import { RunFigures } from './figures';
import { RunHistory } from './history';
import { isOverMemoryLimit, withMemoryAdvice } from './memory-advice';
import { requireModelRoom } from './model-room';
import { createProgress } from './progress';
import { createProgressLine } from './progress-line';
import { planReshard, type ReshardChange, type ReshardPlan } from './reshard-change';
import { createReshardReport, type ReshardReport } from './reshard-report';
import type { RunLoad, RunLoadOptions, RunSave, RunSaveOptions } from './save';
import { StepFile } from './step-file';
import { firstGrant, Stepping } from './stepping';
import { createRunSummary, type RunSummary } from './summary';
import { placeText, runText } from './text';
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
export class Run extends RunFigures {
  readonly #options: RunOptions;
  readonly #calls: RunCalls;
  readonly #checkpoints: RunCheckpoints;
  readonly #turns = new RunTurns();
  #steps: Stepping | undefined;
  #numParams = 0;
  #isDisposed = false;

  private constructor(options: RunOptions, config: TrainConfig) {
    const file = new SpillFile(join(options.folder, `run-${options.number}-steps`));
    super(
      new RunHistory(config, options.world, new StepFile(file, (message) => warn([message]))),
      options.link,
    );
    this.#options = options;
    this.#calls = new RunCalls(options.supervisor);
    const { number: run, saves } = options;
    this.#checkpoints = new RunCheckpoints({ run, saves, calls: this.#calls, history: this.history });
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
      throw await run.#advised(error);
    }
  }

  /** Number of parameters of the whole model; tied parameters count once. */
  get numParams(): number {
    return this.#numParams;
  }

  /**
   * Trains `numSteps` steps and shows loss and speed while they run. An interrupt ends the training after the running
   * step.
   * Throws: INTERRUPTED, OUT_OF_MEMORY and errors of ranks; CLOSED when the run has ended.
   */
  async step(numSteps = 1): Promise<RunSummary> {
    if (!Number.isInteger(numSteps) || numSteps < 1) {
      throw new ConfigError(`step(${numSteps}) is not a number of steps; give a whole number from 1`);
    }
    return this.#turns.take('stepping', () => this.#stepMany(numSteps));
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
      return this.#reshard(from, to);
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
    return this.#turns.stop(() => this.#steps?.stop());
  }

  /** Frees the model on all ranks; the records stay. */
  async dispose(): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#options.disposed(this);
    await this.#calls.dispose(this.world, this.#options.number);
  }

  async #stepMany(numSteps: number): Promise<RunSummary> {
    const { history } = this;
    const first = history.steps.numSteps;
    const progress = createProgress(currentDisplay(), numSteps);
    const { number: run, supervisor } = this.#options;
    const steps = new Stepping(
      { numSteps, numRanks: this.world },
      (grant) => supervisor.grant(grant),
      (done) => {
        progress.show(history.keep(done));
      },
    );
    this.#steps = steps;
    try {
      const work = { kind: 'steps', run, numSteps, grant: firstGrant(numSteps) } as const;
      await this.#calls.on(this.world, work, { step: (rank, step) => steps.receive(rank, step) });
    } catch (error) {
      // After a failure within a step, ranks may have different parameters.
      this.#calls.breakOff(`within step ${history.lastStep + 1}`, error);
      throw await this.#advised(error);
    } finally {
      this.#steps = undefined;
      progress.finish();
    }
    if (steps.numDone < numSteps) throw this.#stopped(steps.numDone, numSteps);
    return createRunSummary(history.steps.results(first));
  }

  async #reshard(from: ReshardPlan, to: ReshardPlan): Promise<ReshardReport> {
    const { number: run, groups } = this.#options;
    const start = now();
    const [before, after] = [await groups.of(from.world), await groups.of(to.world)];
    const numRanks = Math.max(from.world, to.world);
    const line = createProgressLine(currentDisplay());
    const head = `${placeText(from)} → ${placeText(to)}`;
    let isMoving = false;
    try {
      const work = { kind: 'reshard', run, config: to.config, before, after } as const;
      const ranks = await this.#calls.on<Redistributed>(numRanks, work, {
        progress: (_, { done, total }) => {
          isMoving = true;
          line.show(`${head}: ${Math.round((100 * done) / total)}% moved`, done, total);
        },
      });
      this.history.begin(to.config, to.world);
      const report = createReshardReport(from, to, ranks, now() - start);
      line.finish(String(report));
      return report;
    } catch (error) {
      if (!isMoving) throw error;
      this.#calls.breakOff(`while it was resharded after step ${this.history.lastStep}`, error);
      throw error;
    }
  }

  /** For a memoryLimit, adds settings that would have fit. The model that did not fit is freed first. */
  async #advised(error: unknown): Promise<unknown> {
    if (!isOverMemoryLimit(error)) return error;
    const { config, world } = this;
    const { number, groups } = this.#options;
    await this.#calls.free(world, number);
    const line = createProgressLine(currentDisplay());
    const group = await groups.of(world);
    const advised = await withMemoryAdvice(error, {
      config,
      world,
      probe: (tried) => this.#calls.probe(tried, number, group),
      progress: (text, done, total) => line.show(text, done, total),
    });
    line.finish('out of memory: see what fits below');
    return advised;
  }

  #stopped(done: number, numSteps: number): ShardlabError {
    return new ShardlabError(
      'INTERRUPTED',
      `run.step was interrupted after ${done} of ${numSteps} steps; the run is intact: step() continues from step ${this.history.lastStep}`,
    );
  }
}

/** Writes each warning as a line of stderr; a notebook shows it under the cell. */
function warn(messages: readonly string[]): void {
  for (const message of messages) warnOnStderr(message);
}
