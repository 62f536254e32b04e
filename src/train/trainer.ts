import { gradients } from '../autograd/unit';
import { currentDraws } from '../backend/current-engine';
import type { Engine } from '../backend/engine';
import { wholeSizeOf } from '../checkpoint/state/parts';
import { gradScalerOf } from '../config/settings/precision';
import type { TrainConfig } from '../config/train-config';
import type { Observer } from '../core/events';
import * as tf from '../core/tf';
import type { Warn } from '../core/warn';
import type { BatchSource } from '../data/batch';
import type { PreparedData } from '../data/prepared';
import { markWorld } from '../dist/current-world';
import type { ProcessGroup } from '../dist/types';
import { loadState, type StateDict } from '../nn/load-state';
import { buildModel } from '../nn/models/build-model';
import type { Module } from '../nn/module';
import { freeze } from '../nn/name-patterns';
import { clipGradNorm } from '../optim/clip-grad-norm';
import { createOptimizer } from '../optim/create-optimizer';
import { GradScaler } from '../optim/grad-scaler';
import { LRSchedule, rateOf } from '../optim/lr-schedule';
import { groupRates, type Optimizer, setRates } from '../optim/optimizer';
import { type ParallelModel, parallelize } from '../parallel/parallelize';
import { applyActivationCheckpointing } from '../parallel/recompute/apply-activation-checkpointing';
import { type Evaluated, evaluateTask, type Metrics, type Progress } from './evaluation';
import { meanOverRanks } from './mean-over-ranks';
import { applyModelParallelism, requireWholeOutput } from './model-parallelism';
import { type OwnParts, ownTask } from './own-task';
import { type Sampling, sampleFrom } from './sampling';
import type { StepResult } from './step-result';
import { Stopwatch, spansOf } from './stopwatch';
import { type Task, type TensorBatch, taskOf } from './task';
import { dataMark, type TrainerState, warnOfOtherData } from './trainer-state';

/** The parts that a trainer needs. */
export interface TrainerOptions {
  readonly config: TrainConfig;
  readonly engine: Engine;
  /** All ranks of the training. */
  readonly group: ProcessGroup;
  readonly observer: Observer;
  /** Initial parameters by name; default: values from the config's seed. */
  readonly initialState?: StateDict | undefined;
  /** Batches to train on; default: the config's data. */
  readonly batches?: BatchSource | undefined;
  /** The user's own data that the config names. */
  readonly data?: PreparedData | undefined;
  /** A model, loss or data of the user's own in place of the config's. */
  readonly own?: OwnParts | undefined;
  /** A task to train instead of the config's model on the config's data. */
  readonly task?: Task | undefined;
  /** Shards or replicates the model over the ranks; default: as the config's `parallel` says. */
  readonly parallelize?: typeof parallelize | undefined;
  /** Gets warnings about settings without effect, and about the first loss that is not finite. */
  readonly warn?: Warn | undefined;
}

/** The parts of a trainer; `group` has the ranks with other batches. */
interface TrainerParts extends TrainerOptions {
  readonly allRanks: ProcessGroup;
}

/** Makes a trainer with the model, strategy, data and optimizer of a config. */
export function createTrainer(given: TrainerOptions): Trainer {
  const { config, engine, initialState, own, task } = given;
  const model = task?.model ?? own?.model ?? buildModel(config);
  if (initialState !== undefined) loadState(engine, model, initialState);
  const { data: group, shards } = applyModelParallelism(model, given);
  const options = { ...given, group, allRanks: given.group };
  freeze(model, config.frozen);
  const { activationCheckpointing, offload } = config;
  applyActivationCheckpointing(options, model, activationCheckpointing, offload.activations);
  const parallel = (options.parallelize ?? parallelize)(model, config, { ...options, group: shards });
  const data = options.batches ?? { world: options.group.size, prepared: options.data };
  const made = () =>
    own === undefined ? taskOf(engine, model, config, data) : ownTask(engine, config, model, own, data);
  return new Trainer(options, task ?? made(), parallel);
}

/** What passes computed: the mean loss, and the number of tokens or rows. */
type Passes = Required<Pick<TensorBatch, 'count' | 'countedRows'>> & { readonly loss: number };

