import { type Seconds, ShardlabError } from '../../core';
import type { WatchedCall } from '../../wire';
import type { RankAction } from './rank-actions';

/** What the ranks of a machine share, and what their calls cost. */
export interface SharedCores {
  readonly cores: number;
  /** Number of threads of other programs that always have work. */
  readonly others: number;
  /** CPU time of the main thread before each call. */
  readonly callOverhead: Seconds;
  /** CPU time of a call on each of its ranks. */
  readonly call: (call: WatchedCall) => Seconds;
  /** The time in which a shaped link carries a call; 0 without a shaped link. */
  readonly carried: (call: WatchedCall) => Seconds;
}

/**
 * Returns the time in which all ranks of a machine run their actions.
 *
 * [Note: ranks that share cores] Every rank has a main thread, which computes and runs blocking calls, and a comm thread, which
 * runs asynchronous calls one after another. Threads that have something to do share the cores evenly with other programs'
 * threads; a thread that waits leaves its core to the others. A collective begins on the ranks when all of them have arrived; a
 * receive begins when the sender has written, and a send ends with its receive. A shaped link carries one call of a rank at a
 * time.
 */
export function secondsTogether(ranks: readonly (readonly RankAction[])[], shared: SharedCores): Seconds {
  const cores = new Cores(shared);
  const meetings = new Map<string, Meeting>();
  const simulated = ranks.map(
    (actions, rank) => new SimulatedRank(rank, actions, { cores, meetings, shared }),
  );
  for (const rank of simulated) rank.next();
  cores.run();
  const stuck = simulated.findIndex(({ end }) => end === null);
  if (stuck < 0) return Math.max(0, ...simulated.map(({ end }) => end ?? 0));
  throw new ShardlabError(
    'INTERNAL',
    `the simulated rank ${stuck} waits forever: its calls differ from the other ranks'`,
  );
}

/** Threads with work, and times at which something happens. */
class Cores {
  now: Seconds = 0;
  readonly #shared: SharedCores;
  readonly #busy = new Set<{ left: Seconds; readonly done: () => void }>();
  #alarms: { readonly at: Seconds; readonly done: () => void }[] = [];

  constructor(shared: SharedCores) {
    this.#shared = shared;
  }

  /** Lets a thread compute; `done` is called when it has had a core for `seconds`. */
  compute(seconds: Seconds, done: () => void): void {
    this.#busy.add({ left: seconds, done });
  }

  at(time: Seconds, done: () => void): void {
    this.#alarms.push({ at: time, done });
  }

