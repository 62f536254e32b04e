import { join } from 'node:path';
import { inspect } from 'node:util';
import { z } from 'zod';
import {
  configWarnings,
  modelShape,
  parseOptions,
  parseTrainConfig,
  placeText,
  pythonRefused,
  type ShapeOf,
  type TrainConfig,
  type TrainConfigInput,
} from '../../config';
import { ConfigError, classOf, DISPLAY, type DisplayBundle } from '../../core';
import type { Tensor } from '../../core/tf';
import type { ParityFigure } from '../../figures';
import {
  counted,
  type ExpertOptions,
  type Figure,
  runFigures,
  type Table,
  type VideoSheet,
} from '../../figures';
import type { EvaluatedStep, Planted } from '../../launch';
import { warnOnStderr } from '../../launch';
import { SpillFile } from '../../ledger';
import type { PlanPlace } from '../../planner';
import type { ExportReport } from '../../programs';
import type { FileBatch, StepResult } from '../../training';
import type { CountedRun, CountOptions } from '../plans/count';
import type { OwnWork } from '../plans/own';
import { type AnyPlan, type PlannedOptions, plannedOrCounted } from '../plans/plan';
import { subjectOfRun } from '../plans/subject';
import type { Walk } from '../walk/walk';
import { buildOnRanks, placeInNodes } from './build';
import type { RunCallback } from './callbacks';
import { RunCalls, type RunHome, type RunParts } from './calls';
import {
  loadRun,
  type RunLoad,
  type RunLoadOptions,
  type RunSave,
  type RunSaveOptions,
  saveRun,
} from './checkpoints';
import { type JobData, withoutValues } from './data';
import { type ExportOptions, exportRun } from './export';
import { RunFigures } from './figures';
import type { HealedParts } from './heal-run';
import { RunHistory } from './history';
import type { EvaluateOptions, Evaluation } from './inference';
import { type SampleOptions, sampleRun } from './inference';
import { tableOfUnits } from './job-tables';
import type { LogRow } from './log-file';
import type { LoopOptions } from './loop-options';
import { requireModelRoom } from './model-room';
import { type ComparedRun, compareTraining, type ParityOptions } from './parity';
import { type PretrainedFolder, type PretrainedOptions, savePretrained } from './pretrained';
import type { RunSummary } from './progress';
import { MadeEvents } from './recorded-step';
import { checkRunReplicas, type ReplicaReport } from './replica-report';
import {
  changedSettings,
  measuredLoads,
  planReshard,
  type ReshardChange,
  type ReshardReport,
} from './reshard';
import { RunLoop } from './run-loop';
import { type SampleVideoOptions, sampleVideo } from './sample-video';
import type { StepRecords } from './steps';
import { RunTraining } from './training';

export interface RunOptions extends RunHome {
  readonly config: TrainConfigInput;
  /** Files with the initial parameters. Default: the files in the model's folder, else values from the seed. */
  readonly init?: string | readonly string[] | undefined;
  /** Returns the number of ranks of the job. */
  readonly numRanks: () => number;
  /** Number of ranks that train: the first ranks of the job. */
  readonly world: number;
  /** The number of steps after which ranks copy their states to each other; undefined: never. */
  readonly copySteps?: number | undefined;
  /** The job's folder, which stores the steps that are not in memory. */
  readonly folder: string;
  readonly jobData: JobData;
  /** The faults that ranks make. */
  readonly planted: Planted;
  /** The user's functions; undefined if there are none. */
  readonly own: OwnWork | undefined;
  /** Called when the run is disposed. */
  readonly disposed: () => void;
}

const EXPERTS = {
  layer: z.string(),
  by: z.enum(['expert', 'rank']),
} satisfies ShapeOf<ExpertOptions>;

/** A model in training on ranks of a job. Shown in a notebook as one line. */
export class Run extends RunFigures {
  readonly #parts: RunOptions & RunParts;
  readonly #loop: RunLoop<Run>;
  readonly #training: RunTraining;
  /** Number of parameters of the whole model; tied parameters count once. */
  readonly numParams: number;
  #isDisposed = false;

  private constructor(parts: RunOptions & RunParts, training: RunTraining, numParams: number) {
    super();
    this.#parts = parts;
    this.#loop = new RunLoop<Run>(this, { ...parts, warn: warnOnStderr }, training);
    this.#training = training;
    this.numParams = numParams;
  }

