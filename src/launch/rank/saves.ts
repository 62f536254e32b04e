import { type Bytes, ConfigError, type Warn } from '../../core';
import type { Engine } from '../../engine';
import type { ScheduleState } from '../../sharding';
import {
  atTimes,
  Checkpointer,
  type CheckpointSave,
  gradientStates,
  type Json,
  loadCheckpoint,
  type RankProgress,
  TELL_MS,
  type Trainer,
  type TrainerState,
} from '../../training';
import type { ProcessGroup } from '../../wire';
import type { EvaluatedStep, RankWork, SaveNews } from '../control/messages';
import { rankError } from './error';

type SaveWork = Extract<RankWork, { kind: 'save' }>;
type LoadWork = Extract<RankWork, { kind: 'load' }>;

/** The result of a rank's load. */
export interface LoadResult {
  /** Steps after which the checkpoint was saved; null if only parameters were loaded. */
  readonly steps: number | null;
  /** The validation losses up to the checkpoint. */
  readonly evaluations: readonly EvaluatedStep[];
  readonly bytesRead: Bytes;
  /** Only from ranks of PyTorch: the rates of all groups and the schedule with which the run continues. The launcher sends the rate of each step. */
  readonly lrs?: readonly number[];
  readonly schedule?: ScheduleState | null;
}

/** Saves and loads the runs of one rank. */
export class RankSaves {
  readonly #engine: Engine;
  readonly #warn: Warn;
  #checkpointer: Checkpointer | undefined;

  constructor({ engine, warn }: { readonly engine: Engine; readonly warn: Warn }) {
    this.#engine = engine;
    this.#warn = warn;
  }

  /** Copies the state and returns its number of bytes; later messages report the writing. */
  async start(
    { folder, options, beside, evaluations }: SaveWork,
    trainer: Trainer,
    group: ProcessGroup,
    tell: (news: SaveNews) => void,
  ): Promise<Bytes> {
    // The module is loaded on first use.
    this.#checkpointer ??= new Checkpointer({ warn: this.#warn });
    const engine = this.#engine;
    const { model, optimizer, config, replicas } = trainer;
    const kept = { state: trainer.state(), config, evaluations } as unknown as Json; // all values are plain JSON
    const state = {
      engine,
      group,
      replicas,
      model,
      optimizer:
        beside === 'nothing' ? null : beside === 'states' ? optimizer : gradientStates(engine, optimizer),
    };
    const save = await this.#checkpointer.start(state, folder, { ...options, trainer: kept });
    void follow(save, tell);
    return save.totalBytes;
  }

  /** Loads parameters and, unless `parametersOnly` is set, all other states of the training. */
  async load(
    { folder, parametersOnly }: LoadWork,
    trainer: Trainer,
    group: ProcessGroup,
    tell: (progress: RankProgress) => void,
  ): Promise<LoadResult> {
    // Pending gradients and whole parameters are dropped, because they belong to the old values.
    trainer.recover();
    const optimizer = parametersOnly ? null : trainer.optimizer;
    let goesOn: TrainerState | undefined;
    let evaluations: readonly EvaluatedStep[] = [];
    const training = { engine: this.#engine, group, model: trainer.model, optimizer };
    const { bytesRead } = loadCheckpoint(training, folder, {
      accept(saved) {
        if (parametersOnly) return;
        goesOn = requireTrainerState(folder, saved?.trainer);
        trainer.requireSameReference(goesOn, folder);
        evaluations = savedEvaluations(saved?.trainer);
      },
      progress: atTimes(tell),
    });
    if (goesOn === undefined) return { steps: null, evaluations, bytesRead };
    trainer.restore(goesOn);
    return { steps: goesOn.steps, evaluations, bytesRead };
  }
}

/** Reports the number of bytes on the disk until the save has ended. */
async function follow(save: CheckpointSave, tell: (news: SaveNews) => void): Promise<void> {
  const timer = setInterval(() => {
    tell({ writtenBytes: save.writtenBytes, totalBytes: save.totalBytes });
  }, TELL_MS);
  try {
    await save.done;
    tell({ error: null });
  } catch (error) {
    tell({ error: rankError(error) });
  } finally {
    clearInterval(timer);
  }
}

/** Returns the trainer's state that `start` stored. Throws: CONFIG if the checkpoint has none. */
function requireTrainerState(folder: string, kept: Json | undefined): TrainerState {
  const { state } = fieldsOf(kept);
  // The checksums prove that a trainer wrote this state.
  if (typeof fieldsOf(state).steps === 'number') return state as unknown as TrainerState;
  throw new ConfigError(
    `${folder} does not say after how many steps it was saved; load only its parameters: run.load(path, { parametersOnly: true })`,
  );
}

/** Returns the validation losses that a checkpoint contains. */
export function savedEvaluations(kept: Json | undefined): readonly EvaluatedStep[] {
  const { evaluations } = fieldsOf(kept);
  // The checksums prove that `start` wrote these fields, perhaps in a version without evaluations.
  return Array.isArray(evaluations) ? (evaluations as unknown as EvaluatedStep[]) : [];
}

function fieldsOf(value: Json | undefined): Readonly<Record<string, Json>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
}