/** Trains a config's model on one rank; all ranks of the group step together. */
export class Trainer {
  readonly config: TrainConfig;
  readonly optimizer: Optimizer;
  readonly #options: TrainerParts;
  readonly #task: Task;
  readonly #parallel: ParallelModel;
  readonly #schedule: LRSchedule | null;
  readonly #scaler: GradScaler | null;
  #steps = 0;
  #microBatches = 0;
  #warnedOfLoss = false;

  constructor(options: TrainerParts, task: Task, parallel: ParallelModel) {
    const { config, engine, allRanks } = options;
    this.config = config;
    this.#options = options;
    this.#task = task;
    this.#parallel = parallel;
    this.optimizer = createOptimizer(engine, task.model, config.optimizer, config.offload);
    const { schedule, steps } = config;
    this.#schedule = schedule && new LRSchedule(this.optimizer, rateOf(schedule, steps));
    const scaler = gradScalerOf(config);
    this.#scaler = scaler && new GradScaler(engine, allRanks, scaler);
  }

  get model(): Module {
    return this.#task.model;
  }

  /** Number of parameters of the whole model. */
  get numParams(): number {
    return this.model.parameters().reduce((sum, parameter) => sum + wholeSizeOf(parameter), 0);
  }

  /** Steps taken. */
  get steps(): number {
    return this.#steps;
  }

