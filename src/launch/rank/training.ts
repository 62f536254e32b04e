import type { TrainConfig } from '../../config';
import { ShardlabError, type Warn } from '../../core';
import type { Engine, Interrupts } from '../../engine';
import { explainProcess } from '../../ledger';
import {
  createTrainer,
  firstStateOf,
  type MemoryCheckpoints,
  type RankProgress,
  type StepResult,
  type Trainer,
  type TrainerOptions,
  withReports,
} from '../../training';
import type { ProcessGroup, World } from '../../wire';
import type { CourierHandle } from '../control/courier-handle';
import type { CopyRestored, GroupRef, OwnSources, RankStep, RankWork } from '../control/messages';
import { firstRanks } from '../control/selection';
import { CellFaults } from './cell-faults';
import { unitFacts } from './describe-model';
import { evaluateRun, sampleTokens, sampleVideosOf } from './inference';
import { MadeRecorder } from './made-recorder';
import { makeOwn, type OwnPlace } from './own-parts';
import { PlantedFaults } from './planted-faults';
import { type ProbeResult, probeOnRank } from './probe';
import { comparedReplicas } from './replicas';
import { reshardOnRank } from './reshard';
import { RankSaves } from './saves';
import { traceOnRank } from './trace';
import type { Walker } from './walker';

/** Number of newest steps of a call whose allocations and frees are all sent. */
const NUM_CURVES = 2;

/** Buffers of cells and functions belong to no run. */
const NO_RUN = 0;

/** The launcher's number of the group of all ranks. */
const WORLD = 0;

/** Work that belongs to a run. */
export type TrainingWork = Exclude<
  RankWork,
  { kind: 'cell' | 'function' | 'put' | 'get' | 'python' | 'measure' | 'recover' | 'exportOwn' }
>;

/** The parts that training on a rank needs. */
export interface RankTrainingParts extends Pick<OwnPlace, 'scope' | 'load' | 'recorder' | 'batchNorms'> {
  readonly rank: number;
  readonly engine: Engine;
  /** All ranks of the job. */
  readonly group: ProcessGroup;
  readonly sweep: World['sweep'];
  readonly warn: Warn;
  readonly walker: Pick<Walker, 'isWalking' | 'haltedSeconds'>;
  readonly interrupts: Pick<Interrupts, 'check'>;
}

/** The options in which the trainers of a rank differ. */
interface TrainerParts extends Pick<TrainerOptions, 'config' | 'data' | 'group' | 'initialState'> {
  readonly own: OwnSources | undefined;
}

/** One rank's part of a run. */
interface RunOnRank {
  readonly trainer: Trainer;
  /** The ranks of the run. */
  readonly group: ProcessGroup;
  readonly faults: PlantedFaults;
  /** What the newest step made, if it was recorded. */
  made?: MadeRecorder | undefined;
}

/** The runs of one rank, by their number in the job. */
export class RankTraining {
  readonly #parts: RankTrainingParts;
  readonly #saves: RankSaves;
  readonly #runs = new Map<number, RunOnRank>();
  /** The copies of runs that have in-memory checkpoints. */
  readonly #copies = new Map<number, MemoryCheckpoints>();
  /** Groups of the job's first ranks, by the launcher's number; null if this rank is not a member. */
  readonly #groups = new Map<number, ProcessGroup | null>();
  /** A trainer that is built and not in use yet; it is disposed if the work fails. */
  #unfinished: Trainer | undefined;
  #isStepping = false;
  /** The faults of cells and functions. */
  readonly cellFaults: CellFaults;

