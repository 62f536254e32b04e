import nodeFs, { mkdirSync } from 'node:fs';
import { Checkpointer, type CheckpointerOptions } from '../../src/checkpoint/checkpointer';
import { loadCheckpoint } from '../../src/checkpoint/load-checkpoint';
import type { SaveOptions } from '../../src/checkpoint/save-plan';
import { directSink } from '../../src/checkpoint/save-sink';
import type { TrainingState } from '../../src/checkpoint/training-state';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { ShardlabError } from '../../src/core/errors';
import { createTrainer, type Trainer } from '../../src/train/trainer';
import { type RankArgs, runAsRank, type TestRank } from '../support/rank-process';
import { dumpState } from './state-files';

/** What ranks do, one after another; 'train' makes the trainer that the rest is about. */
export type Action =
  | { readonly do: 'train'; readonly config: TrainConfigInput; readonly steps: number }
  | {
      readonly do: 'save';
      readonly folder: string;
      readonly options?: SaveOptions;
      readonly fullDiskOn?: number;
    }
  | { readonly do: 'saveWhileTraining'; readonly folder: string; readonly steps: number }
  | { readonly do: 'saveTwice'; readonly folder: string }
  | { readonly do: 'load'; readonly folder: string }
  | { readonly do: 'dump'; readonly folder: string };

interface CheckpointArgs extends RankArgs {
  readonly actions: readonly Action[];
  /** Elements of one checksum. */
  readonly blockElements?: number;
}

/** What an action gave: plain JSON, or the error that it threw. */
export type ActionResult = { readonly value: unknown } | { readonly code: string; readonly error: string };

void runAsRank<CheckpointArgs>(async (rank) => {
  const session = new Session(rank);
  const results: ActionResult[] = [];
  for (const action of rank.args.actions) results.push(await session.result(action));
  session.dispose();
  return results;
});

class Session {
  readonly #rank: TestRank<CheckpointArgs>;
  readonly #warnings: string[] = [];
  readonly #checkpointer: Checkpointer;
  #trainer: Trainer | undefined;

  constructor(rank: TestRank<CheckpointArgs>) {
    this.#rank = rank;
    this.#checkpointer = new Checkpointer(this.#options());
  }

  async result(action: Action): Promise<ActionResult> {
    try {
      return { value: (await this.#run(action)) ?? null };
    } catch (error) {
      if (!(error instanceof ShardlabError)) throw error;
      return { code: error.code, error: error.message };
    }
  }

  dispose(): void {
    this.#trainer?.dispose();
  }

  #options(): CheckpointerOptions {
    const { blockElements } = this.#rank.args;
    return {
      warn: (message) => this.#warnings.push(message),
      ...(blockElements === undefined ? {} : { blockElements }),
    };
  }

  get #state(): TrainingState {
    if (this.#trainer === undefined) throw new Error('train comes first');
    const { model, optimizer } = this.#trainer;
    const { engine, group } = this.#rank;
    return { engine, group, model, optimizer };
  }

  async #run(action: Action): Promise<unknown> {
    switch (action.do) {
      case 'train':
        return this.#train(action.config, action.steps);
      case 'save': {
        const isFull = action.fullDiskOn === this.#rank.group.rank;
        const checkpointer = isFull
          ? new Checkpointer({ ...this.#options(), startSink: directSink(fullDisk()) })
          : this.#checkpointer;
        await checkpointer.save(this.#state, action.folder, action.options);
        return this.#warnings;
      }
      case 'saveWhileTraining':
        return this.#saveWhileTraining(action.folder, action.steps);
      case 'saveTwice': {
        const first = await this.#checkpointer.start(this.#state, action.folder);
        try {
          await this.#checkpointer.start(this.#state, action.folder);
        } finally {
          await first.done;
        }
        return null;
      }
      case 'load': {
        const { bytesRead, peakBytes, state } = loadCheckpoint(this.#state, action.folder);
        return { bytesRead, peakBytes, trainer: state?.trainer, steps: this.#state.optimizer?.steps };
      }
      case 'dump':
        mkdirSync(action.folder, { recursive: true });
        return dumpState(this.#state, action.folder);
      default:
        action satisfies never;
    }
  }

  #train(config: TrainConfigInput, steps: number): number[] {
    this.#trainer?.dispose();
    const trainer = createTrainer({ ...this.#rank, config: parseTrainConfig(config) });
    this.#trainer = trainer;
    return Array.from({ length: steps }, () => trainer.step().loss);
  }

  /** Dumps the state at the moment of the save, goes on training, and says how far the save was meanwhile. */
  async #saveWhileTraining(folder: string, steps: number): Promise<unknown> {
    const save = await this.#checkpointer.start(this.#state, folder);
    mkdirSync(`${folder}-dump`, { recursive: true });
    dumpState(this.#state, `${folder}-dump`);
    const losses = Array.from({ length: steps }, () => this.#trainer?.step().loss);
    await save.done;
    return { losses, written: save.writtenBytes, total: save.totalBytes };
  }
}

/** Has room for 12000 bytes; a file that is cut gives its room back. */
function fullDisk(): typeof nodeFs {
  let room = 12_000;
  const writeSync = (file: number, bytes: Uint8Array, from: number, length: number, position: number) => {
    room -= length;
    if (room >= 0) return nodeFs.writeSync(file, bytes, from, length, position);
    throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  };
  const ftruncateSync = (file: number, length: number): void => {
    if (length === 0) room = 12_000;
    nodeFs.ftruncateSync(file, length);
  };
  // Of the overloads, a save uses this one.
  return { ...nodeFs, writeSync: writeSync as typeof nodeFs.writeSync, ftruncateSync };
}
