import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';
import { currentDisplay, replacingDisplay, widgets } from '../../cell';
import { ConfigError, DISPLAY, type DisplayBundle, isWhole, shown } from '../../core';
import { runFigures, type Table, type WalkPosition, type WalkRecord } from '../../figures';
import { type CallSink, points, type Supervisor } from '../../launch';
import { pointsTable, type Waiting, WalkedPoints } from './walked-points';

/** Ranks that neither halt nor end are asked this often whether they wait for ranks that halt. */
const LOOK_MS = 5;

/** The rounds that `live` records at most; then the ranks run without halts. Loops may have no end. */
const MOST_LIVE_ROUNDS = 500;

/** The parts of a call that a walk needs. */
export type WalkSink = Required<Pick<CallSink, 'reached' | 'rankEnded'>>;

/** Work that a walk drives. */
export interface WalkedWork {
  /** The run or the cell, and the step. */
  readonly title: string;
  /** The number of the step, from 1. */
  readonly step: number;
  readonly ranks: readonly number[];
  readonly supervisor: Pick<Supervisor, 'pass' | 'statuses'>;
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
  /** The point that `until` has not found; undefined if it has. */
  #sought: string | undefined;
  #notify: () => void = () => undefined;

  private constructor(work: WalkedWork) {
    this.#work = work;
    this.#walked = new WalkedPoints(work.title, work.ranks.length);
    this.#passes = work.ranks.map(() => 0);
    this.#hasEnded = work.ranks.map(() => false);
  }

  /**
   * Begins the work, and returns when its ranks halt before their first points; `begun` gets the walk before. Throws: errors of the
   * work.
   */
  static async begin(work: WalkedWork, begun?: (walk: Walk) => void): Promise<Walk> {
    const walk = new Walk(work);
    begun?.(walk);
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
   * work, also after its end.
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

  /**
   * Continues until a rank halts before a point that `text` names: 'reduceScatter', 'forward layer 2', 'send microbatch 1'. If there is
   * no such point, the step is completed, and the walk's display says so. Throws: CONFIG for a text that names no point, and as
   * `next` does.
   * @example
   * const walk = await run.walk();
   * await walk.until('reduceScatter layer 1');
   */
  async until(text: string): Promise<this> {
    const matches = points.pointMatcher(text);
    await this.#alone(`walk.until(${shown(text)})`, async () => {
      this.#sought = text;
      while (!this.isOver) {
        const before = this.#walked.numReached;
        await this.#round();
        const isNew = (i: number): boolean => (this.#walked.numReached[i] ?? 0) > (before[i] ?? 0);
        const isReached = this.#walked.newest.some(
          (newest, i) => newest !== undefined && isNew(i) && matches(newest.point, this.#work.step),
        );
        if (isReached) {
          this.#sought = undefined;
          return;
        }
      }
    });
    return this;
  }

