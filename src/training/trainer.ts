import { gradScalerOf, isVideoModel, modelShape, type TrainConfig } from '../config';
import { ConfigError, type PointAction, type Warn, warnOnce } from '../core';
import * as tf from '../core/tf';
import { currentDraws, type Engine } from '../engine';
import { buildModel, chooseTrained, LanguageModel, loadState, type Module, VideoModel } from '../nn';
import {
  applyActivationCheckpointing,
  applyContextParallel,
  applyExpertParallel,
  balanceExperts,
  clipGradNorm,
  createOptimizer,
  GradScaler,
  groupRates,
  LRSchedule,
  type Optimizer,
  type ParallelModel,
  parallelize,
  parallelizeTensors,
  rateOf,
  setRates,
} from '../sharding';
import { initializeModelParallel, markWorld, type ProcessGroup } from '../wire';
import { wholeSizeOf } from './checkpoint/state/parts';
import { stepCountsOf } from './checkpoint/state/training-state';
import { taskOf } from './config-task';
import { type EvaluationResult, evaluateTask, type Metrics, type ReportProgress } from './evaluation';
import { MemoryCheckpoints } from './memory-checkpoints';
import { ownTask } from './own-task';
import { type ModelPasses, type PassUse, wholePasses } from './passes';
import { pipelinePasses } from './pipeline-passes';
import { type Sampling, sampleFrom } from './sampling';
import { loadsOf, type StepResult } from './step-result';
import { Stopwatch, stepSpansOf } from './stopwatch';
import { listOfRewards, type Rewards, rewardsIn, sumOfRewards, type Task, type TensorBatch } from './task';
import type { TrainerOptions, TrainerParts } from './trainer-options';
import { dataMark, type TrainerState, warnOfOtherData } from './trainer-state';
import { type Captions, type SampledVideos, sampleVideos, type VideoSampling } from './video-sampling';

/** Makes a trainer with the model, strategy, data and optimizer of a config. */
export function createTrainer(trainerOptions: TrainerOptions): Trainer {
  const { config, engine, initialState, own, task } = trainerOptions;
  const model = task?.model ?? own?.model ?? buildModel(config);
  if (initialState !== undefined) loadState(engine, model, initialState);
  chooseTrained(model, config);
  const { data: group, shards, pipeline } = applyModelParallelism(model, trainerOptions);
  const options = { ...trainerOptions, group, allRanks: trainerOptions.group, shards, pipeline };
  const { activationCheckpointing, offload } = config;
  applyActivationCheckpointing(options, model, activationCheckpointing, offload.activations);
  const data = options.batches ?? { world: options.group.size, prepared: options.data };
  const made = () =>
    own === undefined
      ? taskOf(trainerOptions, model, config, data)
      : ownTask(engine, config, model, own, data);
  const trained = task ?? made();
  const sharded = (part: Module): ParallelModel =>
    (options.parallelize ?? parallelize)(part, config, { ...options, group: shards });
  const passes =
    pipeline === null
      ? wholePasses(engine, model, trained, sharded(model))
      : pipelinePasses(model, trained, { ...options, pipeline, parallelize: sharded });
  return new Trainer(options, trained, passes);
}

/** The result of one or more passes: the mean loss, and the number of tokens or rows. */
type Done = Required<Pick<TensorBatch, 'count' | 'countedRows'>> & {
  readonly loss: number;
  readonly rewards: Rewards | undefined;
};

/** Trains a config's model on one rank; all ranks of the group step together. */
export class Trainer {
  readonly config: TrainConfig;
  readonly optimizer: Optimizer;
  readonly #options: TrainerParts;
  readonly #task: Task;
  readonly #passes: ModelPasses;
  readonly #schedule: LRSchedule | null;
  readonly #scaler: GradScaler | null;
  #steps = 0;
  #microBatches = 0;
  #warnedOfLoss = false;

  constructor(options: TrainerParts, task: Task, passes: ModelPasses) {
    const { config, engine, allRanks, warn } = options;
    this.config = config;
    this.#options = options;
    this.#task = task;
    this.#passes = passes;
    const { trained } = passes;
    this.optimizer = createOptimizer(engine, trained, config.optimizer, config.offload, task.model, warn);
    const { schedule, steps } = config;
    this.#schedule = schedule && new LRSchedule(this.optimizer, rateOf(schedule, steps));
    const scaler = gradScalerOf(config);
    this.#scaler = scaler && new GradScaler(engine, allRanks, scaler);
  }

  get model(): Module {
    return this.#task.model;
  }

  /** The ranks that hold the same parts of the model. */
  get replicas(): ProcessGroup {
    return this.#options.shards;
  }

  /** Number of parameters of the whole model. */
  get numParams(): number {
    return this.model.parameters().reduce((sum, parameter) => sum + wholeSizeOf(parameter), 0);
  }

