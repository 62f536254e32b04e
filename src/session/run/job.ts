import { inspect } from 'node:util';
import { z } from 'zod';
import type { DebugNews, DebugOrder, DebugSetup } from '../../cell';
import {
  anyValue,
  configNamed,
  countSchema,
  parseOptions,
  type ShapeOf,
  type TrainConfigInput,
} from '../../config';
import { ConfigError, DISPLAY, type DisplayBundle, isIndex, now, shown } from '../../core';
import { createTable, type Table } from '../../figures';
import {
  type BusyRank,
  createWhy,
  describeCollective,
  describeExit,
  type Fault,
  type Fleet,
  type Mystery,
  type OutputSink,
  parseSelection,
  plantedIn,
  RankGroups,
  type RankVariables,
  type Selection,
  Supervisor,
  TORCH_FRAMEWORKS,
  type TorchFramework,
  type VariableNamed,
  type Why,
} from '../../launch';
import type { Module } from '../../nn';
import { requireLanguage, torchRunOf } from '../../torch';
import type { FileBatch } from '../../training';
import type { Link } from '../../wire';
import { ownOnTorch, splitInput, type TrainInput } from '../plans/own';
import type { Walk } from '../walk/walk';
import { JobData, type RowCounts } from './data';
import { type RecordedSteps, StepFigures } from './figures';
import { showHangs } from './hang-note';
import { type HealOptions, type HealReport, healJob, type KillSignal, requireKillSignal } from './heal';
import { requireCopies } from './heal-run';
import { type RankInfo, ranksTable, STATUS_COLUMNS } from './job-tables';
import { checkInit } from './pretrained';
import { type RankFunction, RankSelection } from './rank-selection';
import { type Recording, Recordings } from './records';
import { checkWorld } from './reshard';
import { Run } from './run';

/** A compiled cell and the ranks that run it. */
export interface CellRequest {
  readonly js: string;
  /** Number of the notebook's cell. */
  readonly cell: number;
  readonly selection: Selection;
  /** Where the debugger stops the ranks; undefined if there is no debugger. */
  readonly debug?: DebugSetup | undefined;
  /** Called when the ranks are about to get the cell; not called for a cell that is refused. */
  readonly begins?: () => void;
}

/** A cell of Python and the ranks that run it. */
export interface PythonCell extends Omit<CellRequest, 'js' | 'debug'> {
  readonly source: string;
}

export interface TrainOptions {
  /** Trains on this number of the job's first ranks; default: all. The other ranks stay free for cells and other runs. */
  readonly ranks?: number | undefined;
  /** Safetensors files with the initial parameters; default: those in the model's folder, else values from the config's seed. */
  readonly init?: string | readonly string[] | undefined;
  /**
   * Every this number of steps, each rank copies its parameters and optimizer states into the memory of the next rank (an
   * in-memory checkpoint), from which job.heal() continues if a rank's process ends. Default: no copies.
   */
  readonly inMemoryCheckpointSteps?: number | undefined;
  /** With engine 'torch': the library that shards the model: 'fsdp2' (fully_shard; default), 'fsdp1' (FullyShardedDataParallel) or 'deepspeed'. */
  readonly framework?: TorchFramework | undefined;
  /** With engine 'torch': true compiles the model's blocks by torch.compile; a text names another backend. Default: false. */
  readonly compile?: boolean | string | undefined;
  /** Mistakes that ranks make on purpose, to see what finds them: [{ rank: 2, at: 'reduceScatter layer 3', do: 'skip' }], or sl.mystery(n). */
  readonly faults?: readonly Fault[] | Mystery | undefined;
}

const TRAIN_OPTIONS = {
  ranks: anyValue<number>(), // `checkWorld` and `checkInit` check these two
  init: anyValue<string | readonly string[]>(),
  inMemoryCheckpointSteps: countSchema,
  framework: z.enum(TORCH_FRAMEWORKS),
  compile: z.union([z.boolean(), z.string()]),
  faults: anyValue<readonly Fault[] | Mystery>(), // `plantedIn` checks them
} satisfies ShapeOf<TrainOptions>;

/** A run that is being built. */
export interface PendingRun extends Promise<Run> {
  /**
   * Builds the run and loads a checkpoint into it. Throws: errors of job.train and run.load; then the run is disposed.
   */
  load(path: string): Promise<Run>;
}

