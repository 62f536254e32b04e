import type { Engine } from '../../backend/engine';
import type { Json } from '../../checkpoint/format/checkpoint-state';
import type { Checkpointer, CheckpointSave } from '../../checkpoint/save/checkpointer';
import { ConfigError } from '../../core/errors';
import type { Bytes } from '../../core/units';
import type { Warn } from '../../core/warn';
import type { ProcessGroup } from '../../dist/types';
import type { Trainer } from '../../train/trainer';
import type { TrainerState } from '../../train/trainer-state';
import type { RankWork, SaveNews } from '../control/messages';
import { rankError } from './error';

/** Time between two words about how much was written. */
const TELL_MS = 100;

type SaveWork = Extract<RankWork, { kind: 'save' }>;
type LoadWork = Extract<RankWork, { kind: 'load' }>;

/** What a rank read. */
export interface RankLoad {
  /** Steps after which the checkpoint was saved; null where only parameters were loaded. */
  readonly steps: number | null;
  readonly bytesRead: Bytes;
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

  /** Copies the state and gives its bytes; how the writing goes on is told. */
  async start(
    { folder, options }: SaveWork,
    trainer: Trainer,
    group: ProcessGroup,
    tell: (news: SaveNews) => void,
  ): Promise<Bytes> {
    // Loaded when first needed.
    const { Checkpointer } = await import('../../checkpoint/save/checkpointer.js');
    this.#checkpointer ??= new Checkpointer({ warn: this.#warn });
    const { model, optimizer, config } = trainer;
    const state = { engine: this.#engine, group, model, optimizer };
    // Both are plain JSON.
    const kept = { state: trainer.state(), config } as unknown as Json;
    const save = await this.#checkpointer.start(state, folder, { ...options, trainer: kept });
    void follow(save, tell);
    return save.totalBytes;
  }

  /** Loads parameters and, unless only they are wanted, all that training goes on with. */
  async load({ folder, parametersOnly }: LoadWork, trainer: Trainer, group: ProcessGroup): Promise<RankLoad> {
    const { loadCheckpoint } = await import('../../checkpoint/load/load-checkpoint.js');
    // Pending gradients and whole copies go: they are those of other parameters.
    trainer.recover();
    const optimizer = parametersOnly ? null : trainer.optimizer;
    let goesOn: TrainerState | undefined;
    const training = { engine: this.#engine, group, model: trainer.model, optimizer };
    const { bytesRead } = loadCheckpoint(training, folder, (saved) => {
      if (!parametersOnly) goesOn = requireTrainerState(folder, saved?.trainer);
    });
    if (goesOn === undefined) return { steps: null, bytesRead };
    trainer.restore(goesOn);
    return { steps: goesOn.steps, bytesRead };
  }
}

function requireTrainerState(folder: string, trainer: Json | undefined): TrainerState {
  const state = trainerStateOf(trainer);
  if (state !== undefined) return state;
  throw new ConfigError(
    `${folder} does not say after how many steps it was saved; load its parameters only: run.load(path, { parametersOnly: true })`,
  );
}

/** Tells how much is on the disk until all is. */
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

/** What `start` gave to be kept, where it did. */
function trainerStateOf(kept: Json | undefined): TrainerState | undefined {
  if (typeof kept !== 'object' || kept === null || Array.isArray(kept)) return undefined;
  const { state } = kept;
  if (typeof state !== 'object' || state === null || Array.isArray(state)) return undefined;
  // The checksums say that it is what a trainer gave.
  return typeof state.steps === 'number' ? (state as unknown as TrainerState) : undefined;
}
