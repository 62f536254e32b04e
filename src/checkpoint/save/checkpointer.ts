import fs from 'node:fs';
import { resolve } from 'node:path';
import { ConfigError, type ErrorJson, ShardlabError } from '../../core/errors';
import { type Bytes, formatBytes } from '../../core/units';
import type { Warn } from '../../core/warn';
import { prepareFolder, temporaryFolder } from '../format/checkpoint-folder';
import type { FileSystem } from '../format/file-system';
import { processMark } from '../format/process-mark';
import { agree, exchange } from '../state/agreement';
import { type Outcome, outcomeOf } from '../state/outcome';
import type { TrainingState } from '../state/training-state';
import { giveUp } from './give-up';
import { checkSaveOptions, commitDocuments, planSave, type SaveOptions, type SavePlan } from './save-plan';
import { type SaveSink, type StartSink, threadSink } from './save-sink';
import { stageState } from './stage-state';

/** A started save. */
export interface CheckpointSave {
  readonly folder: string;
  /** Bytes of this rank's states: copied ones, and written ones among them. */
  readonly totalBytes: Bytes;
  readonly writtenBytes: Bytes;
  /**
   * Resolves when the checkpoint is in place, on every rank. Throws: IO naming file, tensor and offset; RANK_DIED. If
   * nobody awaits it, an error becomes a warning.
   */
  readonly done: Promise<void>;
}

/** Options of a checkpointer. */
export interface CheckpointerOptions {
  readonly warn: Warn;
  /** The most bytes that may wait to be written; a larger save delays training until there is room. Default 256 MiB. */
  readonly stagingBytes?: Bytes;
  /** Elements per checksum, and so the least number of elements that a load reads; default 16384 (64 KiB). */
  readonly blockElements?: number;
  /** Default: a thread. */
  readonly startSink?: StartSink;
  /** Default: node:fs. */
  readonly fileSystem?: FileSystem;
}

interface Entered {
  readonly members: readonly string[];
  readonly id: string;
}

interface Begun extends Entered {
  readonly folder: string;
  readonly plan: SavePlan;
  readonly written: SharedArrayBuffer;
}

const STAGING_BYTES = 256 * 2 ** 20;
const BLOCK_ELEMENTS = 2 ** 14;
const NAME = 'saveCheckpoint()';
const INTERRUPTED: ErrorJson = {
  code: 'INTERRUPTED',
  message: 'the save was interrupted while the state was copied',
};

/** Saves training states, one at a time. A rank has one checkpointer; all ranks make the same calls. */
export class Checkpointer {
  readonly #options: Required<CheckpointerOptions>;
  #running: Save | null = null;
  #numSaves = 0;

  constructor(options: CheckpointerOptions) {
    const { stagingBytes = STAGING_BYTES } = options;
    const defaults = { blockElements: BLOCK_ELEMENTS, startSink: threadSink(stagingBytes), fileSystem: fs };
    this.#options = { ...defaults, stagingBytes, ...options };
  }