  /** Whether this rank reports its experts' loads. Ranks of a tensor-parallel group compute the same rows, so one reports. */
  get #countsRows(): boolean {
    return this.#options.allRanks.rank % this.config.parallel.tp === 0;
  }

  /** Number of training steps so far. */
  get steps(): number {
    return this.#steps;
  }

  /** Returns an empty store for copies of this training and of trainings that continue it, one every `steps` steps. */
  memoryCheckpoints(steps: number): MemoryCheckpoints {
    return new MemoryCheckpoints(this.#options.engine, steps);
  }

  /** Runs one step. Its gradients are freed when the next step begins. */
  step(): StepResult {
    const watch = new Stopwatch(this.#options.observer, this.#options.engine.clock);
    const { lr } = this.optimizer;
    const done = watch.span('step', () => {
      this.optimizer.zeroGrad();
      const passes = this.#amongRanks(() => this.#accumulated(watch));
      const update = watch.span('optimizer', (action) => this.#update(action));
      const loads = balanceExperts(this.model, this.replicas);
      const { loss, rewards } = watch.span('loss', () => this.#meanOverRanks(passes));
      const tokens = passes.count * this.#options.group.size;
      return {
        ...{ ...update, loss, tokens },
        ...(passes.countedRows ? { countedRows: true } : {}),
        ...(rewards && { rewards }),
        ...(this.#countsRows ? loadsOf(loads, this.#options.allRanks.rank) : {}),
      };
    });
    this.#steps++;
    this.#microBatches += this.config.accumulation;
    const step = this.#steps;
    if (!Number.isFinite(done.loss) && !this.#warnedOfLoss) {
      this.#warnedOfLoss = true;
      this.#options.warn?.(
        `the loss of step ${step} is ${done.loss}; lower optimizer.lr or set clipNorm. This warning appears once`,
      );
    }
    return { step, lr, ...done, seconds: watch.seconds('step'), spans: stepSpansOf(watch) };
  }

  /**
   * Returns the mean loss over all validation rows of all ranks, in eval mode and without gradients. Every rank calls this
   * method. `progress` is called after each batch. Throws: CONFIG if the data has no validation rows, or for `metrics` of a
   * model that returns only its loss.
   */
  async evaluate(progress: ReportProgress, metrics?: Metrics): Promise<EvaluationResult> {
    if (Object.keys(metrics ?? {}).length > 0) requireOutput('run.evaluate({ metrics })', this.config);
    const parts = { ...this.#options, passes: this.#passes };
    return this.#inferring(() => evaluateTask(this.#task, parts, progress, metrics));
  }

  /** Runs `work` with the model in eval mode; then frees the whole parameters that are still gathered after `work`. */
  async #inferring<T>(work: () => Promise<T>): Promise<T> {
    const wasTraining = this.model.training;
    this.#passes.train(false);
    const world = markWorld(this.#options.group);
    try {
      return await work();
    } finally {
      markWorld(world);
      this.#passes.abandon();
      this.#passes.train(wasTraining);
    }
  }

  /**
   * Adds tokens to `ids`, one after the other; every rank calls it, and all ranks return the same ids. Throws: CONFIG for a model
   * without logits.
   */
  async sample(ids: readonly number[], how: Sampling, progress: ReportProgress): Promise<number[]> {
    requireWholeOutput('run.sample', this.config);
    const { engine, group } = this.#options;
    return this.#inferring(() =>
      sampleFrom({ engine, group, passes: this.#passes, config: this.config }, ids, how, progress),
    );
  }

  /** Samples a video for each caption; every rank calls this. Throws: CONFIG if the model makes no videos or for an unknown caption. */
  async sampleVideos(
    captions: Captions,
    how: VideoSampling,
    progress: ReportProgress,
  ): Promise<SampledVideos> {
    return this.#inferring(() => sampleVideos(this.#task, captions, how, progress));
  }

  /** Returns the state that a checkpoint stores besides parameters and optimizer states. Every rank calls this method. */
  state(): TrainerState {
    const { engine, allRanks } = this.#options;
    const counts = stepCountsOf({ engine, group: allRanks }, 'run.save()', this.optimizer);
    return {
      steps: this.#steps,
      microBatches: this.#microBatches,
      data: dataMark(this.#options),
      ...(this.#task.reference !== undefined && { reference: this.#task.reference }),
      optimizerSteps: this.optimizer.steps,
      stepsLeftOut: counts.stepsLeftOut,
      ...(counts.leftOutNext.length > 0 && { leftOutNext: counts.leftOutNext }),
      lr: this.optimizer.lr,
      lrs: groupRates(this.optimizer),
      schedule: this.#schedule?.state() ?? null,
      scaler: this.#scaler?.state ?? null,
    };
  }

  /** Throws: CONFIG if the state, which `name` has, was trained against another reference model. Call it before values change. */
  requireSameReference({ reference }: TrainerState, name: string): void {
    const own = this.#task.reference;
    if (reference === undefined || own === undefined || reference === own) return;
    throw new ConfigError(
      `${name} was trained against another reference model (fingerprint ${reference}) than this run has (${own}); give the first weights of ` +
        'that training (model.from, init, seed), or load only its parameters: run.load(path, { parametersOnly: true })',
      { reference, own },
    );
  }

  /** Continues from another trainer's state. The caller sets the parameters and optimizer states separately. */
  restore({
    steps,
    microBatches,
    data,
    optimizerSteps,
    stepsLeftOut,
    leftOutNext,
    lr,
    lrs,
    schedule,
    scaler,
  }: TrainerState): void {
    warnOfOtherData(this.#options, data, microBatches);
    this.#steps = steps;
    this.#microBatches = microBatches;
    this.#warnedOfLoss = false;
    this.optimizer.restore(optimizerSteps, stepsLeftOut, [], leftOutNext);
    if (this.#schedule === null) setRates(this.optimizer, lr, lrs);
    else this.#schedule.restore(schedule);
    if (scaler !== null) this.#scaler?.restore(scaler);
  }

  /**
   * Makes the trainer usable after an interrupted step: frees gradients and whole parameters. The engine and the group must have
   * recovered before. If the optimizer's update was interrupted, it remains partly done.
   */
  recover(): void {
    this.#passes.abandon();
    // Discards the overflow that the scaler may have found in the interrupted step.
    this.#scaler?.restore(this.#scaler.state);
  }

  dispose(): void {
    this.optimizer.dispose();
    this.#passes.dispose();
    this.#task.dispose?.();
  }

  /** While `work` runs, "all ranks" are the trainer's ranks, because a job's trainers and cells may have different ranks. */
  #amongRanks<T>(work: () => T): T {
    const world = markWorld(this.#options.group);
    try {
      return work();
    } finally {
      markWorld(world);
    }
  }

  /** Runs forward and backward of all microbatches; returns their mean loss. The gradients are those of the mean loss. */
  #accumulated(watch: Stopwatch): Done {
    const { accumulation } = this.config;
    const scale = (this.#scaler?.scale ?? 1) / accumulation;
    let [loss, count, countedRows] = [0, 0, false];
    let rewards: Rewards | undefined;
    for (let micro = 0; micro < accumulation; micro++) {
      const index = this.#microBatches + micro;
      const isLast = micro === accumulation - 1;
      const run = () => this.#pass(watch, index, { scale, isLast });
      const done = isLast ? run() : this.#passes.accumulate(run);
      loss += done.loss / accumulation;
      rewards = done.rewards && sumOfRewards(rewards, done.rewards, 1 / accumulation);
      count += done.count;
      countedRows ||= done.countedRows;
    }
    return { loss, count, countedRows, rewards };
  }

  /** Returns the means over all ranks of the loss and, for pairs, of the rewards. */
  #meanOverRanks({ loss, rewards }: Done): Pick<Done, 'loss' | 'rewards'> {
    const { engine, group } = this.#options;
    const values = [
      this.#passes.shared(loss, 'loss'),
      ...(rewards === undefined ? [] : listOfRewards(rewards)),
    ];
    const [mean = Number.NaN, ...others] = meansOverRanks(engine, group, values);
    return { loss: mean, rewards: rewards && rewardsIn(others) };
  }

  /** Runs forward and backward of one batch; adds to existing gradients. `index` counts from 0 over the whole run. */
  #pass(watch: Stopwatch, index: number, use: PassUse): Done {
    const { group } = this.#options;
    Object.assign(currentDraws(), { rank: group.rank, pass: index });
    const { accumulation } = this.config;
    const batch = watch.span('data', (action) => {
      // An action that leaves the new batch out gives the batch of the step before.
      const back = action?.times === 0 ? Math.min(accumulation, this.#microBatches) : 0;
      const made = this.#task.batch(group.rank, index - back, this.#microBatches - back);
      action?.got?.(made.tensors.map((tensor) => Float32Array.from(tensor.dataSync())));
      return made;
    });
    try {
      const { factor = 1 } = batch;
      const loss = factor * this.#passes.run(batch, { ...use, scale: use.scale * factor }, watch);
      const rewards = this.#task.measured?.();
      return { loss, count: batch.count, countedRows: batch.countedRows ?? false, rewards };
    } finally {
      tf.dispose([...batch.tensors]);
      this.#task.end?.();
    }
  }

  /** Clips gradients and updates parameters; skips the update if scaled gradients overflowed. */
  #update(action: PointAction | undefined): { readonly gradNorm: number; readonly skipped: boolean } {
    const { engine } = this.#options;
    const skipped = this.#scaler?.unscaleAndCheck(this.#passes.trained.states()) ?? false;
    const { norm: gradNorm, scale } = clipGradNorm(engine, this.#passes.trained, this.config.clipNorm);
    if (!skipped) {
      this.optimizer.step(scale, action);
      this.#schedule?.step();
    }
    this.#scaler?.update();
    return { gradNorm, skipped };
  }
}

/** Returns the means of all ranks' numbers, in float32. Every rank must call this function, with equally many numbers. */
function meansOverRanks(engine: Engine, group: ProcessGroup, values: number[]): readonly number[] {
  const tensor = engine.tagged({ cause: 'comm', module: '' }, () =>
    tf.tensor(values, [values.length], 'float32'),
  );
  try {
    group.allReduce(tensor, 'avg', { cause: 'loss' }).wait();
    // Ranks of a dry run can read a single value only.
    return values.length === 1 || engine.hasValues ? Array.from(tensor.dataSync()) : values;
  } finally {
    tensor.dispose();
  }
}

/** The groups of this rank in a training; each group shares one kind of work. */
interface TrainingGroups {
  /** The data-parallel group: its ranks train on different batches. */
  readonly data: ProcessGroup;
  /** The ranks that hold the same parts of matrices. They shard states and average gradients among themselves. */
  readonly shards: ProcessGroup;
  /** The ranks that hold the stages of the model, in order of the stages; null if every rank has all layers. */
  readonly pipeline: ProcessGroup | null;
}

interface Place {
  readonly config: TrainConfig;
  /** All ranks of the training. */
  readonly group: ProcessGroup;
  readonly warn?: Warn | undefined;
}

/**
 * Divides a model in place over ranks, by the config's degrees tp, cp and ep. Throws: CONFIG for a model that cannot be divided;
 * MESH if the degrees do not divide the ranks.
 */
function applyModelParallelism(
  model: Module,
  { config, group, warn = () => undefined }: Place,
): TrainingGroups {
  const { tp, sequenceParallel, cp, cpKind, ep, pp, expertPlacement: placement } = config.parallel;
  if (tp * cp * ep * pp === 1) return { data: group, shards: group, pipeline: null };
  if (tp * cp > 1) requireDivisible(model, tp);
  const once = warnOnce(warn);
  const ranks = initializeModelParallel(group, {
    tensorModelParallelSize: tp,
    contextParallelSize: cp,
    pipelineModelParallelSize: pp,
    expertModelParallelSize: ep,
  });
  if (tp > 1) parallelizeTensors(model, { group: ranks.tp, warn: once }, { sequenceParallel });
  if (cp > 1) applyContextParallel(model, ranks.cp, { kind: cpKind });
  if (ep > 1) applyExpertParallel(model, ranks, { placement });
  return { data: ranks.dp, shards: ranks.dpCp, pipeline: pp > 1 ? ranks.pp : null };
}

/** Throws: CONFIG if not every rank has the model's output. `caller` is the call that reads the output. */
function requireOutput(caller: string, config: Pick<TrainConfig, 'parallel' | 'model'>): void {
  requireWholeOutput(caller, config);
  const { pp } = config.parallel;
  if (pp === 1) return;
  throw new ConfigError(
    `${caller} reads the model's output, but with parallel.pp ${pp} only the ranks of the last stage have it; ` +
      'await run.reshard({ pp: 1 }) first',
  );
}

/** Throws: CONFIG unless the library has a plan that divides models of this class. */
function requireDivisible(model: Module, tp: number): void {
  const isDivisible = model instanceof LanguageModel && (tp === 1 || model.tensorPlan !== null);
  if (isDivisible || (model instanceof VideoModel && tp === 1)) return;
  throw new ConfigError(
    `parallel.tp and parallel.cp cannot divide a ${model.constructor.name} in job.train: both divide nn.gpt, nn.moe and nn.llama, and cp also divides nn.dit; in a loop of a %%ranks cell, ` +
      'parallelizeModule(model, mesh, plan) divides the matrices of any model by the names of its layers, and contextParallel(group) ' +
      'divides sequences',
  );
}

/** Throws: CONFIG if each rank has only the outputs of its own positions. `caller` is the call that reads the outputs of all positions. */
function requireWholeOutput(caller: string, config: Pick<TrainConfig, 'parallel' | 'model'>): void {
  const { cp } = config.parallel;
  // The ranks of a model of videos gather the whole video, so each rank has the whole output.
  if (cp === 1 || isVideoModel(modelShape(config))) return;
  throw new ConfigError(
    `${caller} needs the outputs of whole sequences, but with parallel.cp ${cp} a rank has only outputs of its own positions; ` +
      'await run.reshard({ cp: 1 }) first',
  );
}