  /** Builds the model on its ranks. Throws: CONFIG, OUT_OF_MEMORY and errors of ranks. */
  static async create(options: RunOptions): Promise<Run> {
    const { number: run, world, torch, supervisor } = options;
    const { numInterrupts } = supervisor;
    const parsed = placeInNodes({ config: parseTrainConfig(options.config), world }, options.nodes).config;
    const shape = modelShape(parsed);
    if (torch === undefined && shape.kind === 'python') throw pythonRefused(shape);
    const warnings = torch?.check(parsed, world) ?? [];
    const data = await options.jobData.prepare(parsed, world);
    const config = withoutValues(parsed);
    const file = new SpillFile(join(options.folder, `run-${run}-steps`));
    const calls = new RunCalls(options);
    const history = new RunHistory({ config, world }, file, warnOnStderr);
    const parts = { ...options, data, calls, history, made: new MadeEvents() };
    const training = new RunTraining(parts);
    const notes = data !== undefined && 'notes' in data ? data.notes : [];
    warn([...configWarnings(options.config, config, world), ...warnings, ...notes]);
    requireModelRoom(config, world);
    try {
      const numParams = await calls.during(numInterrupts, () => buildOnRanks(parts, options.planted.faults));
      return new Run(parts, training, numParams);
    } catch (error) {
      // If a rank failed, other ranks may already have built the model and still hold it.
      await calls.free(world).catch(() => undefined);
      throw await training.advised(error);
    }
  }

  /** The records of all ranks, step by step, rank by rank; each takes tens of kilobytes. `[...run.records]` loads all of them. */
  get records(): StepRecords {
    return this.#parts.history.steps;
  }

  /** The current config; resharding changes it. */
  get config(): TrainConfig {
    return this.#parts.history.phase.config;
  }

  /** Number of ranks that train. */
  get world(): number {
    return this.#parts.history.phase.world;
  }

  /** Number of the last step, from 1; steps before a loaded checkpoint count too. 0 before the first. */
  get lastStep(): number {
    return this.#parts.history.lastStep;
  }

  /** The result of each step. */
  get results(): readonly StepResult[] {
    return this.#parts.history.steps.results();
  }

  /**
   * The learning rate that was set for the next step, else the last step's, else the config's. Setting it changes all
   * groups of parameters, as a loop over torch's optimizer.param_groups does; a schedule continues from the new rate
   * and scales its later rates. Throws: CONFIG for a value that is not a number from 0 on.
   * @example
   * run.lr = 1e-4;
   * await run.step(20);
   */
  get lr(): number {
    return this.#loop.lr;
  }

  set lr(lr: number) {
    this.#loop.lr = lr;
  }

  /** The validation losses so far, by step. */
  get evaluations(): readonly EvaluatedStep[] {
    return this.#parts.history.evaluations;
  }

  /**
   * Trains `numSteps` steps and shows loss and speed while they run; `options` say when the run is evaluated and saved, and when it
   * ends early. An interrupt ends the training after the running step.
   * Throws: CONFIG, INTERRUPTED, CALLBACK, OUT_OF_MEMORY and errors of ranks; CLOSED when the run has ended.
   * @example
   * await run.step(20);
   */
  async step(numSteps = 1, options: LoopOptions = {}): Promise<RunSummary> {
    return await this.#loop.step(numSteps, options);
  }

  /**
   * Trains step by step: each turn of the loop gets the result of one step, and the next step waits for the loop's body. Without
   * `numSteps`, it continues until `break`. `options` are those of `run.step`. Throws: as `run.step` does.
   * @example
   * for await (const { step, loss } of run.steps(20)) {
   *   if (loss < 1) break;
   *   if (step % 10 === 0) console.log(await run.sample('function ', { tokens: 20 }));
   * }
   */
  steps(numSteps = Number.POSITIVE_INFINITY, options: LoopOptions = {}): AsyncGenerator<StepResult, void> {
    return this.#loop.steps(numSteps, options);
  }

  /**
   * Begins the next step, whose ranks halt before each of its points: the gather of a unit, its forward, a collective, the update.
   * `walk.next()` lets each rank pass one point, `walk.until('reduceScatter')` continues to a point, and `walk.live()` completes the
   * step. The step's losses equal those of `run.step()`; its times are not recorded. Throws: as `run.step` does; CONFIG for ranks of
   * PyTorch.
   * @example
   * const walk = await run.walk();
   * await walk.next();
   * await walk.until('reduceScatter');
   * await walk.live();
   */
  async walk(): Promise<Walk> {
    return await this.#loop.walk();
  }

