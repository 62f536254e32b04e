import fs from 'node:fs';
import { join } from 'node:path';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import {
  type Bytes,
  ConfigError,
  type ErrorJson,
  errorJson,
  formatBytes,
  linkTarget,
  ShardlabError,
  type Warn,
} from '../../../core';
import { prepareFolder, temporaryFolder } from '../format/checkpoint-folder';
import type { FileSystem } from '../format/file-system';
import { processMark } from '../format/process-mark';
import { storedBytes } from '../format/stored-dtypes';
import { agree, exchange, type RankFailure } from '../state/agreement';
import { integersIn } from '../state/state-access';
import { accessOf, type SavedTraining } from '../state/training-state';
import { leaveSave, type SaveSpec } from './commit';
import type { Chunk, SaveIdentity } from './part-writer';
import { checkSaveOptions, describeSave, planSave, type SaveOptions, type SavePlan } from './save-plan';
import type { FromSaveThread, SaveThreadInput, ToSaveThread } from './save-thread';

/** Takes the chunks of a rank's part of a save. */
export interface SaveSink {
  /** Takes a chunk; the caller must not use the chunk's values any more. Resolves when the next chunk may follow. */
  write(chunk: Chunk): Promise<void>;
  /** Takes an error that prevents this rank's part from being completed. */
  fail(error: ErrorJson): void;
  /**
   * Ends the part. Resolves when all ranks' parts are in place; a second call returns the same promise. Rejects with the error
   * of the lowest rank that failed.
   */
  finish(): Promise<void>;
}

/** Writes on a separate thread. If `stagingBytes` bytes wait for the thread, `write` waits. */
class ThreadSink implements SaveSink {
  readonly #stagingBytes: Bytes;
  readonly #port: MessagePort;
  readonly #ended: Promise<void>;
  readonly #sizes: Bytes[] = [];
  #staged: Bytes = 0;
  #isBroken = false;
  #isFinished = false;
  #resume: (() => void) | undefined;

  constructor(spec: SaveSpec, stagingBytes: Bytes) {
    this.#stagingBytes = stagingBytes;
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const workerData: SaveThreadInput = { spec, port: port2 };
    const thread = new Worker(join(__dirname, 'save-thread.js'), { workerData, transferList: [port2] });
    this.#ended = new Promise((resolve, reject) => {
      const hear = (message: FromSaveThread): void => {
        if (message.kind === 'taken') this.#taken();
        else if (message.error === null) resolve();
        else reject(ShardlabError.fromJSON(message.error));
      };
      const broke = (how: string): void => {
        this.#isBroken = true;
        this.#goOn();
        reject(new ShardlabError('INTERNAL', `the thread that writes a checkpoint ${how}`));
      };
      port1.on('message', hear);
      thread.once('error', (error) => broke(`broke: ${String(error)}`));
      thread.once('exit', (code) => {
        // The thread's last message may not have arrived yet.
        for (let last = receiveMessageOnPort(port1); last !== undefined; last = receiveMessageOnPort(port1)) {
          // Only the thread writes to the other end.
          hear(last.message as FromSaveThread);
        }
        broke(`ended early (${code})`);
      });
    });
    // A caller of finish() gets the error. Until that call, the rejection must not count as unhandled.
    this.#ended.catch(() => undefined);
  }

  async write(chunk: Chunk): Promise<void> {
    const { values } = chunk;
    this.#sizes.push(values.byteLength);
    this.#staged += values.byteLength;
    // The checkpointer passes copies, whose buffers are not shared with other arrays.
    const buffer = values.buffer as ArrayBuffer;
    this.#port.postMessage({ kind: 'chunk', chunk } satisfies ToSaveThread, [buffer]);
    if (this.#staged < this.#stagingBytes || this.#isBroken) return;
    await new Promise<void>((resolve) => {
      this.#resume = resolve;
    });
  }

  fail(error: ErrorJson): void {
    this.#port.postMessage({ kind: 'fail', error } satisfies ToSaveThread);
  }

  finish(): Promise<void> {
    if (!this.#isFinished) this.#port.postMessage({ kind: 'finish' } satisfies ToSaveThread);
    this.#isFinished = true;
    return this.#ended;
  }

  #taken(): void {
    this.#staged -= this.#sizes.shift() ?? 0;
    if (this.#staged < this.#stagingBytes) this.#goOn();
  }

  #goOn(): void {
    this.#resume?.();
    this.#resume = undefined;
  }
}

