import { join } from 'node:path';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { type Bytes, type ErrorJson, ShardlabError } from '../../../core';
import type { SaveSpec } from './commit';
import type { Chunk } from './part-writer';
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
export class ThreadSink implements SaveSink {
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