/** Rank processes that work together. Shown in a notebook as the table of its ranks. */
export class Job extends StepFigures {
  readonly #fleet: Fleet;
  readonly #supervisor: Supervisor;
  readonly #unregister: () => void;
  readonly #groups: RankGroups;
  readonly #recordings: Recordings;
  readonly #runs = new Set<Run>();
  readonly #data: JobData;
  #numRuns = 0;
  /** The strategies with which the job's runs began. */
  readonly #strategies: string[] = [];
  #isHealing = false;
  #ended: Promise<void> | undefined;

  /** `register` adds the job to the jobs of this process, and returns a function that removes it. */
  constructor(fleet: Fleet, register: (job: Job) => () => void) {
    super();
    this.#fleet = fleet;
    this.#recordings = new Recordings(fleet);
    this.#supervisor = new Supervisor(fleet);
    this.#supervisor.hanging = showHangs();
    this.#groups = new RankGroups(this.#supervisor, this.numRanks);
    this.#data = new JobData(fleet);
    this.#unregister = register(this);
  }

  /** The reports of the ranks when they were ready. */
  get ranks(): readonly RankInfo[] {
    return this.#fleet.reports.map((report, rank) => ({ rank, ...report }));
  }

  /** The shaped wire between ranks; undefined if the wire is as fast as the transport. */
  get link(): Link | undefined {
    return this.#fleet.link;
  }

  get numRanks(): number {
    return this.#fleet.processes.length;
  }