/** A save that has been started. */
export interface CheckpointSave {
  readonly folder: string;
  /** Bytes of this rank's states in the save. */
  readonly totalBytes: Bytes;
  /** The number of these bytes that are written so far. */
  readonly writtenBytes: Bytes;
  /**
   * Resolves on every rank when the checkpoint is in place. Rejects with IO (with file, tensor and offset) or RANK_DIED. If no
   * code reads `done`, an error becomes a warning.
   */
  readonly done: Promise<void>;
}

/** Options of a checkpointer. */
export interface CheckpointerOptions {
  readonly warn: Warn;
  /** Maximum bytes that are copied but not yet written; during a larger save, training waits for the disk. Default 256 MiB. */
  readonly stagingBytes?: Bytes;
  /** Elements per checksum, and so the minimum number of elements that a load reads. Default 16384 (64 KiB). */
  readonly blockElements?: number;
  /** Starts the writer of this rank's part. Default: a function that starts a thread. */
  readonly startSink?: (spec: SaveSpec) => SaveSink;
  /** The functions that access files. Default: node:fs. */
  readonly fileSystem?: FileSystem;
}

const STAGING_BYTES = 256 * 2 ** 20;
const BLOCK_ELEMENTS = 2 ** 14;
/** Number of elements (4 MiB) that are copied at one time. */
const CHUNK_ELEMENTS = 2 ** 20;
const NAME = 'saveCheckpoint()';
const INTERRUPTED: ErrorJson = {
  code: 'INTERRUPTED',
  message: 'the save was interrupted while the state was copied',
};

/** Saves training states; only one save runs at a time. A rank has one checkpointer, and all ranks make the same calls. */
export class Checkpointer {
  readonly #options: Required<CheckpointerOptions>;
  #running: Save | null = null;
  #numSaves = 0;

  constructor(options: CheckpointerOptions) {
    const { stagingBytes = STAGING_BYTES } = options;
    const startSink = (spec: SaveSpec): SaveSink => new ThreadSink(spec, stagingBytes);
    this.#options = { blockElements: BLOCK_ELEMENTS, startSink, fileSystem: fs, stagingBytes, ...options };
  }

  /**
   * Starts a save into a folder. Resolves when the state is copied; then training may continue. When all files are on the disk,
   * the save replaces the checkpoint in this folder. Throws: CONFIG while another save runs; IO if the folder cannot
   * be used; errors of collectives.
   */
  async start(state: SavedTraining, folder: string, options: SaveOptions = {}): Promise<CheckpointSave> {
    checkSaveOptions(options);
    // The save replaces the folder by a rename, which would replace a link to the folder, and not the folder.
    const target = linkTarget(folder);
    if (this.#running !== null) await this.#afterGivenUp(this.#running);
    const identity = this.#enter(state, target, options);
    let sink: SaveSink | undefined;
    // An interrupt skips every `finally`, so the next `recover` gives up the save.
    const withdraw = state.engine.onRecover(() => {
      this.#giveUp(identity, sink, INTERRUPTED);
      this.#running = null;
    });
    let save: Save;
    let staged: Promise<() => Promise<void>>;
    try {
      this.#prepare(state, identity);
      const plan = planSave(state, options);
      const spec = this.#specOf(state, options, identity, plan);
      sink = this.#options.startSink(spec);
      staged = this.#stage(state, plan, sink);
      save = new Save(spec, plan.totalBytes, staged);
    } catch (error) {
      withdraw();
      this.#giveUp(identity, sink, errorJson(error));
      throw error;
    }
    this.#running = save;
    void save.ended((error) => {
      this.#running = null;
      if (error !== null) this.#options.warn(`the save into ${target} failed: ${error.message}`);
    });
    await staged;
    // `withdraw` is called last, because an interrupt can stop this function even after the last copy.
    withdraw();
    return save;
  }

  /** Like `start`, but waits until the checkpoint is in place. */
  async save(state: SavedTraining, folder: string, options: SaveOptions = {}): Promise<void> {
    const { done } = await this.start(state, folder, options);
    await done;
  }

  /**
   * If the temporary folder of the running save is gone, other ranks have given up the save; then this function waits for its
   * end.
   */
  async #afterGivenUp(running: Save): Promise<void> {
    if (this.#options.fileSystem.existsSync(running.temporary)) return;
    await running.ended(() => undefined);
    this.#running = null;
  }

  /**
   * Checks that all ranks start the same save. Returns the save's id, which rank 0 chooses, and the marks of the ranks'
   * processes. Throws: CONFIG.
   */
  #enter(state: SavedTraining, folder: string, { type, dtype, maxShardBytes }: SaveOptions): SaveIdentity {
    const running = this.#running;
    const own = {
      mark: processMark(),
      number: this.#numSaves++,
      request: JSON.stringify({ folder, type, dtype, maxShardBytes }),
      running: running && `${formatBytes(running.writtenBytes)} of ${formatBytes(running.totalBytes)}`,
    };
    const all = exchange(state, NAME, own);
    const busy = all.findIndex((each) => each.running !== null);
    if (busy >= 0) {
      throw new ConfigError(
        `[rank ${busy}] a save is still being written (${all[busy]?.running}); await that save's 'done' before the next save`,
      );
    }
    const unequalRank = all.findIndex(({ request }) => request !== all[0]?.request);
    const members = all.map(({ mark }) => mark);
    if (unequalRank < 0)
      return { folder, id: `${members[0]}-${all[0]?.number}`, members, rank: state.group.rank };
    throw new ConfigError(
      `rank 0 saves ${all[0]?.request}, rank ${unequalRank} saves ${all[unequalRank]?.request}; all ranks must give the same folder and options`,
    );
  }

