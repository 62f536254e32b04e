import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  encoderShape,
  gradScalerOf,
  isPythonFile,
  modelShape,
  ownData,
  routerOf,
  type TrainConfig,
} from '../config';
import { ConfigError, readRegularFile } from '../core';
import type {
  BatchesMade,
  BatchesNeeded,
  Fleet,
  GroupRef,
  RankWork,
  TorchFramework,
  TorchModel,
  TorchState,
} from '../launch';
import { applyLoRA, buildModel } from '../nn';
import { namedGroups, planUnits, type ScheduleState } from '../sharding';
import { type PreparedData, writeInitialValues } from '../training';
import { TorchBatches } from './batches';
import { checkForTorch } from './settings';

/** A run that ranks of PyTorch will build. */
interface TorchPlace {
  readonly run: number;
  readonly config: TrainConfig;
  readonly data: PreparedData | undefined;
  readonly init: string | readonly string[] | undefined;
  readonly group: GroupRef;
  readonly world: number;
}

/** A caller's choices for PyTorch in addition to the config. */
interface TorchOptions {
  readonly framework?: TorchFramework | undefined;
  readonly compile?: boolean | string | undefined;
}

/** The launcher's part of a run on PyTorch: the batches that ranks request, and the values from which ranks build the model. */
export class TorchRun {
  readonly framework: TorchFramework;
  readonly #compile: string | undefined;
  readonly #folder: string;
  /** The text of the model's file, which is read once, so that all ranks always have the same model. */
  #source: string | undefined;
  /** The folder with the initial values, also of the text encoder, which has the same values for the whole run. */
  #values: string | undefined;
  #batches: TorchBatches | undefined;

  /** `folder` is the job's folder. */
  constructor({ framework = 'fsdp2', compile = false }: TorchOptions, folder: string) {
    this.framework = framework;
    this.#compile = compile === true ? 'inductor' : compile || undefined;
    this.#folder = folder;
  }

