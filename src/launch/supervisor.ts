import { type DebugNews, type DebugOrder, describeActivity, interruptChildren, unbroken } from '../cell';
import { ShardlabError } from '../core';
import type { AbortReason } from '../wire';
import { type BusyRank, type CallSink, Cancellation, createCall, type RankCall, RankLocks } from './call';
import type { FromRank, RankOutcome, RankWork, StepGrant, ToRank } from './control/messages';
import type { Situation } from './control/situation';
import { SaveDesk, StatusDesk, supply } from './desks';
import { abortReason, deathError, type Failure, failureError } from './failure';
import type { Fleet, FleetListener, Restart } from './fleet';
import { HangWatch } from './hang-watch';
import { findMissing, watchForMissing } from './missing';
import { workOf } from './process-work';
import { describeExit, lastWords, type RankExit, type RankProcess } from './rank-process';
import { requireNoWalk } from './walked-calls';
import { explain, type Why } from './why';

/** Why ranks of PyTorch are not started again one by one. */
const NO_HEAL_ON_TORCH =
  "job.heal() needs ranks of this library's engine: torchrun, which starts the ranks of PyTorch, starts them only together; await " +
  'job.shutdown(), launch again, and continue from a checkpoint with job.train(config).load(folder)';

/*
 * [Note: two stages] V8 skips `finally` when it terminates JavaScript. So an interrupt first sets the abort flag (in
 * shared memory or by couriers): blocking collectives throw a ShardlabError, and `finally` runs. After that, couriers end code
 * that still runs. After a rank's failure, calls on other ranks end in the same two stages, with more time between the stages.
 *
 * [Note: recovery] After a failure, when no rank runs a call any more, the segment gets a new epoch, and every rank
 * restores its engine's scopes and restarts its groups. The failed call ends after this, so the next cell works. If a rank's
 * process has ended, this waits for `heal`, which first starts the rank again.
 */

/** Couriers act on a user's interrupt at once. If code still runs 50 to 250 ms later, they terminate this code. */
const INTERRUPT_DELAY_MS = 0;
/** After a failure of a rank, the other ranks have this time to clean up. */
const CANCEL_DELAY_MS = 1000;
/** A rank is killed if its work has not ended after this time, because it is stuck in native code. */
const STUCK_MS = 15_000;
/** A courier that does not answer within this time, even on a busy machine, is reported as not answering. */
const ANSWER_MS = 3000;

/** Runs calls on ranks in order, and handles failures, interrupts and recovery. */
export class Supervisor implements FleetListener {
  /** Gets who waits for whom while ranks hang, and `undefined` when they go on. */
  hanging: ((why: Why | undefined) => void) | undefined;
  /** Receives what the debug agents of ranks report. */
  debugged: ((rank: number, news: DebugNews) => void) | undefined;
  /** The hang report of the last failure. */
  lastIncident: { readonly event: string; readonly why: Why } | undefined;
  /** The WebAssembly kernel that crashed in a rank, by the rank. The crash may have damaged the values in the rank's heap. */
  readonly damages = new Map<number, string>();
  /** Receives reports about saves, which ranks write while they run other calls. */
  readonly saves = new SaveDesk();
  readonly #fleet: Fleet;
  readonly #desk: StatusDesk;
  readonly #running = new Map<number, RankCall>();
  readonly #locks = new RankLocks();
  /** Watches while calls run. */
  #hangs: HangWatch | undefined;
  #nextId = 1;
  #numInterrupts = 0;
  #pending: Cancellation | undefined;
  /** Why ranks get no work: a rank's process ended (RANK_DIED, OUT_OF_MEMORY), or recovery failed. */
  #broken: ShardlabError | undefined;
  /** What follows from the ends of processes: reports, and the cancellation of calls. */
  #deaths: Promise<void> = Promise.resolve();
  /** Ranks that were started again; the other ranks do not know this yet. */
  readonly #restarted = new Set<number>();
  /** Ends the start of ranks that `heal` starts again. */
  #restart: AbortController | undefined;
  /** The epoch of ranks that share no memory. */
  #epoch = 1;
  #closed = false;

