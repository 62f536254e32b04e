import { setTimeout as delay } from 'node:timers/promises';
import { ConfigError, DISPLAY, type DisplayBundle, isWhole, shown } from '../../core';
import type { WalkPosition, WalkRecord } from '../../figures';
import type { CallSink, Supervisor } from '../../launch';
import { WalkedPoints } from './walked-points';

/** Ranks that neither halt nor end are asked this often whether they wait for ranks that halt. */
const LOOK_MS = 5;

/** The parts of a call that a walk needs. */
export type WalkSink = Required<Pick<CallSink, 'reached' | 'rankEnded'>>;

/** Work that a walk drives. */
export interface WalkedWork {
  /** The run or the cell, and the step. */
  readonly title: string;
  readonly ranks: readonly number[];
  readonly supervisor: Pick<Supervisor, 'pass' | 'waits'>;
  /** Does the work; its ranks halt before each point. */
  readonly begin: (sink: WalkSink) => Promise<unknown>;
}

/** How the work has ended. */
type Outcome = 'good' | { readonly error: unknown };

/**
 * A step whose ranks halt before each point: before a unit is gathered, before its forward, before a collective, before the
 * optimizer's update. `run.walk()` and `job.walk(…)` begin it.
 *
 * [Note: rounds] In a round, each rank that halts passes one point. A rank that waits in a collective for a rank that halts stays
 * where it is; so ranks are at different points of the step, as the collectives allow. A round ends when every rank halts, waits so
 * or has ended its work.
 */
export class Walk {
  readonly #work: WalkedWork;
  readonly #walked: WalkedPoints;
  /** The number of points that each rank may pass. */
  readonly #passes: number[];
  readonly #hasEnded: boolean[];
  readonly #listeners = new Set<() => void>();
  #outcome: Outcome | undefined;
  #done: Promise<void> = Promise.resolve();
  #isMoving = false;
  #notify: () => void = () => undefined;

  private constructor(work: WalkedWork) {
    this.#work = work;
    this.#walked = new WalkedPoints(work.title, work.ranks.length);
    this.#passes = work.ranks.map(() => 0);
    this.#hasEnded = work.ranks.map(() => false);
  }

  /** Begins the work, and returns when its ranks halt before their first points. Throws: errors of the work. */
  static async begin(work: WalkedWork): Promise<Walk> {
    const walk = new Walk(work);
    walk.#start();
    await walk.#settle();
    walk.#requireGood();
    return walk;
  }

  /** Whether the work has ended. */
  get isOver(): boolean {
    return this.#outcome !== undefined;
  }

