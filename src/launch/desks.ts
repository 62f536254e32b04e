import { type Bytes, type ErrorCode, ShardlabError } from '../core';
import type { CallSink } from './call';
import type { ControlServer } from './control/control-server';
import type { FromRank, ToRank } from './control/messages';
import { firstRanks } from './control/selection';
import type { Situation } from './control/situation';
import { describeExit, type RankExit } from './rank-process';

/** Asks couriers what their main threads do. Couriers also answer while main threads compute or wait. */
export class StatusDesk {
  /** The functions that receive ranks' answers, by the question's id. If `status` is omitted, the rank's process has ended. */
  readonly #listeners = new Map<number, (rank: number, status?: Situation) => void>();
  readonly #control: ControlServer;
  #nextId = 1;

  constructor(control: ControlServer) {
    this.#control = control;
  }

  /**
   * Returns the statuses of the `ranks` that answer in `timeoutMs`, with `looks` with the line that each runs; resolves at once when
   * all `ranks` have answered or ended.
   */
  ask(ranks: readonly number[], timeoutMs: number, looks: boolean): Promise<Map<number, Situation>> {
    const id = this.#nextId++;
    const answers = new Map<number, Situation>();
    const unanswered = new Set(ranks);
    if (unanswered.size === 0) return Promise.resolve(answers);
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.#listeners.delete(id);
        resolve(answers);
      };
      const timer = setTimeout(finish, timeoutMs);
      this.#listeners.set(id, (rank, status) => {
        if (status !== undefined) answers.set(rank, status);
        if (unanswered.delete(rank) && unanswered.size === 0) finish();
      });
      for (const rank of ranks) this.#control.send(rank, { type: 'status', id, looks });
    });
  }

  receive(rank: number, { id, status }: FromRank & { type: 'status' }): void {
    this.#listeners.get(id)?.(rank, status);
  }

  /** Stops waiting for the answers of a rank whose process has ended. */
  died(rank: number): void {
    for (const answer of this.#listeners.values()) answer(rank);
  }
}

/** A save of which ranks will report the end. */
interface ExpectedSave {
  readonly id: number;
  readonly done: Promise<void>;
  /**
   * Must be called when the call of the save has failed. The ranks in `copied` nevertheless have copied their state and still
   * write it, and accept no other save meanwhile; resolves when they have ended.
   */
  abandon(copied: readonly number[]): Promise<void>;
}

interface OpenSave {
  /** Ranks that have not reported the end of their part of the save. */
  readonly missing: Set<number>;
  readonly written: Map<number, { readonly writtenBytes: Bytes; readonly totalBytes: Bytes }>;
  /** Receives the number of bytes on the disk, summed over ranks. */
  readonly listener: (writtenBytes: Bytes, totalBytes: Bytes) => void;
  /** Ends the save; `error` is set if the save failed. */
  readonly settle: (error?: ShardlabError) => void;
}

/** Receives reports about saves. These reports belong to no call, because ranks do other work while they write a save. */
export class SaveDesk {
  readonly #open = new Map<number, OpenSave>();
  #nextId = 1;

  /** Expects news of a save from ranks 0 to numRanks - 1. `done` rejects with a rank's error, or if a rank's process ends. */
  expect(numRanks: number, listener: OpenSave['listener']): ExpectedSave {
    const id = this.#nextId++;
    const done = new Promise<void>((resolve, reject) => {
      const settle = (error?: ShardlabError): void => {
        this.#open.delete(id);
        if (error === undefined) resolve();
        else reject(error);
      };
      this.#open.set(id, { missing: new Set(firstRanks(numRanks)), written: new Map(), listener, settle });
    });
    // A caller that awaits `done` gets the failure. If no caller awaits `done`, the save's line still shows the failure.
    done.catch(() => undefined);
    const abandon = async (copied: readonly number[]): Promise<void> => {
      const save = this.#open.get(id);
      if (save === undefined) return;
      for (const rank of save.missing) if (!copied.includes(rank)) save.missing.delete(rank);
      if (save.missing.size === 0) save.settle();
      await done.catch(() => undefined);
    };
    return { id, done, abandon };
  }

  receive(rank: number, { save: id, news }: FromRank & { type: 'save' }): void {
    const save = this.#open.get(id);
    if (save === undefined) return;
    if (!('error' in news)) {
      save.written.set(rank, news);
      const all = [...save.written.values()];
      const sum = (key: 'writtenBytes' | 'totalBytes'): Bytes =>
        all.reduce((total, part) => total + part[key], 0);
      save.listener(sum('writtenBytes'), sum('totalBytes'));
    } else if (news.error !== null) {
      const { code, evalue, details = {} } = news.error;
      save.settle(new ShardlabError(code, evalue, { details, rank }));
    } else {
      save.missing.delete(rank);
      if (save.missing.size === 0) save.settle();
    }
  }

  /** Fails the saves to which a rank still had to write when its process ended. */
  died(rank: number, exit: RankExit): void {
    const text = `rank ${rank}'s process ended (${describeExit(exit)}) while a checkpoint was written; the previous checkpoint is complete`;
    for (const save of this.#open.values()) {
      if (save.missing.has(rank)) save.settle(new ShardlabError('RANK_DIED', text, { rank }));
    }
  }
}

/** Makes the batches that a rank requests. Returns the answer: the batches, or an error, which the rank then throws. */
export function supply({ need: make }: CallSink, { id, need }: FromRank & { type: 'need' }): ToRank {
  try {
    if (make === undefined) throw new ShardlabError('INTERNAL', 'the call gives no batches');
    return { type: 'batches', id, made: make(need) };
  } catch (error) {
    const { message, code = 'INTERNAL' } = error as { message: string; code?: ErrorCode };
    return { type: 'noBatches', id, run: need.run, error: { code, message } };
  }
}
