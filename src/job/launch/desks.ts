import { ShardlabError } from '../../core/errors';
import type { Bytes } from '../../core/units';
import type { ControlServer } from '../control/control-server';
import type { FromRank } from '../control/messages';
import { firstRanks } from '../control/selection';
import type { Situation } from '../control/situation';
import { describeExit, type RankExit } from './rank-process';

/** Asks couriers what their main threads do. Couriers answer also while main threads compute or wait. */
export class StatusDesk {
  /** Of each question, what takes a rank's answer; no answer if its process has ended. */
  readonly #asked = new Map<number, (rank: number, status?: Situation) => void>();
  readonly #control: ControlServer;
  #nextId = 1;

  constructor(control: ControlServer) {
    this.#control = control;
  }

  /** The statuses of the `ranks` that answer in time. The limit costs time only if a process does not run at all. */
  ask(ranks: readonly number[], timeoutMs: number): Promise<Map<number, Situation>> {
    const id = this.#nextId++;
    const answers = new Map<number, Situation>();
    const unanswered = new Set(ranks);
    if (unanswered.size === 0) return Promise.resolve(answers);
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.#asked.delete(id);
        resolve(answers);
      };
      const timer = setTimeout(finish, timeoutMs);
      this.#asked.set(id, (rank, status) => {
        if (status !== undefined) answers.set(rank, status);
        if (unanswered.delete(rank) && unanswered.size === 0) finish();
      });
      for (const rank of ranks) this.#control.send(rank, { type: 'status', id });
    });
  }

  receive(rank: number, { id, status }: FromRank & { type: 'status' }): void {
    this.#asked.get(id)?.(rank, status);
  }

  /** The process of a rank has ended, so its answers are no longer awaited. */
  died(rank: number): void {
    for (const answer of this.#asked.values()) answer(rank);
  }
}

interface OpenSave {
  /** Ranks that have not reported their end. */
  readonly missing: Set<number>;
  readonly written: Map<number, { readonly writtenBytes: Bytes; readonly totalBytes: Bytes }>;
  /** Gets the number of bytes on the disk, over all ranks. */
  readonly listener: (writtenBytes: Bytes, totalBytes: Bytes) => void;
  /** Ends the save, by an error if there is one. */
  readonly settle: (error?: ShardlabError) => void;
}

/** Saves that ranks write beside their other work: reports about them belong to no call. */
export class SaveDesk {
  readonly #open = new Map<number, OpenSave>();
  #nextId = 1;

  /** Expects news of a save from ranks 0 to numRanks - 1. `done` rejects with a rank's error, or with its death. */
  expect(
    numRanks: number,
    listener: OpenSave['listener'],
  ): { readonly id: number; readonly done: Promise<void>; cancel(): void } {
    const id = this.#nextId++;
    const done = new Promise<void>((resolve, reject) => {
      const settle = (error?: ShardlabError): void => {
        this.#open.delete(id);
        if (error === undefined) resolve();
        else reject(error);
      };
      this.#open.set(id, { missing: new Set(firstRanks(numRanks)), written: new Map(), listener, settle });
    });
    // A caller that awaits it gets the failure; the save's line shows it also if nobody awaits it.
    done.catch(() => undefined);
    return { id, done, cancel: () => this.#open.delete(id) };
  }

  receive(rank: number, { save: id, news }: FromRank & { type: 'save' }): void {
    const save = this.#open.get(id);
    if (save === undefined) return;
    if (!('error' in news)) {
      save.written.set(rank, news);
      const all = [...save.written.values()];
      const sum = (key: 'writtenBytes' | 'totalBytes'): Bytes =>
        all.reduce((total, one) => total + one[key], 0);
      save.listener(sum('writtenBytes'), sum('totalBytes'));
    } else if (news.error !== null) {
      const { code, evalue, details = {} } = news.error;
      save.settle(new ShardlabError(code, evalue, { details, rank }));
    } else {
      save.missing.delete(rank);
      if (save.missing.size === 0) save.settle();
    }
  }

  /** A rank's process has ended, so its part of the save will not be written. */
  died(rank: number, exit: RankExit): void {
    const text = `rank ${rank}'s process ended (${describeExit(exit)}) while a checkpoint was written; the previous checkpoint is complete`;
    for (const save of this.#open.values()) {
      if (save.missing.has(rank)) save.settle(new ShardlabError('RANK_DIED', text, { rank }));
    }
  }
}