  /** Makes this supervisor the receiver of the messages of the fleet's ranks. */
  constructor(fleet: Fleet) {
    this.#fleet = fleet;
    this.#desk = new StatusDesk(fleet.control);
    fleet.listener = this;
    for (const process of fleet.processes) this.#watchEnd(process);
  }

  /**
   * Runs `work` on `ranks` when they are free; returns their results in the order of `ranks`.
   * `since` is the number of interrupts when the user's call began, which may have done other work before; a later
   * interrupt ends the call before ranks get the work.
   * Throws: RANK_FAILED or the code of a rank's error, RANK_DIED, COLLECTIVE_MISSING, INTERRUPTED, CLOSED.
   */
  async run(
    ranks: readonly number[],
    work: RankWork,
    sink: CallSink,
    since = this.#numInterrupts,
  ): Promise<unknown[]> {
    this.#assertUsable();
    requireNoWalk(this.#running, ranks);
    const release = await this.#locks.acquire(ranks);
    try {
      while (this.#pending !== undefined) await this.#pending.recovered;
      this.#assertUsable();
      const call = createCall(this.#nextId++, ranks, work, sink);
      if (this.#numInterrupts !== since) {
        throw this.#error({ kind: 'interrupted', waiting: '' }, call);
      }
      sink.begins?.();
      return await this.#execute(call);
    } finally {
      release();
    }
  }

  /** Handles a message of a rank. */
  receive(rank: number, message: FromRank): void {
    if (message.type === 'status') this.#desk.receive(rank, message);
    if (message.type === 'save') this.saves.receive(rank, message);
    if (message.type === 'debug') this.debugged?.(rank, message.news);
    if (message.type === 'ended' && message.damage !== undefined) this.damages.set(rank, message.damage);
    const call = this.#running.get(rank);
    if (message.type === 'need' && call !== undefined)
      this.#fleet.control.send(rank, supply(call.sink, message));
    if (call === undefined || !('id' in message) || call.id !== message.id) return;
    if (message.type === 'output') call.emit(rank, message.output);
    if (message.type === 'step') call.sink.step?.(rank, message.step);
    if (message.type === 'cellStep') call.sink.cellStep?.(rank, message.step);
    if (message.type === 'replicas') call.sink.replicas?.(rank, message.sums);
    if (message.type === 'reached') call.sink.reached?.(rank, message.reached);
    if (message.type === 'progress') call.sink.progress?.(rank, message.progress);
    if (message.type === 'ended') this.#ended(rank, call, message.outcome);
  }

  /** Adds output of a rank's native code and child processes to the rank's current work; drops the output if no work runs. */
  written(rank: number, name: 'stdout' | 'stderr', text: string): void {
    this.#running.get(rank)?.emit(rank, { kind: 'stream', name, text });
  }

  /** Sends ranks the number of steps of their call that they may run. */
  grant(grant: StepGrant): void {
    this.#tellAll({ type: 'grant', grant });
  }

  /** Sends a rank the number of points that it may pass in its walked work. */
  pass(rank: number, passes: number): void {
    this.#fleet.control.send(rank, { type: 'walk', passes });
  }

  /** Gives an order to the debug agents of ranks. */
  debug(rank: number | 'all', order: DebugOrder): void {
    if (rank === 'all') this.#tellAll({ type: 'debug', order });
    else this.#fleet.control.send(rank, { type: 'debug', order });
  }

  /** Asks every rank whose process can answer what the rank does now; with `looks`, also at which line it is. */
  statuses({ looks = false } = {}): Promise<Map<number, Situation>> {
    const stopped = this.#stoppedRanks();
    const alive = this.#fleet.processes.flatMap(({ rank, exit }) =>
      exit === undefined && !stopped.has(rank) ? [rank] : [],
    );
    return this.#desk.ask(alive, ANSWER_MS, looks);
  }

  /** Reports who waits for whom now. */
  async why(): Promise<Why> {
    const { processes } = this.#fleet;
    const situations = await this.statuses({ looks: true });
    const exits = new Map(processes.flatMap(({ rank, exit }) => (exit === undefined ? [] : [[rank, exit]])));
    const facts = { exits, stopped: this.#stoppedRanks(), damages: this.damages };
    return explain(situations, processes.length, facts);
  }

  /** Returns the ranks whose processes a signal has stopped, with the processes' numbers. */
  #stoppedRanks(): ReadonlyMap<number, number> {
    const { processes } = this.#fleet;
    return new Map(
      processes.flatMap(({ rank, pid, exit, state }) =>
        exit === undefined && state === 'T' ? [[rank, pid]] : [],
      ),
    );
  }

  /** Returns the ranks that run a call now, and what their processes are doing. */
  busyRanks(): BusyRank[] {
    return [...this.#running].map(([rank, { id, since }]) => {
      const pid = this.#fleet.processes[rank]?.pid ?? 0;
      return { rank, pid, call: id, activity: describeActivity(pid, since) };
    });
  }

  /** The number of interrupts so far. */
  get numInterrupts(): number {
    return this.#numInterrupts;
  }

  /** Ends the calls that the user has made and that no rank has begun. */
  refuseWaiting(): void {
    this.#numInterrupts++;
  }

  /** Stops the calls that run or wait for ranks; resolves when ranks can work again. */
  async interrupt(): Promise<void> {
    this.refuseWaiting();
    this.#restart?.abort();
    // The calls have ended, and an interrupted recovery would end the job.
    if (this.#pending?.isRecovering === true) return this.#pending.recovered;
    if (this.#pending !== undefined) {
      // A cancellation is already running; this interrupt shortens its grace period.
      this.#sendInterrupt(INTERRUPT_DELAY_MS);
    } else if (this.#running.size > 0) {
      const titles = new Set([...this.#running.values()].map(({ title }) => title));
      const waiting = await this.#snapshot(`when ${[...titles].join(' and ')} was interrupted`);
      if (this.#running.size > 0) this.#fail({ kind: 'interrupted', waiting }, INTERRUPT_DELAY_MS);
    }
    // Ranks are interrupted before child processes, so an error of a rank that waited for a child counts as interrupted work.
    for (const [rank, { since }] of this.#running) {
      const { pid } = this.#fleet.processes[rank] ?? {};
      if (pid !== undefined) interruptChildren(pid, since);
    }
    await this.#pending?.recovered;
  }

  /** Refuses further calls, and makes the running calls fail. */
  close(): void {
    this.#closed = true;
    this.#restart?.abort();
    this.#fail({ kind: 'closed' }, INTERRUPT_DELAY_MS);
  }

  /**
   * Returns the ranks whose processes have ended, when all consequences of their ends are over. Throws: CLOSED, and the error of
   * a recovery that failed although all processes run.
   */
  async deadRanks(): Promise<number[]> {
    const ended = this.#fleet.processes.filter(({ exit }) => exit !== undefined);
    await Promise.all(ended.map(({ exited }) => exited));
    await this.#deaths;
    await this.#pending?.recovered;
    if (ended.length === 0) this.#assertUsable();
    return ended.map(({ rank }) => rank);
  }

  /**
   * Starts `ranks` again in the places of ended processes, and begins a new epoch with all ranks. If `world` is another number
   * of ranks, all processes end first. `since` is the number of interrupts when the user's call began. Returns, by rank, the names
   * that cells have declared there. Throws: INTERRUPTED, LAUNCH, RANK_DIED; then the job waits for another `heal`.
   */
  async heal({ ranks, world, progress }: Omit<Restart, 'signal'>, since: number): Promise<RankNames[]> {
    const { restart, processes } = this.#fleet;
    this.#assertOpen();
    if (restart === undefined) throw new ShardlabError('ENGINE', NO_HEAL_ON_TORCH);
    const release = await this.#locks.acquire(processes.map(({ rank }) => rank));
    const starting = new AbortController();
    this.#restart = starting;
    try {
      if (this.#numInterrupts !== since) starting.abort();
      await restart.call(this.#fleet, { ranks, world, progress, signal: starting.signal });
      // If other processes have ended for this, their ends are handled first.
      await this.#deaths;
      await this.#pending?.recovered;
      this.#assertOpen();
      for (const rank of ranks) {
        const process = this.#fleet.processes[rank];
        if (process !== undefined) this.#watchEnd(process);
        this.damages.delete(rank);
        this.#restarted.add(rank);
      }
      return await this.#reunite();
    } finally {
      this.#restart = undefined;
      release();
    }
  }

  /** Begins an epoch with ranks that were started again. */
  async #reunite(): Promise<RankNames[]> {
    const dead = this.#fleet.processes.find(({ exit }) => exit !== undefined);
    if (dead?.exit !== undefined) {
      this.#broken = deathError(dead.rank, dead.exit, this.#canHeal);
      throw this.#broken;
    }
    this.#broken = undefined;
    const pending = new Cancellation(STUCK_MS, () => this.#killRunning());
    this.#pending = pending;
    pending.isRecovering = true;
    try {
      const call = await this.#beginEpoch([...this.#restarted]);
      const broken = this.#broken as ShardlabError | undefined; // a rank may have died meanwhile
      if (broken !== undefined) throw broken;
      this.#restarted.clear();
      return call.ranks.map((rank) => namesIn(call.outcomes.get(rank)));
    } finally {
      this.#pending = undefined;
      pending.finish();
    }
  }

  async #execute(call: RankCall): Promise<unknown[]> {
    unbroken(() => this.#send(call));
    const endWatch = watchForMissing(
      async () =>
        this.#pending === undefined ? findMissing(await this.statuses(), this.#freeRanks()) : undefined,
      (missing) => this.#fail({ kind: 'missing', ...missing }, CANCEL_DELAY_MS),
      () => this.#freeRanks().length === 0,
    );
    this.#hangs ??= this.#watchForHangs();
    await call.ended;
    endWatch();
    if (this.#running.size === 0) this.#endHangs();
    if (call.failure !== undefined) {
      await this.#pending?.recovered;
      throw this.#error(call.failure, call);
    }
    return call.ranks.map((rank) => {
      const outcome = call.outcomes.get(rank);
      return outcome?.ok === true ? outcome.value : undefined;
    });
  }

  /** Tells `hanging` about hangs until the watch is ended. */
  #watchForHangs(): HangWatch {
    const source = {
      statuses: (options: { readonly looks: boolean }) => this.statuses(options),
      stopped: () => this.#stoppedRanks(),
      sleeps: (rank: number) => this.#fleet.processes[rank]?.state === 'S',
      work: (rank: number) => workOf(this.#fleet.processes[rank]),
    };
    const watch = new HangWatch(source, (isHanging) => {
      if (!isHanging || this.#pending !== undefined) this.hanging?.(undefined);
      else
        void this.why().then((why) => {
          // Meanwhile the call may have ended, or the ranks may have continued: then all have called the collective.
          const isMissing = why.waits.some(({ waitsFor }) => waitsFor.length > 0);
          if (this.#hangs === watch) this.hanging?.(isMissing ? why : undefined);
        });
    });
    return watch;
  }

  #endHangs(): void {
    const watch = this.#hangs;
    this.#hangs = undefined;
    watch?.end();
  }

  #send(call: RankCall): void {
    for (const rank of call.ranks) {
      this.#running.set(rank, call);
      this.#fleet.control.send(rank, { type: 'work', id: call.id, work: call.work });
    }
  }

  #ended(rank: number, call: RankCall, outcome: RankOutcome): void {
    this.#running.delete(rank);
    if (!outcome.ok) {
      call.failure ??= { kind: 'thrown', rank };
      call.emit(rank, { kind: 'error', error: outcome.error });
      this.#fail(call.failure, CANCEL_DELAY_MS);
    }
    call.end(rank, outcome);
    call.sink.rankEnded?.(rank);
    this.#recoverWhenIdle();
  }

  /** Cancels all running calls with this failure; a later failure is ignored. */
  #fail(reason: Failure, delayMs: number): void {
    if (this.#pending !== undefined) return;
    this.#endHangs();
    this.#pending = new Cancellation(STUCK_MS, () => this.#killRunning());
    for (const call of this.#running.values()) call.failure ??= reason;
    if (this.#running.size > 0) this.#abort(abortReason(reason));
    this.#sendInterrupt(delayMs);
    this.#recoverWhenIdle();
  }

  #sendInterrupt(delayMs: number): void {
    for (const rank of this.#running.keys()) this.#fleet.control.send(rank, { type: 'interrupt', delayMs });
  }

  /** Makes every rank's collectives throw: through the shared segment if there is one, else through the couriers. */
  #abort(reason: AbortReason): void {
    if (this.#fleet.segment !== undefined) this.#fleet.segment.abort(reason);
    else this.#tellAll({ type: 'abort', reason });
  }

  #tellAll(message: ToRank): void {
    for (const { rank } of this.#fleet.processes) this.#fleet.control.send(rank, message);
  }

  #recoverWhenIdle(): void {
    const pending = this.#pending;
    if (pending === undefined || pending.isRecovering || this.#running.size > 0) return;
    pending.isRecovering = true;
    void this.#recover().then(() => {
      this.#pending = undefined;
      pending.finish();
    });
  }

  async #recover(): Promise<void> {
    if (this.#broken === undefined && !this.#closed) await this.#beginEpoch();
  }

  /**
   * Begins a new epoch, in which collectives work again; no rank is in a collective now. `lost` are ranks whose groups and
   * variables ended with their processes.
   */
  async #beginEpoch(lost?: readonly number[]): Promise<RankCall> {
    this.#epoch++;
    if (this.#fleet.segment !== undefined) this.#fleet.segment.reset();
    else this.#tellAll({ type: 'reset', epoch: this.#epoch });
    const ranks = this.#fleet.processes.map(({ rank }) => rank);
    const call = createCall(this.#nextId++, ranks, { kind: 'recover', ...(lost && { lost }) }, {});
    this.#send(call);
    await call.ended;
    if (call.failure !== undefined) this.#broken ??= this.#error(call.failure, call);
    return call;
  }

  #killRunning(): void {
    for (const rank of this.#running.keys()) this.#fleet.processes[rank]?.kill();
  }

  #watchEnd({ rank, exited }: RankProcess): void {
    void exited.then((exit) => this.#died(rank, exit));
  }

  /** Whether ranks can be started again one by one. */
  get #canHeal(): boolean {
    return this.#fleet.restart !== undefined;
  }

  #died(rank: number, exit: RankExit): void {
    this.#desk.died(rank);
    this.saves.died(rank, exit);
    this.debugged?.(rank, { kind: 'ended' });
    if (this.#closed) {
      this.#endDead(rank, exit);
      return;
    }
    this.#broken ??= deathError(rank, exit, this.#canHeal);
    const process = this.#fleet.processes[rank];
    const said = process === undefined ? '' : lastWords(process);
    const others = [...this.#running.keys()].some((running) => running !== rank);
    const before = this.#deaths;
    const look = others ? this.#snapshot(`when rank ${rank} ended`) : Promise.resolve('');
    const handled = look.then((waiting) => {
      this.#fail({ kind: 'died', rank, exit, waiting, said, canHeal: this.#canHeal }, CANCEL_DELAY_MS);
      this.#endDead(rank, exit);
    });
    this.#deaths = Promise.all([before, handled]).then(() => undefined);
  }

  #endDead(rank: number, exit: RankExit): void {
    const call = this.#running.get(rank);
    this.#running.delete(rank);
    const message = `the process ended (${describeExit(exit)})`;
    call?.end(rank, {
      ok: false,
      error: { code: 'RANK_DIED', ename: 'RankDied', evalue: message, traceback: [message] },
    });
    this.#recoverWhenIdle();
  }

  /** Returns the ranks that run no call. */
  #freeRanks(): number[] {
    return this.#fleet.processes.map(({ rank }) => rank).filter((rank) => !this.#running.has(rank));
  }

  async #snapshot(event: string): Promise<string> {
    const why = await this.why();
    this.lastIncident = { event, why };
    return why.waits.length === 0 ? '' : why.text;
  }

  #error(failure: Failure, call: RankCall): ShardlabError {
    return failureError(failure, call, this.#fleet.processes.length);
  }

  #assertUsable(): void {
    this.#assertOpen();
    if (this.#broken !== undefined) throw this.#broken;
  }

  #assertOpen(): void {
    if (!this.#closed) return;
    throw new ShardlabError('CLOSED', 'this job was shut down; launch another one with sl.launch({ ranks })');
  }
}

/** Names that cells have declared in a rank. */
export type RankNames = readonly string[];

/** Returns the names that a rank reported when it recovered. */
function namesIn(outcome: RankOutcome | undefined): RankNames {
  // Ranks answer 'recover' with this type if ranks were lost.
  return outcome?.ok === true && Array.isArray(outcome.value) ? (outcome.value as RankNames) : [];
}