  constructor(parts: RankTrainingParts) {
    this.#parts = parts;
    this.cellFaults = new CellFaults({ ...parts, isStepping: () => this.#isStepping });
    this.#groups.set(WORLD, parts.group);
    this.#saves = new RankSaves(parts);
  }

  /** Whether a run's step is on the stack; if so, the current operation was not called by a cell. */
  get isStepping(): boolean {
    return this.#isStepping;
  }

  /** Performs work of a run, and reports its progress under the number `id`. The launcher has checked the work. */
  async perform(id: number, work: TrainingWork, courier: CourierHandle): Promise<unknown> {
    const report = (progress: RankProgress): void => courier.send({ type: 'progress', id, progress });
    switch (work.kind) {
      case 'group':
        return this.#makeGroup(work.group);
      case 'train':
        return this.#create(work, report);
      case 'steps':
        return this.#steps(id, work, courier);
      case 'reshard':
        return this.#reshard(work, report);
      case 'save': {
        const { trainer, group } = this.#run(work.run);
        return this.#saves.start(work, trainer, group, (news) =>
          courier.send({ type: 'save', save: work.save, news }),
        );
      }
      case 'load': {
        const { trainer, group } = this.#run(work.run);
        // The copies are of the values before the load.
        this.#copies.get(work.run)?.clear();
        return this.#saves.load(work, trainer, group, report);
      }
      case 'probe':
        return this.#probe(work);
      case 'trace':
        return traceOnRank(work, this.#group(work.group), this.#parts);
      case 'evaluate':
        return evaluateRun(work.metrics, { ...this.#parts, ...this.#run(work.run) }, report);
      case 'sample':
        return sampleTokens(this.#run(work.run).trainer, work, report);
      case 'sampleVideo':
        return sampleVideosOf(this.#run(work.run).trainer, work, report);
      case 'plant':
        return this.cellFaults.plant(work.faults);
      case 'madeValues':
        return work.rank === this.#parts.rank
          ? this.#run(work.run).made?.valuesOf(work.event, work.part)
          : null;
      case 'rate':
        this.#run(work.run).trainer.optimizer.lr = work.lr;
        return undefined;
      case 'units':
        return unitFacts(this.#run(work.run).trainer.model);
      case 'copies':
        return this.#copies.get(work.run)?.steps ?? [];
      case 'restore':
        return this.#restore(work);
      case 'disposeRun':
        return this.#dispose(work.run, work.keepsCopies);
      default:
        return work satisfies never;
    }
  }

  /** Makes all runs usable again after a termination of work, in which V8 may have skipped `finally`. */
  recover(): void {
    this.#isStepping = false;
    this.#parts.recorder.enter(NO_RUN);
    this.#dropUnfinished();
    for (const { trainer } of this.#runs.values()) trainer.recover();
    for (const copies of this.#copies.values()) copies.recover();
  }

  /** Forgets the groups of the job's first ranks, which the launcher makes again after ranks were started again. */
  forgetGroups(): void {
    for (const id of this.#groups.keys()) if (id !== WORLD) this.#groups.delete(id);
  }

  #makeGroup({ id, size }: GroupRef): void {
    const { group } = this.#parts;
    const ranks = firstRanks(size);
    this.#groups.set(id, group.subgroup(ranks, `ranks ${ranks.join(',')} #${id}`));
  }

  /** Builds a run's model and returns its number of parameters. */
  async #create(
    { run, config, data, own, init, group, copySteps, faults = [] }: TrainingWork & { kind: 'train' },
    report: (progress: RankProgress) => void,
  ): Promise<number> {
    const first = firstStateOf(config as TrainConfig, init);
    try {
      // The launcher has checked the config, and has the same version.
      const parts = {
        config: config as TrainConfig,
        data,
        own,
        group: this.#group(group),
        initialState: first && withReports(first.state, report),
      };
      const trainer = await this.#build(run, parts);
      const step = (): number => this.#parts.recorder.openStep;
      const planted = new PlantedFaults(faults, { ...this.#parts, step });
      this.#use(run, { trainer, group: this.#group(group), faults: planted });
      this.#copyEvery(run, copySteps);
      return trainer.numParams;
    } finally {
      first?.close();
    }
  }

  /** Runs the granted steps and reports each one when it is done. Returns the checksums of the replicas, if they are wanted. */
  async #steps(
    id: number,
    { run, numSteps, comparesReplicas, records = false }: TrainingWork & { kind: 'steps' },
    courier: CourierHandle,
  ): Promise<unknown> {
    for (let i = 0; courier.mayStep(i); i++) {
      // All allocations of the newest steps are sent, and all allocations of the first step, because the call may end early.
      const curve = i === 0 || numSteps - i <= NUM_CURVES;
      const isRecorded = records && i === numSteps - 1;
      const step = this.#within(run, () => this.#step(run, curve, isRecorded));
      courier.send({ type: 'step', id, step });
      // In this pause, messages to this thread are handled.
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (!comparesReplicas && !records) return undefined;
    const { trainer, made } = this.#run(run);
    return { ...comparedReplicas(this.#parts.engine, trainer), made: made?.events };
  }

  async #reshard(
    work: TrainingWork & { kind: 'reshard' },
    report: (progress: RankProgress) => void,
  ): Promise<unknown> {
    const { run, data, own, before, after } = work;
    const union = this.#group(before.size > after.size ? before : after);
    const isIn = this.#parts.rank < after.size;
    const trainer = isIn
      ? await this.#build(run, { config: work.config as TrainConfig, data, own, group: this.#group(after) })
      : undefined;
    const old = this.#runs.get(run);
    const moved = this.#within(run, () =>
      reshardOnRank({
        engine: this.#parts.engine,
        group: union,
        before: old?.trainer,
        after: trainer,
        progress: (done, total) => report({ done, total }),
      }),
    );
    old?.trainer.dispose();
    this.#runs.delete(run);
    this.#copies.get(run)?.clear();
    const faults = old?.faults ?? new PlantedFaults([], { ...this.#parts, step: () => 0 });
    if (trainer !== undefined) {
      this.#use(run, { trainer, group: this.#group(after), faults });
      this.#copyEvery(run, work.copySteps);
    }
    return moved;
  }

  async #probe({ run, config, data, own, group }: TrainingWork & { kind: 'probe' }): Promise<ProbeResult> {
    const parts = { config: config as TrainConfig, data, own, group: this.#group(group) };
    const build = await this.#builder(run, parts);
    const { engine, recorder } = this.#parts;
    const measured = this.#within(run, () => probeOnRank(engine, recorder, build));
    this.#unfinished = undefined;
    return measured;
  }

  /** Builds a trainer, which is disposed if the work fails before the trainer is in use. */
  async #build(run: number, parts: TrainerParts): Promise<Trainer> {
    const build = await this.#builder(run, parts);
    return this.#within(run, build);
  }

  async #builder(run: number, { own: sources, ...parts }: TrainerParts): Promise<() => Trainer> {
    // The module is loaded on first use, so that ranks that never train start sooner.
    const { engine, recorder, warn } = this.#parts;
    const own = sources && (await makeOwn(sources, { ...this.#parts, ...parts, run }));
    const options = { ...parts, own, engine, observer: recorder, warn };
    return () => {
      try {
        this.#unfinished = engine.allOrNothing(() => createTrainer(options));
      } catch (error) {
        own?.model?.dispose();
        throw error;
      }
      return this.#unfinished;
    };
  }

  #use(run: number, built: RunOnRank): void {
    this.#runs.set(run, built);
    this.#unfinished = undefined;
  }

  #dropUnfinished(): void {
    const trainer = this.#unfinished;
    this.#unfinished = undefined;
    trainer?.recover();
    trainer?.dispose();
  }

  #step(run: number, curve: boolean, isRecorded: boolean): RankStep {
    const own = this.#run(run);
    const { trainer, group } = own;
    const { engine, recorder, rank } = this.#parts;
    own.made = isRecorded ? new MadeRecorder(engine, trainer.model, rank) : undefined;
    recorder.beginStep(trainer.steps + 1);
    const result = this.#stepOf(run, own);
    const memory = engine.memory;
    const record = recorder.endStep({
      loss: result.loss,
      tokens: result.tokens / group.size,
      engineBytes: memory.bytes,
      process: explainProcess(process.memoryUsage(), memory),
      curve,
    });
    const { walker } = this.#parts;
    // The times of a walked step contain the halts.
    if (walker.isWalking)
      return { result: { ...result, seconds: result.seconds - walker.haltedSeconds }, record: null };
    return { result, record: { ...record, world: group.size } };
  }

  /** Runs one step, and copies its state if a copy is due. */
  #stepOf(run: number, { trainer, group, faults, made }: RunOnRank): StepResult {
    const copies = this.#copies.get(run);
    this.#isStepping = true;
    // What a fault changes is recorded as it is after the change.
    const listeners = [...(faults.isEmpty ? [] : [faults.reached]), ...(made ? [made.reached] : [])];
    const removals = listeners.map((listener) => this.#parts.recorder.points.add(listener));
    try {
      const result = trainer.step();
      faults.stepped();
      copies?.stepped(result, trainer, group);
      return result;
    } finally {
      for (const remove of removals) remove();
      this.#isStepping = false;
    }
  }

  /** Makes copies of a run from now on; copies that the rank has stay. */
  #copyEvery(run: number, steps: number | undefined): void {
    if (steps === undefined || this.#copies.has(run)) return;
    this.#copies.set(run, this.#run(run).trainer.memoryCheckpoints(steps));
  }

  #restore({ run, step }: TrainingWork & { kind: 'restore' }): CopyRestored {
    const { trainer, group } = this.#run(run);
    const copies = this.#copies.get(run) ?? this.#missing(`copies of run ${run}`);
    const { state, results } = this.#within(run, () => copies.restore(trainer, group, step));
    return { numUpdates: state.optimizerSteps, results };
  }

  /** Assigns the buffers that `work` makes to the run. */
  #within<T>(run: number, work: () => T): T {
    const { recorder } = this.#parts;
    recorder.enter(run);
    try {
      return work();
    } finally {
      recorder.enter(NO_RUN);
    }
  }

  #dispose(run: number, keepsCopies = false): void {
    this.#dropUnfinished();
    if (!keepsCopies) {
      this.#copies.get(run)?.clear();
      this.#copies.delete(run);
    }
    this.#runs.get(run)?.trainer.dispose();
    this.#runs.delete(run);
    // The run's groups for tensors, stages and sequences give their memory back at once.
    this.#parts.sweep();
  }

  #run(run: number): RunOnRank {
    return this.#runs.get(run) ?? this.#missing(`run ${run}`);
  }

  #group({ id, size }: GroupRef): ProcessGroup {
    return this.#groups.get(id) ?? this.#missing(`group ${id} of ${size} ranks`);
  }

  #missing(description: string): never {
    const { rank } = this.#parts;
    throw new ShardlabError('INTERNAL', `rank ${rank} has no ${description}`, { rank });
  }
}
