import { join } from 'node:path';
import { modelShape } from '../../config/settings/model';
import type { TrainConfig } from '../../config/train-config';
import { ConfigError } from '../../core/errors';
import type { PreparedData } from '../../data/prepared';
import type { ScheduleState } from '../../optim/lr-schedule';
import type { GroupRef, RankWork } from '../control/messages';
import {
  type BatchesMade,
  type BatchesNeeded,
  TORCH_FRAMEWORKS,
  type TorchFramework,
  type TorchModel,
  type TorchState,
} from '../control/torch-messages';
import type { Fleet } from '../launch/fleet';
import { TorchBatches } from './batches';
import { writeInitialValues } from './initial-values';
import { checkForTorch } from './settings';

/** A run to build. */
interface TorchPlace {
  readonly run: number;
  readonly config: TrainConfig;
  readonly data: PreparedData | undefined;
  readonly init: string | readonly string[] | undefined;
  readonly group: GroupRef;
  readonly world: number;
}

/** The launcher's part of a run on PyTorch: what its ranks ask for, and what they get to build the model. */
export class TorchRun {
  readonly framework: TorchFramework;
  readonly #folder: string;
  #batches: TorchBatches | undefined;

  /** `folder` is the job's folder. Throws: CONFIG for an unknown framework. */
  constructor(framework: TorchFramework, folder: string) {
    if (!TORCH_FRAMEWORKS.includes(framework)) {
      throw new ConfigError(
        `job.train: framework is '${framework}'; PyTorch has ${TORCH_FRAMEWORKS.join(', ')}`,
      );
    }
    this.framework = framework;
    this.#folder = folder;
  }

  /** Returns warnings about settings without effect. Throws: CONFIG naming the settings that PyTorch's ranks do not do. */
  check(config: TrainConfig, world: number): string[] {
    return checkForTorch(config, this.framework, world);
  }

  /** What ranks need to build a config's model besides the config. */
  modelOf(config: TrainConfig): TorchModel {
    return { shape: modelShape(config), framework: this.framework };
  }

  /**
   * Returns the work that builds a model on its ranks, whose initial values are then in files. `progress` gets bytes of them. Throws:
   * CONFIG for data that do not fit, SHAPE, IO.
   */
  train(
    { run, config, data, init, group, world }: TorchPlace,
    progress: (done: number, total: number) => void,
  ): RankWork & { kind: 'train' } {
    this.begin(config, world, data);
    const folder = writeInitialValues(config, init, join(this.#folder, `run-${run}-initial`), progress);
    const torch = this.modelOf(config);
    return { kind: 'train', run, config, data: undefined, own: undefined, init: folder, group, torch };
  }

  /** From now on, ranks get the batches of this config on `world` ranks. Throws: CONFIG for data that do not fit. */
  begin(config: TrainConfig, world: number, prepared: PreparedData | undefined): void {
    this.#batches = new TorchBatches(config, world, prepared);
  }

  /** Answers a rank's question. */
  readonly answer = (need: BatchesNeeded): BatchesMade => this.#made.make(need);

  /** Sets the learning rate of the step after `steps` steps. */
  setRate(lr: number, steps: number): void {
    this.#made.setRate(lr, steps);
  }

  /** What a checkpoint stores of the launcher's part. */
  stateAfter(steps: number): TorchState {
    return this.#made.stateAfter(steps);
  }

  /** Continues from a checkpoint. */
  restore(lr: number, schedule: ScheduleState | null): void {
    this.#made.restore(lr, schedule);
  }

  get #made(): TorchBatches {
    if (this.#batches === undefined) throw new ConfigError('the run has not begun');
    return this.#batches;
  }
}

/** Returns the launcher's part of a run; undefined if the ranks are this library's. Throws: CONFIG for a framework that they do not have. */
export function torchRunOf(
  { engine, folder }: Pick<Fleet, 'engine' | 'folder'>,
  framework: TorchFramework | undefined,
): TorchRun | undefined {
  if (engine === 'torch') return new TorchRun(framework ?? 'fsdp2', folder);
  if (framework === undefined) return undefined;
  throw new ConfigError(
    `job.train: framework '${framework}' is for ranks of PyTorch, and this job's ranks run engine '${engine}'; launch with engine: 'torch'`,
  );
}