  /** Runs one step. Its gradients are freed when the next step begins. `mayDiverge`: a loss that is not finite gets no warning. */
  step({ mayDiverge = false }: { readonly mayDiverge?: boolean } = {}): StepResult {
    const watch = new Stopwatch(this.#options.observer, this.#options.engine.clock);
    const { lr } = this.optimizer;
    const done = watch.span('step', () => {
      this.optimizer.zeroGrad();
      const passes = this.#amongRanks(() => this.#passes(watch));
      const update = watch.span('optimizer', () => this.#update());
      const loss = watch.span('loss', () =>
        meanOverRanks(this.#options.engine, this.#options.group, passes.loss),
      );
      const tokens = passes.count * this.#options.group.size;
      return { ...update, loss, tokens, ...(passes.countedRows ? { countedRows: true } : {}) };
    });
    this.#steps++;
    this.#microBatches += this.config.accumulation;
    const step = this.#steps;
    if (!Number.isFinite(done.loss) && !this.#warnedOfLoss && !mayDiverge) {
      this.#warnedOfLoss = true;
      this.#options.warn?.(
        `the loss of step ${step} is ${done.loss}; lower optimizer.lr or set clipNorm. This warning appears once`,
      );
    }
    return { step, lr, ...done, seconds: watch.seconds('step'), spans: spansOf(watch) };
  }

  /**
   * Returns the mean loss over all validation rows of all ranks, in eval mode and without gradients. `progress` is called
   * after each batch. Every rank calls it. Throws: CONFIG if no rows are kept from training, or for `metrics` of a model that
   * returns only its loss.
   */
  async evaluate(progress: Progress, metrics?: Metrics): Promise<Evaluated> {
    if (Object.keys(metrics ?? {}).length > 0) requireWholeOutput('run.evaluate({ metrics })', this.config);
    return this.#inferring(() => evaluateTask(this.#task, this.#options, progress, metrics));
  }

  /** Runs `work` with the model in eval mode; then frees the whole parameters that its forwards have left. */
  async #inferring<T>(work: () => Promise<T>): Promise<T> {
    const wasTraining = this.model.training;
    this.model.eval();
    const world = markWorld(this.#options.group);
    try {
      return await work();
    } finally {
      markWorld(world);
      this.#parallel.abandon();
      this.model.train(wasTraining);
    }
  }

  /**
   * Adds tokens to `ids`, one after the other: each is chosen from the model's logits of the last position. Every rank
   * calls it, and all return the same ids. Throws: CONFIG for a model without logits.
   */
  async sample(ids: readonly number[], how: Sampling, progress: Progress): Promise<number[]> {
    requireWholeOutput('run.sample', this.config);
    const { engine, group } = this.#options;
    return this.#inferring(() =>
      sampleFrom({ engine, group, model: this.model, config: this.config }, ids, how, progress),
    );
  }

  /** The state that a checkpoint stores besides parameters and optimizer states. */
  state(): TrainerState {
    return {
      steps: this.#steps,
      microBatches: this.#microBatches,
      data: dataMark(this.#options),
      optimizerSteps: this.optimizer.steps,
      stepsLeftOut: this.optimizer.stepsLeftOut,
      lr: this.optimizer.lr,
      lrs: groupRates(this.optimizer),
      schedule: this.#schedule?.state() ?? null,
      scaler: this.#scaler?.state ?? null,
    };
  }

  /** Continues from another trainer's state; parameters and optimizer states are written separately. */
  restore({
    steps,
    microBatches,
    data,
    optimizerSteps,
    stepsLeftOut,
    lr,
    lrs,
    schedule,
    scaler,
  }: TrainerState): void {
    warnOfOtherData(this.#options, data, microBatches);
    this.#steps = steps;
    this.#microBatches = microBatches;
    this.#warnedOfLoss = false;
    this.optimizer.restore(optimizerSteps, stepsLeftOut);
    if (this.#schedule === null) setRates(this.optimizer, lr, lrs);
    else this.#schedule.restore(schedule);
    if (scaler !== null) this.#scaler?.restore(scaler);
  }

  /**
   * Makes the trainer usable after an interrupted step, once engine and group have recovered: frees gradients and whole
   * parameters. An optimizer's update that was interrupted remains partly done.
   */
  recover(): void {
    this.#parallel.abandon();
    // Discards what the scaler found in the interrupted step.
    this.#scaler?.restore(this.#scaler.state);
  }

  dispose(): void {
    this.optimizer.dispose();
    this.#parallel.dispose();
  }

  /** Runs `work` with the trainer's ranks as all ranks: a job can have trainers and cells of different ranks in turn. */
  #amongRanks<T>(work: () => T): T {
    const world = markWorld(this.#options.group);
    try {
      return work();
    } finally {
      markWorld(world);
    }
  }

  /** Runs forward and backward of all microbatches; returns the mean of their losses, and leaves the gradients of that mean. */
  #passes(watch: Stopwatch): Passes {
    const { accumulation } = this.config;
    const seed = (this.#scaler?.scale ?? 1) / accumulation;
    let [loss, count, countedRows] = [0, 0, false];
    for (let micro = 0; micro < accumulation; micro++) {
      const index = this.#microBatches + micro;
      const run = () => this.#microBatch(watch, index, seed);
      const done = micro === accumulation - 1 ? run() : this.#parallel.accumulate(run);
      loss += done.loss / accumulation;
      count += done.count;
      countedRows ||= done.countedRows;
    }
    return { loss, count, countedRows };
  }

  /**
   * Runs forward and backward of one microbatch; adds to existing gradients. `index` counts from 0 over the whole run; backward
   * multiplies the loss by `seed`: 1 / accumulation, times the scale of a scaler.
   */
  #microBatch(watch: Stopwatch, index: number, seed: number): Passes {
    const task = this.#task;
    const { engine, group } = this.#options;
    Object.assign(currentDraws(), { rank: group.rank, pass: index });
    const batch = watch.span('data', () => task.batch(group.rank, index));
    try {
      const pass = watch.sum('forward', () => gradients(engine, () => task.lossOf(batch)));
      try {
        const loss = pass.loss.dataSync()[0] ?? Number.NaN;
        watch.sum('backward', () => pass.backward(seed));
        return { loss, count: batch.count, countedRows: batch.countedRows ?? false };
      } finally {
        pass.loss.dispose();
      }
    } finally {
      tf.dispose([...batch.tensors]);
    }
  }

  /** Clips gradients and updates parameters; skips the update if scaled gradients overflowed. */
  #update(): { readonly gradNorm: number; readonly skipped: boolean } {
    const { engine } = this.#options;
    const skipped = this.#scaler?.unscaleAndCheck(this.model.states()) ?? false;
    const { norm: gradNorm, scale } = clipGradNorm(engine, this.model, this.config.clipNorm);
    if (!skipped) {
      this.optimizer.step(scale);
      this.#schedule?.step();
    }
    this.#scaler?.update();
    return { gradNorm, skipped };
  }
}
