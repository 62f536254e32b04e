import nodeFs, { mkdirSync } from 'node:fs';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { ShardlabError } from '../../../src/core/errors';
import type { ArraySlice } from '../../../src/training/checkpoint/load/fit';
import { loadCheckpoint } from '../../../src/training/checkpoint/load/load-checkpoint';
import { StateDicts } from '../../../src/training/checkpoint/load/state-dicts';
import { Checkpointer, type CheckpointerOptions } from '../../../src/training/checkpoint/save/checkpointer';
import type { SaveOptions } from '../../../src/training/checkpoint/save/save-plan';
import type { TrainingState } from '../../../src/training/checkpoint/state/training-state';
import { createTrainer, type Trainer } from '../../../src/training/trainer';
import { type RankArgs, runAsRank, type TestRank } from '../../support/rank-process';
import { directSink } from './solo';
import { dumpState } from './state-files';

/** The actions of ranks, one after another; 'train' makes the trainer that later actions use. */
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
  | { readonly do: 'dump'; readonly folder: string }
  | { readonly do: 'stateDicts'; readonly other: TrainConfigInput }
  | { readonly do: 'localStateDict' }
  | { readonly do: 'articleSave' };

interface CheckpointArgs extends RankArgs {
  readonly actions: readonly Action[];
  /** Elements of one checksum. */
  readonly blockElements?: number;
}

/** The result of an action: plain JSON, or the error that it threw. */
export type ActionResult = { readonly value: unknown } | { readonly code: string; readonly error: string };

runAsRank<CheckpointArgs>(async (rank) => {
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
      case 'stateDicts':
        return this.#stateDicts(action.other);
      case 'localStateDict':
        // As in a cell that is not type-checked.
        return new StateDicts(this.#rank).stateDictType(
          this.#state.model,
          'LOCAL_STATE_DICT' as 'FULL_STATE_DICT',
          () => 0,
        );
      case 'articleSave':
        return this.#articleSave();
      default:
        return action satisfies never;
    }
  }

  #train(config: TrainConfigInput, steps: number): number[] {
    this.#trainer?.dispose();
    const trainer = createTrainer({ ...this.#rank, config: parseTrainConfig(config) });
    this.#trainer = trainer;
    return Array.from({ length: steps }, () => trainer.step().loss);
  }

  /** Dicts of both types, moved to another placement and back; returns the differences. */
  #stateDicts(other: TrainConfigInput): unknown {
    const { model, optimizer } = this.#state;
    if (optimizer === null) throw new Error('a trainer has an optimizer');
    const { group } = this.#rank;
    const dicts = new StateDicts(this.#rank);
    const full = dicts.stateDict(model);
    const optim = dicts.optimStateDict(model, optimizer);
    const sharded = dicts.stateDictType(model, 'SHARDED_STATE_DICT', () => dicts.stateDict(model));
    const own = [...sharded.values()]
      .flatMap(({ slices }) => slices)
      .reduce((n, { values }) => n + values.length, 0);
    const lone = dicts.stateDictType(model, 'FULL_STATE_DICT', () => dicts.stateDict(model), {
      rank0Only: true,
    });
    const changed: string[] = [];
    const second = createTrainer({ ...this.#rank, config: parseTrainConfig(other) });
    dicts.loadStateDict(second.model, full);
    dicts.loadOptimState(
      second.model,
      second.optimizer,
      dicts.optimStateDictToLoad(second.model, second.optimizer, optim),
    );
    const again = dicts.stateDict(second.model);
    const optimAgain = dicts.optimStateDict(second.model, second.optimizer);
    for (const [name, { slices }] of full) {
      if (!same(slices, again.get(name)?.slices)) changed.push(name);
      for (const [state, array] of Object.entries(optim.state.get(name) ?? {}))
        if (!same(array.slices, optimAgain.state.get(name)?.[state]?.slices))
          changed.push(`${name}.${state}`);
    }
    const misfit = errorFrom(() => dicts.loadStateDict(second.model, sharded));
    const swapped = errorFrom(() =>
      Reflect.apply(dicts.optimStateDictToLoad, dicts, [optim, model, optimizer]),
    );
    second.dispose();
    return {
      changed,
      own,
      lone: lone.size,
      isRank0: group.rank === 0,
      names: full.size,
      numParams: model.numParams(),
      states: Object.keys(optim.state.get('blocks.0.ln1.weight') ?? {}),
      group: optimAgain.param_groups[0],
      misfit,
      swapped,
    };
  }

  /** The article's save_checkpoint: all ranks make the model's dict, rank 0 alone does the rest. */
  #articleSave(): void {
    const { model, optimizer } = this.#state;
    const { group } = this.#rank;
    const dicts = new StateDicts(this.#rank);
    dicts.stateDictType(model, 'SHARDED_STATE_DICT', () => {
      dicts.stateDict(model);
      if (group.rank === 0 && optimizer !== null) dicts.optimStateDict(model, optimizer);
    });
    group.barrier().wait();
  }

  /** Dumps the state at the moment of the save, continues training, and returns the losses and the size of the save. */
  async #saveWhileTraining(folder: string, steps: number): Promise<unknown> {
    const save = await this.#checkpointer.start(this.#state, folder);
    mkdirSync(`${folder}-dump`, { recursive: true });
    dumpState(this.#state, `${folder}-dump`);
    const losses = Array.from({ length: steps }, () => this.#trainer?.step().loss);
    await save.done;
    return { losses, written: save.writtenBytes, total: save.totalBytes };
  }
}

function same(a: readonly ArraySlice[], b: readonly ArraySlice[] | undefined): boolean {
  return JSON.stringify(a.map(bitsOf)) === JSON.stringify(b?.map(bitsOf));
}

function bitsOf({ start, values }: ArraySlice): readonly number[] {
  return [start, ...new Int32Array(values.buffer, values.byteOffset, values.length)];
}

function errorFrom(work: () => unknown): string {
  try {
    work();
    return 'none';
  } catch (error) {
    return String(error);
  }
}

/** Has room for 12000 bytes; truncating a file frees its bytes. */
function fullDisk(): typeof nodeFs {
  let room = 12_000;
  const writeSync = (file: number, bytes: Uint8Array, from: number, length: number, position: number) => {
    room -= length;
    if (room >= 0) return nodeFs.writeSync(file, bytes, from, length, position);
    throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  };
  const ftruncateSync = (file: number, length?: number): void => {
    if (length === 0) room = 12_000;
    nodeFs.ftruncateSync(file, length);
  };
  // A save uses this one of the overloads.
  return { ...nodeFs, writeSync: writeSync as typeof nodeFs.writeSync, ftruncateSync };
}