  /**
   * Adds functions that the run calls while it trains; returns a function that removes them. The next step waits for a function that
   * is async. If one returns 'stop', the training ends after that step; if one throws, the call of run.step throws too, and the
   * run can continue. Throws: CONFIG.
   * @example
   * const remove = run.addCallback({
   *   onStepEnd: ({ loss }) => (loss < 0.5 ? 'stop' : undefined),
   *   onEvaluate: ({ step, loss }) => console.log(step, loss),
   * });
   * await run.step(5);
   * remove();
   */
  addCallback(callback: RunCallback<Run>): () => void {
    return this.#loop.callbacks.add(callback);
  }

  /**
   * From now on, writes a row per step and per evaluation into a file of JSON lines, or calls a function with each row. The file
   * is complete after each step. Rows are appended; if the run continues from a checkpoint, rows of later steps are removed from
   * the file's end. Returns a function that ends the log. Throws: CONFIG, IO.
   * @example
   * run.log('jsonl', 'log.jsonl');
   * const end = run.log((row) => row.kind === 'step' && console.log(row.step, row.loss));
   * await run.step(2);
   * end();
   */
  log(target: 'jsonl', path: string): () => void;
  log(target: (row: LogRow) => unknown): () => void;
  log(target: unknown, path?: unknown): () => void {
    return this.#loop.logs.add(target, path);
  }