  /**
   * Completes the work, and records its rounds, at most 500; from then on, ranks run without halts. Returns when the work has ended.
   * Throws: errors of the work.
   */
  async live(): Promise<this> {
    if (!this.#isMoving && !this.isOver) {
      await this.#alone('walk.live()', async () => {
        for (let round = 0; round < MOST_LIVE_ROUNDS && !this.isOver; round++) await this.#round();
      });
    }
    this.goOn();
    await this.#done;
    this.#changed();
    this.#requireGood();
    return this;
  }

  /** Lets all ranks go on without halts; has no effect if the walk is over. */
  goOn(): void {
    if (this.isOver) return;
    this.#work.ranks.forEach((rank, i) => {
      this.#passes[i] = Number.POSITIVE_INFINITY;
      this.#work.supervisor.pass(rank, Number.POSITIVE_INFINITY);
    });
    this.#notify();
  }

  /** What the ranks have passed so far. */
  record(): WalkRecord {
    const record = this.#walked.record();
    const note = this.#note();
    return note === '' ? record : { ...record, title: `${record.title}: ${note}` };
  }

  /** Calls a function after each round; returns a function that ends this. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The points that ranks have reached so far, rank by rank, with the bytes on the rank's device before each. */
  get points(): Table {
    return pointsTable(this.record(), this.#work.ranks);
  }

  [DISPLAY](): DisplayBundle {
    const sink = currentDisplay();
    return runFigures.walk.player(this, {
      openWidget: widgets.openWidget,
      limited: widgets.limited,
      replacingDisplay: () => replacingDisplay(sink, 'shardlab-walk'),
    });
  }

  /** Returns the text that Node shows for the walk. */
  [inspect.custom](): string {
    return this.#text();
  }

  #text(): string {
    const { newest, positions, numRounds } = this.#walked;
    const lines = this.#work.ranks.map((rank, i) => {
      const position = positions[i];
      return position === undefined ? [] : runFigures.walk.describePosition(rank, position, newest[i]);
    });
    return [`${this.#work.title}, after round ${numRounds}`, ...lines.flat(), this.#note()]
      .filter((line) => line !== '')
      .join('\n');
  }

  /** Returns what the reader should know of an `until` that found nothing; '' if there is none. */
  #note(): string {
    const isMissing = this.#outcome === 'good' && this.#sought !== undefined;
    return isMissing ? `the step ended without the point '${this.#sought}'` : '';
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
    let waits: ReadonlyMap<number, Waiting> = new Map();
    for (;;) {
      if (this.#hasEnded.every((hasEnded) => hasEnded)) await this.#done;
      const positions = this.#positions(waits);
      if (this.isOver || positions.every((position) => position !== undefined)) {
        this.#walked.endRound(positions.map((position, i) => position ?? this.#position(i, 'ended')));
        this.#changed();
        return;
      }
      await this.#next();
      const situations = await this.#work.supervisor.statuses();
      waits = new Map([...situations].flatMap(([rank, { waiting }]) => (waiting ? [[rank, waiting]] : [])));
    }
  }

  /** Returns the ranks for which a rank waits and which cannot go on by themselves: they halt, or wait for such ranks. */
  #waitsFor(
    rank: number,
    waits: ReadonlyMap<number, Waiting>,
    path: readonly number[] = [],
  ): readonly number[] {
    const waiting = waits.get(rank);
    if (waiting === undefined || path.includes(rank)) return [];
    const halted = this.#halted();
    return waiting.ranks.filter((member) => {
      const i = this.#work.ranks.indexOf(member);
      if (i < 0 || member === rank || this.#walked.hasCalled(i, waiting, halted[i] === true)) return false;
      return halted[i] === true || this.#waitsFor(member, waits, [...path, rank]).length > 0;
    });
  }

  /** Whether each rank halts before a point. */
  #halted(): boolean[] {
    return this.#walked.numReached.map(
      (numReached, i) => numReached > (this.#passes[i] ?? 0) && this.#hasEnded[i] !== true,
    );
  }

  /** Returns where each rank stands; undefined for a rank that moves. */
  #positions(waits: ReadonlyMap<number, Waiting>): (WalkPosition | undefined)[] {
    const halted = this.#halted();
    return this.#work.ranks.map((rank, i) => {
      if (this.#hasEnded[i] === true) return this.#position(i, 'ended');
      if (halted[i] === true) return this.#position(i, 'halted');
      const waitsFor = this.#waitsFor(rank, waits);
      return waitsFor.length === 0 ? undefined : this.#position(i, 'waiting', waitsFor);
    });
  }

  #position(index: number, state: WalkPosition['state'], waitsFor: readonly number[] = []): WalkPosition {
    return { numReached: this.#walked.numReached[index] ?? 0, state, waitsFor };
  }

  /** Resolves at the next message of a rank, or after a while. */
  async #next(): Promise<void> {
    const limit = new AbortController();
    const hasNews = new Promise<void>((resolve) => {
      this.#notify = resolve;
    });
    await Promise.race([hasNews, delay(LOOK_MS, undefined, { signal: limit.signal }).catch(() => undefined)]);
    limit.abort();
  }

  async #alone(form: string, work: () => Promise<void>): Promise<void> {
    this.#requireGood();
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