  /**
   * Starts a save into a folder, and replaces the checkpoint there when everything is on the disk. Resolves when the
   * state is copied; then training may continue. Throws: CONFIG while another save runs, IO when the folder cannot be
   * used; errors of collectives.
   */
  async start(state: TrainingState, folder: string, options: SaveOptions = {}): Promise<CheckpointSave> {
    checkSaveOptions(options);
    const target = resolve(folder);
    if (this.#running !== null) await this.#afterGivenUp(this.#running);
    const entered = this.#enter(state, target, options);
    const own = { folder: target, ...entered, rank: state.group.rank };
    let sink: SaveSink | undefined;
    // An interrupted function does not continue and does not run its `finally`.
    const withdraw = state.engine.onRecover(() => {
      giveUp(this.#options.fileSystem, { save: own, sink, error: INTERRUPTED });
      this.#running = null;
    });
    const written = new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT);
    let plan: SavePlan;
    try {
      this.#prepare(state, target, entered.id);
      plan = planSave(state, options);
      sink = this.#sinkOf(state, options, { folder: target, ...entered, plan, written });
    } catch (error) {
      withdraw();
      giveUp(this.#options.fileSystem, { save: own, sink, error: outcomeOf(error) });
      throw error;
    }
    const staged = this.#stage(state, plan, sink);
    const temporary = temporaryFolder(target, entered.id);
    const save = new Save({ folder: target, temporary, totalBytes: plan.totalBytes, written, staged });
    this.#running = save;
    void save.ended((error) => {
      this.#running = null;
      if (error !== null) this.#options.warn(`the save into ${target} failed: ${error.message}`);
    });
    await staged;
    // Until here, the code after the last copy could also be cut off.
    withdraw();
    return save;
  }

  /** As `start`, and waits until the checkpoint is in place. */
  async save(state: TrainingState, folder: string, options: SaveOptions = {}): Promise<void> {
    const { done } = await this.start(state, folder, options);
    await done;
  }

  /** Other ranks may have given up a save whose end this rank has not seen; then its folder is gone. */
  async #afterGivenUp(running: Save): Promise<void> {
    if (this.#options.fileSystem.existsSync(running.temporary)) return;
    await running.ended(() => undefined);
    this.#running = null;
  }

  /** Agrees on the save with all ranks: gives the marks of their processes, and rank 0's id. Throws: CONFIG. */
  #enter(state: TrainingState, folder: string, { type, dtype, maxShardBytes }: SaveOptions): Entered {
    const running = this.#running;
    const own = {
      mark: processMark(),
      number: this.#numSaves++,
      what: JSON.stringify({ folder, type, dtype, maxShardBytes }),
      running: running && `${formatBytes(running.writtenBytes)} of ${formatBytes(running.totalBytes)}`,
    };
    const all = exchange(state, NAME, own);
    const busy = all.findIndex((each) => each.running !== null);
    if (busy >= 0) {
      throw new ConfigError(
        `[rank ${busy}] a save is still being written (${all[busy]?.running}); await its done before the next`,
      );
    }
    const other = all.findIndex(({ what }) => what !== all[0]?.what);
    const members = all.map(({ mark }) => mark);
    if (other < 0) return { members, id: `${members[0]}-${all[0]?.number}` };
    throw new ConfigError(
      `rank 0 saves ${all[0]?.what}, rank ${other} saves ${all[other]?.what}; all ranks must save the same`,
    );
  }

  #prepare(state: TrainingState, folder: string, id: string): void {
    let outcome: Outcome = null;
    try {
      if (state.group.rank === 0) prepareFolder(this.#options.fileSystem, folder, id);
    } catch (error) {
      outcome = outcomeOf(error);
    }
    agree(state, NAME, outcome);
  }

  #sinkOf(
    state: TrainingState,
    options: SaveOptions,
    { folder, members, id, plan, written }: Begun,
  ): SaveSink {
    const { blockElements } = this.#options;
    const { rank } = state.group;
    return this.#options.startSink(
      { rank, temporary: temporaryFolder(folder, id), heads: plan.heads, blockElements, written },
      {
        folder,
        id,
        members,
        rank,
        documents: rank === 0 ? commitDocuments(state, options, plan, { id, blockElements }) : null,
      },
    );
  }

  /** Resolves when everything was copied, or when that failed; gives the function that ends the save. */
  async #stage(state: TrainingState, plan: SavePlan, sink: SaveSink): Promise<() => Promise<void>> {
    try {
      await stageState(state, plan, sink, this.#options.blockElements);
    } catch (error) {
      sink.fail(outcomeOf(error));
    }
    return () => sink.finish();
  }
}

interface SaveParts {
  readonly folder: string;
  readonly temporary: string;
  readonly totalBytes: Bytes;
  readonly written: SharedArrayBuffer;
  readonly staged: Promise<() => Promise<void>>;
}

class Save implements CheckpointSave {
  readonly folder: string;
  /** The folder of the save until it is complete. */
  readonly temporary: string;
  readonly totalBytes: Bytes;
  readonly #written: BigInt64Array;
  readonly #done: Promise<void>;
  #isAwaited = false;

  constructor({ folder, temporary, totalBytes, written, staged }: SaveParts) {
    this.folder = folder;
    this.temporary = temporary;
    this.totalBytes = totalBytes;
    this.#written = new BigInt64Array(written);
    this.#done = staged.then((finish) => finish());
  }

  get writtenBytes(): Bytes {
    return Number(Atomics.load(this.#written, 0));
  }

  get done(): Promise<void> {
    this.#isAwaited = true;
    return this.#done;
  }

  /** Reports the end, with an error that nobody awaited. Does not throw. */
  async ended(tell: (error: ShardlabError | null) => void): Promise<void> {
    try {
      await this.#done;
      tell(null);
    } catch (error) {
      tell(this.#isAwaited ? null : ShardlabError.fromJSON(outcomeOf(error)));
    }
  }
}
