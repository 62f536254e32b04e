import { ShardlabError } from '../../core/errors';
import type { Bytes } from '../../core/units';
import type { SaveNews } from '../control/messages';
import { describeExit, type RankExit } from './rank-process';

/** Gets the number of bytes on the disk, over all ranks. */
export type SaveListener = (writtenBytes: Bytes, totalBytes: Bytes) => void;

interface OpenSave {
  /** Ranks that have not reported their end. */
  readonly missing: Set<number>;
  readonly written: Map<number, { readonly writtenBytes: Bytes; readonly totalBytes: Bytes }>;
  readonly resolve: () => void;
  readonly reject: (error: ShardlabError) => void;
  listener: SaveListener;
}

/** Saves that ranks write beside their other work: reports about them belong to no call. */
export class SaveDesk {
  readonly #open = new Map<number, OpenSave>();
  #nextId = 1;

  /** Expects news of a save from ranks 0 to numRanks - 1. `done` rejects with a rank's error, or with its death. */
  expect(numRanks: number): {
    readonly id: number;
    readonly done: Promise<void>;
    listen(listener: SaveListener): void;
    cancel(): void;
  } {
    const id = this.#nextId++;
    const { promise, resolve, reject } = deferred();
    const save: OpenSave = {
      missing: new Set(Array.from({ length: numRanks }, (_, rank) => rank)),
      written: new Map(),
      resolve,
      reject,
      listener: () => undefined,
    };
    this.#open.set(id, save);
    return {
      id,
      done: promise,
      listen: (listener) => {
        save.listener = listener;
      },
      cancel: () => this.#open.delete(id),
    };
  }

  receive(rank: number, id: number, news: SaveNews): void {
    const save = this.#open.get(id);
    if (save === undefined) return;
    if ('error' in news) this.#ended(id, save, rank, news.error);
    else {
      save.written.set(rank, news);
      const all = [...save.written.values()];
      const sum = (of: (one: { writtenBytes: Bytes; totalBytes: Bytes }) => Bytes): Bytes =>
        all.reduce((total, one) => total + of(one), 0);
      save.listener(
        sum(({ writtenBytes }) => writtenBytes),
        sum(({ totalBytes }) => totalBytes),
      );
    }
  }

  /** A rank's process has ended, so its part of the save will not be written. */
  died(rank: number, exit: RankExit): void {
    for (const [id, save] of this.#open) {
      if (!save.missing.has(rank)) continue;
      this.#open.delete(id);
      save.reject(
        new ShardlabError(
          'RANK_DIED',
          `rank ${rank}'s process ended (${describeExit(exit)}) while a checkpoint was written; the previous checkpoint is complete`,
          { rank },
        ),
      );
    }
  }

  #ended(
    id: number,
    save: OpenSave,
    rank: number,
    error: Extract<SaveNews, { error: unknown }>['error'],
  ): void {
    save.missing.delete(rank);
    if (error !== null) {
      this.#open.delete(id);
      const { code, evalue, details = {} } = error;
      save.reject(new ShardlabError(code, evalue, { details, rank }));
    } else if (save.missing.size === 0) {
      this.#open.delete(id);
      save.resolve();
    }
  }
}

function deferred(): {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: ShardlabError) => void;
} {
  let resolve = (): void => undefined;
  let reject = (_: ShardlabError): void => undefined;
  const promise = new Promise<void>((fulfil, refuse) => {
    resolve = fulfil;
    reject = refuse;
  });
  // A caller that awaits it gets the failure; the save's line shows it also if nobody awaits it.
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}