  /** Selects ranks: '0-3', '0,2', 2, [0, 2] or 'all'. Throws: CONFIG when the job does not have them. */
  on(selection: Selection): RankSelection {
    const ranks = parseSelection(selection, this.numRanks);
    return new RankSelection(ranks, this.#supervisor, this.#recordings, this.#fleet.engine);
  }

  /**
   * Runs a compiled cell in ranks; the cell's variables stay available in later cells of these ranks. Resolves when all
   * ranks have ended the cell.
   * Throws: as `on().run` does.
   * @internal
   */
  async runCell({ js, cell, selection, begins, debug }: CellRequest, sink: OutputSink): Promise<void> {
    requireLanguage(this.#fleet.engine, 'JavaScript', 'a %%ranks cell');
    const ranks = parseSelection(selection, this.numRanks);
    const work = { kind: 'cell', js, cell, ...(debug && { debug }) } as const;
    await this.#recordings.during(ranks, work, (steps) =>
      this.#supervisor.run(ranks, work, { ...steps, ...(begins && { begins }), output: sink }),
    );
  }

  /**
   * Gives an order to the debug agents of ranks.
   * @internal
   */
  debug(rank: number | 'all', order: DebugOrder): void {
    this.#supervisor.debug(rank, order);
  }

  /**
   * Receives what the debug agents of ranks report.
   * @internal
   */
  set debugged(listener: (rank: number, news: DebugNews) => void) {
    this.#supervisor.debugged = listener;
  }

  /**
   * Runs a cell of Python in ranks of PyTorch; its variables stay available in later cells of Python. Throws: CONFIG if the ranks run
   * JavaScript, and as `on().python` does.
   * @internal
   */
  async runPython({ source, cell, selection, begins }: PythonCell, sink: OutputSink): Promise<void> {
    requireLanguage(this.#fleet.engine, 'Python', 'a %%ranks --python cell');
    const ranks = parseSelection(selection, this.numRanks);
    const work = { kind: 'python', source, cell } as const;
    await this.#recordings.during(ranks, work, (steps) =>
      this.#supervisor.run(ranks, work, { ...steps, ...(begins && { begins }), output: sink }),
    );
  }

  /**
   * Runs a function or, given its number, an earlier %%ranks cell in all ranks, which halt before each point; see `run.walk` and
   * `job.on().walk`.
   * @example
   * const walk = await job.walk(({ tf, dist }) => dist.allReduce(tf.ones([4])).dispose());
   * await walk.next();
   * await walk.live();
   */
  walk<Args extends readonly unknown[]>(
    work: RankFunction<Args, unknown> | number,
    ...args: Args
  ): Promise<Walk> {
    return this.on('all').walk(work, ...args);
  }

  /** Declares variables in all ranks, as `job.on('all').put` does. */
  put(values: Readonly<Record<string, unknown>>): Promise<void> {
    return this.on('all').put(values);
  }

  /** Returns a variable's value from each rank, as `job.on('all').get` does. */
  get<Name extends string>(name: Name | (keyof RankVariables & string)): Promise<VariableNamed<Name>[]> {
    return this.on('all').get<Name>(name);
  }

  /**
   * Begins a recording of what cells and functions do from now on; job.memory(), job.comm() and the other figures then draw
   * its steps. `job.records` has all recordings that were begun. Throws: CONFIG for a name that is not a text.
   * @example
   * job.record('DDP'); // then a cell trains under DDP
   * job.record('FSDP'); // then a cell trains under FSDP
   * sl.compare(job.records, 'memory');
   */
  record(name: string): Recording {
    return this.#recordings.begin(name);
  }

  /** The recordings that `record` has begun, by name. */
  get records(): Readonly<Record<string, Recording>> {
    return this.#recordings.named;
  }

  /**
   * Builds a model and its strategy on ranks. `config` is a config, or the name of a preset, a model or a file; `.load(path)`
   * continues from a checkpoint. The run's steps clip gradients unless `clipNorm` is null; a training loop in a cell clips them
   * only if it calls optim.clipGradNorm. Throws: CONFIG for a wrong config, and as `on().run` does.
   * @example
   * const run = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });
   */
  train<Net = Module, Batch = FileBatch>(
    config: TrainInput<Net, Batch> | string = {},
    options: TrainOptions = {},
  ): PendingRun {
    const building = this.#train(config, options);
    const load = async (path: string): Promise<Run> => {
      const run = await building;
      try {
        await run.load(path);
        return run;
      } catch (error) {
        // The caller must get the reason why the checkpoint was not loaded.
        await run.dispose().catch(() => undefined);
        throw error;
      }
    };
    return Object.assign(building, { load });
  }

  /**
   * From now on, `%%ranks` cells and functions of this job make these faults, in place of those that were planted before; [] removes
   * all. Runs of `train` make only their own. Steps are counted from here on, over all cells. Throws: CONFIG as `train` does.
   * @example
   * await job.plant([{ rank: 1, at: 'allReduce step 2', do: 'skip' }]);
   * await job.plant([]);
   */
  async plant(faults: readonly Fault[] | Mystery): Promise<void> {
    const planted = plantedIn(faults, this.numRanks, this.#fleet.engine === 'torch');
    this.#recordings.planted = planted.note;
    if (this.#fleet.engine === 'torch') return;
    const ranks = this.ranks.map(({ rank }) => rank);
    await this.#supervisor.run(ranks, { kind: 'plant', faults: planted.faults }, {});
  }

  /**
   * Prepares the conversations of `data.instructions`, as `train` does, and returns how many rows an epoch has; undefined if the
   * data are not instructions. Throws: CONFIG, IO.
   * @internal
   */
  countRows(config: TrainConfigInput): Promise<RowCounts | undefined> {
    return this.#data.countRows(config, this.numRanks);
  }

  /** Returns a table of what each rank does now; ranks answer even while they compute or wait. */
  async status(): Promise<Table> {
    const situations = await this.#supervisor.statuses();
    const rows = this.#fleet.processes.map(({ rank, pid, exit }) => {
      const situation = situations.get(rank);
      const damage = this.#supervisor.damages.get(rank);
      const does =
        damage === undefined ? (situation?.state ?? 'no answer') : `damaged (${damage}): launch again`;
      const state = exit === undefined ? does : `ended (${describeExit(exit)})`;
      return {
        rank,
        pid,
        state,
        cell: situation?.cell ?? null,
        collective: situation?.waiting === undefined ? null : describeCollective(situation.waiting),
        seconds: situation === undefined ? null : now() - situation.since,
      };
    });
    return createTable(rows, { columns: STATUS_COLUMNS });
  }

  /**
   * Returns a hang report: which rank waits for which other rank, in which collective, since when. If no rank waits, the report
   * is about the last failed call.
   */
  async why(): Promise<Why> {
    const present = await this.#supervisor.why();
    const last = this.#supervisor.lastIncident;
    if (present.waits.length > 0 || last === undefined) return present;
    const { waits, situations, ranks, text } = last.why;
    return createWhy({ waits, situations, ranks, text: `${last.event}: ${text}\nnow ${present.text}` });
  }

  /**
   * Returns the ranks that run work now, and the system call in which each of their processes is.
   * @internal
   */
  busyRanks(): readonly BusyRank[] {
    return this.#supervisor.busyRanks();
  }

  /** Stops running calls. Ranks keep their variables, and the next call works. A running training step is completed first. */
  async interrupt(): Promise<void> {
    this.#data.interrupt();
    this.#supervisor.refuseWaiting();
    const calls = new Set(this.busyRanks().map(({ call }) => call));
    const gentle = [...this.#runs].map((run) => run.stop());
    const isStopped = (await Promise.all(gentle)).includes('stopped');
    // Stopping the steps does not stop calls of other ranks.
    if (isStopped && !this.busyRanks().some(({ call }) => calls.has(call))) return;
    await this.#supervisor.interrupt();
  }

  /**
   * Ends one rank's process by a signal, as if its machine were lost; `heal` starts the rank again. Resolves when the process is
   * gone. Throws: CONFIG for a rank that the job does not have or whose process has ended already.
   * @example
   * await job.kill(2);
   * await job.heal();
   */
  async kill(rank: number, signal: KillSignal = 'SIGKILL'): Promise<void> {
    requireKillSignal(signal);
    const process = isIndex(rank, this.numRanks) ? this.#fleet.processes[rank] : undefined;
    if (process === undefined) {
      throw new ConfigError(
        `job.kill(${shown(rank)}): this job has ranks 0 to ${this.numRanks - 1}; give one of these numbers`,
      );
    }
    if (process.exit !== undefined) {
      throw new ConfigError(
        `job.kill(${rank}): the process of rank ${rank} has ended already (${describeExit(process.exit)})`,
      );
    }
    if (this.#fleet.engine === 'torch' && signal !== 'SIGKILL')
      throw new ConfigError(`job.kill(${rank}, '${signal}'): ranks of PyTorch can be killed by SIGKILL only`);
    process.kill(signal);
    await process.exited;
  }

  /**
   * Starts ranks again whose processes have ended, and continues the runs that had parts on them from the newest state: the copies
   * that `inMemoryCheckpointSteps` of job.train asks for, or the checkpoint that `run.save` has written or `run.load` has read. The
   * steps after that state are done again, with the same losses to the bit. Other ranks keep their variables; with `ranks: 3`, the job
   * continues with three new processes instead, and the runs are resharded. Throws: CONFIG for a run without a state, and for a number
   * of ranks that a run's layout does not fit; INTERRUPTED, LAUNCH, RANK_DIED, after which `heal` can be called again; ENGINE for
   * ranks of PyTorch.
   * @example
   * const copied = await job.train({ model: 'tiny' }, { inMemoryCheckpointSteps: 2 });
   * await copied.step(5);
   * await job.kill(2);
   * await job.heal();
   * await copied.step(5);
   */
  async heal(options: HealOptions = {}): Promise<HealReport> {
    if (this.#isHealing) throw new ConfigError('job.heal() already runs; await the running call');
    this.#isHealing = true;
    try {
      return await healJob(
        {
          supervisor: this.#supervisor,
          groups: this.#groups,
          runs: this.#runs,
          numRanks: () => this.numRanks,
          folder: this.#fleet.folder,
        },
        options,
      );
    } finally {
      this.#isHealing = false;
    }
  }

  /** Ends all ranks; kills those that do not end by themselves. Resolves when all processes are gone. */
  shutdown(): Promise<void> {
    this.#ended ??= (async () => {
      this.#data.interrupt();
      this.#supervisor.close();
      this.#unregister();
      await this.#fleet.end();
    })();
    return this.#ended;
  }

  [DISPLAY](): DisplayBundle {
    return ranksTable(this.ranks)[DISPLAY]();
  }

  /** Returns the text that Node shows for the job. */
  [inspect.custom](): string {
    return ranksTable(this.ranks).toText();
  }

  protected get recorded(): RecordedSteps {
    return this.#recordings.current.recorded;
  }

  async #train(input: object | string, options: TrainOptions): Promise<Run> {
    const form = 'job.train(config, { … })';
    const parsed = parseOptions(form, options, TRAIN_OPTIONS);
    const { init, ranks: world = this.numRanks, inMemoryCheckpointSteps: copySteps } = parsed;
    const torch = torchRunOf(this.#fleet, options);
    checkWorld('train', world, this.numRanks);
    checkInit(init);
    requireCopies(copySteps, world, this.#fleet.engine);
    const planted = plantedIn(options.faults, world, torch !== undefined);
    const { config, own } = splitInput(typeof input === 'string' ? configNamed(input) : input);
    if (torch !== undefined && own !== undefined) throw ownOnTorch();
    const run = await Run.create({
      config,
      torch,
      own,
      init,
      copySteps,
      planted,
      numRanks: () => this.numRanks,
      world,
      link: this.link,
      nodes: this.#fleet.nodes,
      number: ++this.#numRuns,
      folder: this.#fleet.folder,
      supervisor: this.#supervisor,
      groups: this.#groups,
      jobData: this.#data,
      disposed: () => this.#runs.delete(run),
    });
    this.#runs.add(run);
    const { strategy } = run.config.parallel;
    this.#strategies.push(strategy);
    run.numAlike = this.#strategies.filter((begun) => begun === strategy).length;
    return run;
  }
}