  #prepare(state: SavedTraining, { folder, id, rank }: SaveIdentity): void {
    let outcome: RankFailure = null;
    try {
      if (rank === 0) prepareFolder(this.#options.fileSystem, folder, id);
    } catch (error) {
      outcome = errorJson(error);
    }
    agree(state, NAME, outcome);
  }

  #specOf(state: SavedTraining, options: SaveOptions, identity: SaveIdentity, plan: SavePlan): SaveSpec {
    const { blockElements } = this.#options;
    const { heads, indices } = plan;
    const written = new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT);
    const description = describeSave(state, plan, options, identity.id);
    const documents = identity.rank === 0 ? { indices, state: description, blockElements } : null;
    return { ...identity, heads, blockElements, written, documents };
  }

  /** Copies the state. Resolves to the function that ends the save; an error goes to the sink. */
  async #stage(state: SavedTraining, plan: SavePlan, sink: SaveSink): Promise<() => Promise<void>> {
    try {
      await this.#copy(state, plan, sink);
    } catch (error) {
      sink.fail(errorJson(error));
    }
    return () => sink.finish();
  }

  /**
   * Copies this rank's elements in chunks of whole checksum blocks, and passes each chunk to the sink before it copies
   * the next chunk. Resolves when all elements are copied; then the state may change.
   */
  async #copy(state: SavedTraining, { tasks }: SavePlan, sink: SaveSink): Promise<void> {
    const access = accessOf(state);
    const { blockElements } = this.#options;
    const most = Math.max(1, Math.floor(CHUNK_ELEMENTS / blockElements)) * blockElements;
    for (const { array, file, tensor, start, length, at, position } of tasks) {
      const { dtype } = array;
      for (let done = 0; done < length; done += most) {
        const range = { start: start + done, length: Math.min(most, length - done) };
        // `read` returns a new copy, whose buffer can be transferred to another thread.
        const read = access.read(array, range) as Float32Array<ArrayBuffer>;
        const values = dtype === 'I32' ? integersIn(read) : read;
        const place = { at: at + done, position: position + storedBytes(dtype) * done };
        await sink.write({ file, tensor, dtype, ...place, values });
      }
    }
  }

  /** Ends this rank's part of a save because of an error before all elements were copied. Does not throw. */
  #giveUp(identity: SaveIdentity, sink: SaveSink | undefined, error: ErrorJson): void {
    if (sink === undefined) {
      leaveSave(this.#options.fileSystem, identity, error);
      return;
    }
    sink.fail(error);
    // The error is ignored here, because the other ranks report it.
    sink.finish().catch(() => undefined);
  }
}

class Save implements CheckpointSave {
  readonly folder: string;
  /** The folder into which the save writes until it is complete. */
  readonly temporary: string;
  readonly totalBytes: Bytes;
  readonly #written: BigInt64Array;
  readonly #done: Promise<void>;
  #isAwaited = false;

  constructor({ folder, id, written }: SaveSpec, totalBytes: Bytes, staged: Promise<() => Promise<void>>) {
    this.folder = folder;
    this.temporary = temporaryFolder(folder, id);
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

  /**
   * Calls `tell` when the save has ended. The argument is the save's error if no code reads `done`, else null. Does not throw.
   */
  async ended(tell: (error: ErrorJson | null) => void): Promise<void> {
    try {
      await this.#done;
      tell(null);
    } catch (error) {
      tell(this.#isAwaited ? null : errorJson(error));
    }
  }
}