  /** Runs until nothing is left to do. */
  run(): void {
    while (this.#busy.size + this.#alarms.length > 0) {
      const { cores, others } = this.#shared;
      const rate = Math.min(1, cores / (this.#busy.size + others));
      const next = Math.min(
        ...[...this.#busy].map(({ left }) => this.now + left / rate),
        ...this.#alarms.map(({ at }) => at),
      );
      const worked = (next - this.now) * rate;
      this.now = next;
      for (const thread of this.#busy) thread.left -= worked;
      const ended = [...this.#busy].filter(({ left }) => left <= TINY);
      const rung = this.#alarms.filter(({ at }) => at <= next);
      this.#alarms = this.#alarms.filter(({ at }) => at > next);
      for (const thread of ended) this.#busy.delete(thread);
      for (const { done } of [...ended, ...rung]) done();
    }
  }
}

/** Below this time, rounding errors hide whether a thread has ended. */
const TINY: Seconds = 1e-12;

/** The ranks of one call: who has arrived, and what happens when all are there. */
class Meeting {
  #arrived = 0;
  readonly #size: number;
  #waiting: (() => void)[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  arrive(): void {
    if (++this.#arrived < this.#size) return;
    for (const go of this.#waiting.splice(0)) go();
  }

  whenComplete(go: () => void): void {
    if (this.#arrived >= this.#size) go();
    else this.#waiting.push(go);
  }
}

interface World {
  readonly cores: Cores;
  readonly meetings: Map<string, Meeting>;
  readonly shared: SharedCores;
}

class SimulatedRank {
  /** When the rank's last action ended; null: it has not ended. */
  end: Seconds | null = null;
  readonly #rank: number;
  readonly #actions: readonly RankAction[];
  readonly #world: World;
  #position = 0;
  readonly #ended = new Set<WatchedCall>();
  readonly #awaited = new Map<WatchedCall, () => void>();
  /** The time until which the rank's link is busy. */
  #linkBusy: Seconds = 0;
  /** Work of the comm thread: first the work in progress, then the work that waits for the thread. */
  readonly #commWork: { readonly seconds: Seconds; readonly done: () => void }[] = [];

  constructor(rank: number, actions: readonly RankAction[], world: World) {
    this.#rank = rank;
    this.#actions = actions;
    this.#world = world;
  }

  /** Begins the main thread's next action. */
  next(): void {
    const action = this.#actions[this.#position++];
    const next = (): void => this.next();
    if (action === undefined) this.end = this.#world.cores.now;
    else if (action.kind === 'compute') this.#world.cores.compute(action.seconds, next);
    else if (action.kind === 'wait') this.#await(action.call, next);
    else {
      const { cores, shared } = this.#world;
      cores.compute(shared.callOverhead, () => this.#begin(action.call, next));
    }
  }

  #begin(call: WatchedCall, next: () => void): void {
    if (call.async) {
      this.#start(call, (seconds, done) => this.#onComm(seconds, done));
      next();
    } else {
      this.#start(call, (seconds, done) => this.#world.cores.compute(seconds, done));
      this.#await(call, next);
    }
  }

  #await(call: WatchedCall, next: () => void): void {
    if (this.#ended.has(call)) next();
    else this.#awaited.set(call, next);
  }

  #onComm(seconds: Seconds, done: () => void): void {
    this.#commWork.push({ seconds, done });
    if (this.#commWork.length === 1) this.#runComm();
  }

  #runComm(): void {
    const [work] = this.#commWork;
    if (work === undefined) return;
    this.#world.cores.compute(work.seconds, () => {
      work.done();
      this.#commWork.shift();
      this.#runComm();
    });
  }

  /** Runs a call on a thread. */
  #start(call: WatchedCall, onThread: (seconds: Seconds, done: () => void) => void): void {
    const seconds = this.#world.shared.call(call);
    const finish = (): void => this.#land(call);
    if (call.op === 'send') {
      onThread(seconds, () => this.#meeting(call, 'written').arrive());
      this.#meeting(call, 'read').whenComplete(finish);
    } else if (call.op === 'recv') {
      this.#meeting(call, 'written').whenComplete(() =>
        onThread(seconds, () => {
          this.#meeting(call, 'read').arrive();
          finish();
        }),
      );
    } else {
      const meeting = this.#meeting(call, '', call.ranks.length);
      meeting.arrive();
      meeting.whenComplete(() => onThread(seconds, finish));
    }
  }

  /** Ends a call when the link has carried it. */
  #land(call: WatchedCall): void {
    const { cores, shared } = this.#world;
    const carried = shared.carried(call);
    const began = cores.now - shared.call(call);
    this.#linkBusy = Math.max(began, this.#linkBusy) + carried;
    if (carried > 0 && this.#linkBusy > cores.now) cores.at(this.#linkBusy, () => this.#finish(call));
    else this.#finish(call);
  }

  #finish(call: WatchedCall): void {
    this.#ended.add(call);
    const next = this.#awaited.get(call);
    this.#awaited.delete(call);
    next?.();
  }

  #meeting(call: WatchedCall, part: string, size = 1): Meeting {
    const { meetings } = this.#world;
    const peer = call.ranks[call.peer] ?? -1;
    const pair = call.op === 'send' ? [this.#rank, peer] : call.op === 'recv' ? [peer, this.#rank] : [];
    const key = [call.group, call.ranks, pair, call.number, part].join(' ');
    const known = meetings.get(key) ?? new Meeting(size);
    meetings.set(key, known);
    return known;
  }
}