  /**
   * Lets each rank pass the point before which it halts, `numRounds` times. Throws: CONFIG if the walk is over, and errors of the
   * work.
   * @example
   * const walk = await run.walk();
   * await walk.next();
   */
  async next(numRounds = 1): Promise<this> {
    if (!isWhole(numRounds, 1))
      throw new ConfigError(`walk.next(${shown(numRounds)}) takes a number of rounds, a whole number from 1`);
    await this.#alone('walk.next()', async () => {
      for (let round = 0; round < numRounds && !this.isOver; round++) await this.#round();
    });
    return this;
  }

  /** Lets all ranks go on without halts, and returns when the work has ended. Throws: errors of the work. */
  async live(): Promise<this> {
    this.goOn();
    await this.#done;
    this.#changed();
    this.#requireGood();
    return this;
  }

  /** Lets all ranks go on without halts. */
  goOn(): void {
    this.#work.ranks.forEach((rank, i) => {
      this.#passes[i] = Number.POSITIVE_INFINITY;
      this.#work.supervisor.pass(rank, Number.POSITIVE_INFINITY);
    });
    this.#notify();
  }

  /** What the ranks have passed so far. */
  record(): WalkRecord {
    return this.#walked.record();
  }

  /** Calls a function after each round; returns a function that ends this. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  [DISPLAY](): DisplayBundle {
    return { 'text/plain': JSON.stringify(this.#walked.positions) };
  }

  #start(): void {
    const { ranks, begin } = this.#work;
    const indexOf = new Map(ranks.map((rank, i) => [rank, i]));
    const over = (outcome: Outcome): void => {
      this.#outcome = outcome;
      this.#notify();
    };
    this.#done = begin({
      reached: (rank, reached) => {
        this.#walked.add(indexOf.get(rank) ?? -1, reached);
        this.#notify();
      },
      rankEnded: (rank) => {
        this.#hasEnded[indexOf.get(rank) ?? -1] = true;
        this.#notify();
      },
    }).then(
      () => over('good'),
      (error: unknown) => over({ error }),
    );
  }

  async #round(): Promise<void> {
    this.#halted().forEach((halts, i) => {
      const rank = this.#work.ranks[i];
      if (!halts || rank === undefined) return;
      const passes = (this.#passes[i] ?? 0) + 1;
      this.#passes[i] = passes;
      this.#work.supervisor.pass(rank, passes);
    });
    await this.#settle();
  }

  /** Waits for the end of the round. [Note: rounds] */
  async #settle(): Promise<void> {
    let waits: ReadonlyMap<number, readonly number[]> = new Map();
    for (;;) {
      if (this.#hasEnded.every((hasEnded) => hasEnded)) await this.#done;
      const positions = this.#positions(waits);
      if (this.isOver || positions.every((position) => position !== undefined)) {
        this.#walked.endRound(positions.map((position, i) => position ?? this.#position(i, 'ended')));
        this.#changed();
        return;
      }
      await this.#next();
      // Ranks that halt now stay so, and what the others wait for is asked afterwards.
      const halted = this.#halted();
      const found = await this.#work.supervisor.waits();
      waits = new Map(
        [...found].map(([rank, others]) => [
          rank,
          others.filter((other) => this.#stands(other, halted, found)),
        ]),
      );
    }
  }

  /** Whether a rank halts, or waits for one that does. */
  #stands(
    rank: number,
    halted: readonly boolean[],
    waits: ReadonlyMap<number, readonly number[]>,
    path: readonly number[] = [],
  ): boolean {
    if (path.includes(rank)) return false;
    if (halted[this.#work.ranks.indexOf(rank)] === true) return true;
    return (waits.get(rank) ?? []).some((other) => this.#stands(other, halted, waits, [...path, rank]));
  }

  /** Whether each rank halts before a point. */
  #halted(): boolean[] {
    return this.#walked.numReached.map(
      (numReached, i) => numReached > (this.#passes[i] ?? 0) && this.#hasEnded[i] !== true,
    );
  }

  /** Returns where each rank stands; undefined for a rank that moves. */
  #positions(waits: ReadonlyMap<number, readonly number[]>): (WalkPosition | undefined)[] {
    const halted = this.#halted();
    return this.#work.ranks.map((rank, i) => {
      if (this.#hasEnded[i] === true) return this.#position(i, 'ended');
      if (halted[i] === true) return this.#position(i, 'halted');
      const waitsFor = waits.get(rank) ?? [];
      return waitsFor.length === 0 ? undefined : this.#position(i, 'waiting', waitsFor);
    });
  }

  #position(index: number, state: WalkPosition['state'], waitsFor: readonly number[] = []): WalkPosition {
    return { numReached: this.#walked.numReached[index] ?? 0, state, waitsFor };
  }

  /** Resolves at the next message of a rank, or after a while. */
  async #next(): Promise<void> {
    const limit = new AbortController();
    const told = new Promise<void>((resolve) => {
      this.#notify = resolve;
    });
    await Promise.race([told, delay(LOOK_MS, undefined, { signal: limit.signal }).catch(() => undefined)]);
    limit.abort();
  }

  async #alone(form: string, work: () => Promise<void>): Promise<void> {
    if (this.isOver)
      throw new ConfigError(`${form}: the walk is over, because its step has ended; begin another`);
    if (this.#isMoving) throw new ConfigError(`${form}: the walk is moving; await its running call first`);
    this.#isMoving = true;
    try {
      await work();
    } finally {
      this.#isMoving = false;
    }
    this.#requireGood();
  }

  #requireGood(): void {
    if (typeof this.#outcome === 'object') throw this.#outcome.error;
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}