  /** Returns warnings about settings without effect. Throws: CONFIG with the settings that PyTorch's ranks do not support. */
  check(config: TrainConfig, world: number): string[] {
    const warnings = checkForTorch(config, this.framework, world);
    checkUnits(config);
    if (this.#compile !== undefined) checkCompiled(config, this.framework);
    return warnings;
  }

  /** Returns the values that ranks need, beside the config, to build a model. Throws: CONFIG if a Python file cannot be read. */
  modelOf(config: TrainConfig): TorchModel {
    const given = modelShape(config);
    // Ranks get the router's options with all defaults, so that only this library defines the defaults.
    const shape = given.kind === 'moe' ? { ...given, ...routerOf(given, given.experts) } : given;
    this.#source ??= pythonSourceOf(config);
    const named = namesOf(config);
    const scaler = gradScalerOf(config) ?? undefined;
    const textEncoder = this.#encoderOf(config);
    return {
      shape,
      framework: this.framework,
      compile: this.#compile,
      ...named,
      textEncoder,
      scaler,
      source: this.#source,
    };
  }

  #encoderOf({ textEncoder }: TrainConfig): TorchModel['textEncoder'] {
    if (textEncoder === null || this.#values === undefined) return undefined;
    return { shape: encoderShape(textEncoder), folder: this.#values, fsdp: textEncoder.fsdp };
  }

  /**
   * Writes a model's initial values to files, and returns the work that builds the model on its ranks. A model in
   * Python has its own values unless there is `init`. `progress` gets the bytes that are written. Throws: CONFIG for
   * data that do not fit, SHAPE, IO.
   */
  train(
    { run, config, data, init, group, world }: TorchPlace,
    progress: (done: number, total: number) => void,
  ): RankWork & { kind: 'train' } {
    this.begin(config, world, data);
    const to = join(this.#folder, `run-${run}-initial`);
    // A job that was shut down has no folder any more; the call on its ranks then throws CLOSED.
    const folder = existsSync(this.#folder)
      ? writeInitialValues(config, init, to, {
          progress,
          insteadOfSpace: 'set TMPDIR to a larger disk before the launch',
        })
      : undefined;
    this.#values = folder;
    const torch = this.modelOf(config);
    return { kind: 'train', run, config, data: undefined, own: undefined, init: folder, group, torch };
  }

  /** From now on, ranks get batches of this config; `world` ranks share the data. Throws: CONFIG for data that do not fit. */
  begin(config: TrainConfig, world: number, prepared: PreparedData | undefined): void {
    this.#batches = new TorchBatches(config, world, prepared);
  }

  /** Makes the batches that a rank requests. */
  readonly answer = (need: BatchesNeeded): BatchesMade => this.#made.make(need);

  /** Sets the learning rate of the step after `steps` updates. */
  setRate(lr: number, steps: number): void {
    this.#made.setRate(lr, steps);
  }

  /** Returns the launcher's part of the state that a checkpoint stores after `steps` updates. */
  stateAfter(steps: number): TorchState {
    return this.#made.stateAfter(steps);
  }

  /** Continues from a checkpoint. */
  restore(lrs: readonly number[], schedule: ScheduleState | null): void {
    this.#made.restore(lrs, schedule);
  }

  get #made(): TorchBatches {
    if (this.#batches === undefined) throw new ConfigError('the run has not begun');
    return this.#batches;
  }
}

/** Throws: CONFIG for names of units and ignored modules that the model lacks, or that cannot stand alone. */
function checkUnits(config: TrainConfig): void {
  const { unitStrategies, ignoredModules } = config.parallel;
  if (unitStrategies.length + ignoredModules.length === 0 || modelShape(config).kind === 'python') return;
  const model = buildModel(config);
  if (config.lora !== null) applyLoRA(model, config.lora);
  planUnits(model, config.parallel);
}

/**
 * Returns the names of the layers that have adapters, and of the parameters of each of the optimizer's groups. Only this library
 * knows what `lora.targets` and the names of groups mean. A model in Python has no layers here, so its ranks find the parameters.
 */
function namesOf(config: TrainConfig): Pick<TorchModel, 'adapted' | 'groups'> {
  const { lora, optimizer } = config;
  if (modelShape(config).kind === 'python' || (lora === null && optimizer.groups.length === 0)) return {};
  const model = buildModel(config);
  const adapted = lora === null ? undefined : applyLoRA(model, lora);
  const names = new Map([...model.namedParameters()].map(([name, parameter]) => [parameter, name]));
  const groups = namedGroups(model, optimizer.groups).slice(1);
  return {
    adapted,
    groups: groups.map(({ parameters }) => (parameters ?? []).map((each) => names.get(each) ?? '')),
  };
}

/** Returns the text of the file that has a config's model; undefined if no file of Python has it. Throws: CONFIG. */
export function pythonSourceOf(config: TrainConfig): string | undefined {
  const shape = modelShape(config);
  return shape.kind === 'python' && isPythonFile(shape.python) ? sourceOf(shape.python) : undefined;
}

function sourceOf(file: string): string {
  try {
    return readRegularFile(file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(
      `model.python: ${file} cannot be read (${reason}); relative paths begin in the notebook's folder`,
      { cause: error },
    );
  }
}

/** Throws: CONFIG for settings that torch.compile does not support here. */
function checkCompiled(config: TrainConfig, framework: TorchFramework): void {
  const { parallel, activationCheckpointing } = config;
  const what =
    Math.max(parallel.tp, parallel.pp, parallel.cp, parallel.ep) > 1
      ? 'parallel.tp, pp, cp and ep'
      : activationCheckpointing === 'selective'
        ? "activationCheckpointing 'selective'"
        : framework === 'deepspeed'
          ? "framework 'deepspeed'"
          : modelShape(config).kind === 'dit'
            ? "a model of kind 'dit'"
            : config.lora !== null
              ? 'lora'
              : ownData(config.data)?.packing === true
                ? 'data.packing, because the documents in a row change in each step'
                : undefined;
  if (what !== undefined)
    throw new ConfigError(
      `job.train: compile does not support ${what}; leave out compile, or change this setting`,
    );
}

/**
 * Returns the launcher's part of a run; undefined if the ranks are not ranks of PyTorch. Throws: CONFIG for a framework or
 * `compile` if the ranks are not ranks of PyTorch.
 */
export function torchRunOf(
  { engine, folder }: Pick<Fleet, 'engine' | 'folder'>,
  { framework, compile }: TorchOptions,
): TorchRun | undefined {
  if (engine === 'torch') return new TorchRun({ framework, compile }, folder);
  if (framework === undefined && !compile) return undefined;
  const given = framework === undefined ? `compile ${compile}` : `framework '${framework}'`;
  throw new ConfigError(
    `job.train: ${given} is for ranks of PyTorch, and this job's ranks run engine '${engine}'; launch with engine: 'torch'`,
  );
}