  /**
   * Trains this run and another run for some steps. Compares losses, gradients, parameters, calls and bytes of collectives, and
   * memory by cause. Names the first difference: step, module, parameter. Both runs must have the same model, data, optimizer and
   * number of steps so far; their jobs' engines may differ. [Note: what counts as equal] Throws: CONFIG, errors of ranks.
   * @example
   * const [here, there] = await Promise.all([sl.launch({ ranks: 2 }), sl.launch({ ranks: 2 })]);
   * const sharded = await here.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });
   * const whole = await there.train({ model: 'tiny', parallel: { strategy: 'NO_SHARD' } });
   * await sharded.parity(whole, { steps: 2 });
   */
  async parity(other: Run, options: ParityOptions = {}): Promise<ParityFigure> {
    if (!(other instanceof Run))
      throw new ConfigError(`run.parity takes another run, as run.parity(other), not ${classOf(other)}`);
    return await compareTraining([this.#compared, other.#compared], options);
  }

  /**
   * Trains one step and compares what its points make on ranks that must have equal values: whole parameters, results of
   * all-reduces, replicas before and after the update. Names the first event after which values differ, the parameter, and the
   * ranks that differ from most. Throws: CONFIG on PyTorch; as `run.step` does.
   * @example
   * const report = await run.checkReplicas();
   * report.first?.event; // 'allGather of blocks.1 (#12)'
   */
  async checkReplicas(): Promise<ReplicaReport> {
    return await checkRunReplicas(this.#compared);
  }

  /**
   * Returns the mean loss on the rows that are never trained on, with dropout off. Every row counts once, even if ranks
   * cannot share the rows equally. `metrics` are functions of the model's output and the batch, which ranks call with
   * the scope; each result is the mean over all rows. Throws: CONFIG if the config's data have no validation rows, or for
   * metrics of a model that returns only its loss; errors of ranks.
   * @example
   * const run = await job.train({ model: 'tiny', data: { path: './text.txt', validation: 0.1 } });
   * const { loss, metrics } = await run.evaluate({
   *   metrics: { accuracy: (logits, { y }, { tf }) => tf.mean(tf.equal(tf.argMax(logits, -1), y)) },
   * });
   * [loss, metrics.accuracy];
   */
  async evaluate<Name extends string = never, Output = Tensor, Batch = FileBatch>(
    options: EvaluateOptions<Name, Output, Batch> = {},
  ): Promise<Evaluation<Name>> {
    return await this.#loop.evaluate(options);
  }

  /** Ends the running work after the running step. Returns whether the work ended in time, or 'idle' if there was no work. */
  async stop(): Promise<'stopped' | 'late' | 'idle'> {
    return await this.#loop.stop();
  }

  /**
   * Plans the run's config at another place, as sl.plan(config, place, options) does; without `gpus`, on as many GPUs as the run has
   * ranks. Throws: CONFIG as sl.plan does.
   * @example
   * run.plan('H100-80G').whatIf({ strategy: ['NO_SHARD', 'FULL_SHARD'] });
   * run.plan({ on: 'A100-80G', gpus: 64 }, { count: true }).peak;
   */
  plan(place: PlanPlace | undefined, options: CountOptions): CountedRun;
  plan(place?: PlanPlace, options?: PlannedOptions): AnyPlan;
  plan(place?: PlanPlace, options: PlannedOptions | CountOptions = {}): AnyPlan | CountedRun {
    const { config, world } = this;
    const { own, data } = this.#parts;
    return plannedOrCounted(subjectOfRun({ config, world, own, data }, place, options), options);
  }

  /**
   * Draws how many rows each expert of a layer computed in each step; with `by: 'rank'`, the rows of each rank. The figure's
   * table has all layers and the dropped tokens. Throws: CONFIG before the first step, without experts, and for an unknown layer.
   * @example
   * const moe = { kind: 'moe', layers: 2, dim: 32, heads: 2, vocab: 512, seq: 32, experts: 4 } as const;
   * const mixed = await job.train({ model: moe });
   * await mixed.step(2);
   * mixed.experts({ layer: 'blocks.0.moe' });
   */
  experts(options: ExpertOptions = {}): Figure {
    const drawn = parseOptions('experts({ … })', options, EXPERTS);
    const steps = this.results.flatMap(({ step, experts, rankRows = {} }) =>
      experts === undefined ? [] : { step, experts, rankRows },
    );
    if (steps.length > 0) return runFigures.experts(steps, drawn);
    throw new ConfigError(
      'experts() draws the loads of experts, and this run has none yet: await run.step() first, with a model that has experts within its layers',
    );
  }

  /**
   * Continues a text, or a list of token ids: a language model chooses one token after the other. Returns the prompt and the
   * added tokens. Works under every strategy: units are gathered for each token. The model sees at most its last `seq`
   * tokens. Throws: CONFIG for a model without tokens and for wrong options, and errors of ranks.
   * @example
   * console.log(await run.sample('function ', { tokens: 50, temperature: 0.8, topK: 40 }));
   */
  async sample<Prompt extends string | readonly number[]>(
    prompt: Prompt,
    options: SampleOptions = {},
  ): Promise<Prompt extends string ? string : number[]> {
    return await this.#loop.take('sampling', () => sampleRun(this.#parts, prompt, options));
  }

  /**
   * Draws a video for each caption with a dit that trains on 'moving-shapes' or on videos of your own. Euler steps begin at noise; each step uses the
   * expert of its timestep. A fixed coder turns the result into pixels. Throws: CONFIG for other models and captions.
   * @example
   * const videos = await job.train({ model: 'wan-tiny', data: 'moving-shapes' });
   * await videos.sampleVideo(['a red circle moves right', 'a blue square moves up'], { steps: 20 });
   */
  async sampleVideo(
    captions: string | readonly string[],
    options: SampleVideoOptions = {},
  ): Promise<VideoSheet> {
    return await this.#loop.take('sampling', () => sampleVideo(this.#parts, captions, options));
  }

  /**
   * Changes strategy, wrapping, precision or number of ranks in the running job: parameters and optimizer states move
   * to their new ranks, and each element is compared with the old one, bit by bit. The next step continues from them.
   * `expertPlacement: 'by-use'` uses the loads of the last steps to move experts, so that ranks compute about equally many rows.
   * Throws: CONFIG, after which the run is unchanged; CHECK if an element differs; errors of ranks. When states have begun to
   * move, CHECK and errors of ranks end the run.
   */
  async reshard(change: ReshardChange): Promise<ReshardReport> {
    return await this.#loop.take('resharding', async () => {
      const from = { config: this.config, world: this.world };
      const wanted = planReshard(from, change, this.#parts.numRanks(), () => measuredLoads(this.results));
      const to = placeInNodes(wanted, this.#parts.nodes);
      warn([
        ...configWarnings(changedSettings(change), to.config, to.world),
        ...(this.#parts.torch?.check(to.config, to.world) ?? []),
      ]);
      return await this.#training.reshard(from, to);
    });
  }

  /**
   * Saves the run into a folder and replaces the checkpoint there when everything is on the disk; each rank writes its
   * own shards. With `async: true`, save resolves when the state is copied, and `done` resolves when the checkpoint is in
   * place.
   * Throws: IO naming file and tensor; the run can then continue, and the previous checkpoint stays complete.
   */
  async save(path: string, options: RunSaveOptions = {}): Promise<RunSave> {
    return await this.#loop.takeAndCall('saving', 'onSave', () => saveRun(this.#parts, path, options));
  }

  /**
   * Saves the model, without the training's state, in Hugging Face's format: config.json, safetensors files with the
   * published names, and the tokenizer of the folder from which the model came. Adapters of `lora` are merged into their
   * matrices; with `adapter: true`, only the adapters are saved, in PEFT's format. Throws: CONFIG for a kind of model that
   * transformers does not have, IO.
   * @example
   * await run.savePretrained('my-llama'); // Python: AutoModelForCausalLM.from_pretrained('my-llama')
   */
  async savePretrained(folder: string, options: PretrainedOptions = {}): Promise<PretrainedFolder> {
    return await this.#loop.take('saving', () => savePretrained(this.#parts, folder, options));
  }

  /**
   * Writes a folder that trains this run elsewhere: a training script and its configs, launch scripts, the current parameters, the next
   * batches, requirements, and REPORT.md, which names the settings that the target writes differently or leaves out.
   * Returns this report. Throws: CONFIG naming each setting that the target cannot express, IO.
   * @example
   * const small = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });
   * await small.export({ to: 'slurm', out: 'on-slurm', machines: 4, gpusPerMachine: 8 });
   */
  async export(options: ExportOptions): Promise<ExportReport> {
    return await this.#loop.take('saving', () => exportRun(this.#parts, options));
  }

  /**
   * Continues from a checkpoint of the same model, which a run with any world and strategy may have saved. This run's records
   * of later steps are dropped. Throws: SHAPE naming tensors that do not fit, IO; a damaged file ends the run.
   */
  async load(path: string, options: RunLoadOptions = {}): Promise<RunLoad> {
    const loaded = await this.#loop.take('loading', () => loadRun(this.#parts, path, options));
    if (loaded.step !== null) this.#loop.logs.resume(loaded.step);
    return loaded;
  }

  /**
   * Returns a table of the model's units: elements, padding, bytes and hints. On a shaped link, the table also has the times of
   * all-gathers. Throws: CONFIG if the model has no units (NO_SHARD).
   */
  async units(): Promise<Table> {
    return await tableOfUnits(this.#parts);
  }

  [DISPLAY](): DisplayBundle {
    return { 'text/plain': this[inspect.custom]() };
  }

  /** Returns the text that Node shows: 'FULL_SHARD on 4 ranks, 1,063,680 parameters, 20 steps: loss 7.6 → 5.1'. */
  [inspect.custom](): string {
    const { losses } = this;
    const { note } = this.#parts.planted;
    const head = `${placeText(this)}, ${this.numParams.toLocaleString('en-US')} parameters${note === null ? '' : `, ${note}`}`;
    const [first] = losses;
    if (first === undefined) {
      const since = this.lastStep === 0 ? 'yet' : `since step ${this.lastStep} was loaded`;
      return `${head}, no step ${since}: await run.step(20)`;
    }
    const last = losses.at(-1) ?? first;
    return `${head}, ${counted(losses.length, 'step')}: loss ${first.toFixed(4)} → ${last.toFixed(4)}`;
  }

  /** Frees the model on all ranks, but not the run's records. */
  async dispose(): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#parts.disposed();
    this.#loop.logs.close();
    await this.#parts.calls.dispose(this.world);
  }

  /**
   * The parts of this run by which job.heal() continues it.
   * @internal
   */
  get healing(): HealedParts {
    return { ...this.#parts, loop: this.#loop };
  }

  /** The parts of this run that a comparison needs. */
  get #compared(): ComparedRun {
    const loop = this.#loop;
    return { parts: this.#parts, run: this, take: (work) => loop.take('comparing', work) };
  }

  protected get drawn(): RunParts {
    return this.#parts;
  }
}

/** Writes each warning as a line of stderr; a notebook shows it under the cell. */
function warn(messages: readonly string[]): void {
  for (const message of messages) warnOnStderr(message);
}
