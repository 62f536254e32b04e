import { describeActivity, interruptChildren, unbroken } from '../cell';
import { now, rankNames, type Seconds, ShardlabError } from '../core';
import type { AbortReason } from '../wire';
import { type BusyRank, type CallSink, Cancellation, createCall, type RankCall, RankLocks } from './call';
import type { FromRank, RankOutcome, RankWork, StepGrant, ToRank } from './control/messages';
import type { Situation, WaitingIn } from './control/situation';
import { findDeadlock } from './deadlock';
import { SaveDesk, StatusDesk, supply } from './desks';
import { AFTER_DEATH, abortReason, type Failure, failureError } from './failure';
import type { Fleet, FleetListener } from './fleet';
import { HangWatch } from './hang-watch';
import { readProcessWork } from './process-work';
import { codeOfExit, describeExit, explainExit, lastWords, type RankExit } from './rank-process';
import { describeCollective, findWaits, GRACE_SECONDS, type MissingCollective } from './waits';
import { explain, type Why } from './why';

/** Time between two checks. */
const POLL_MS = 125;
/** While all ranks work, this number of checks is left out after each check. */
const MOST_SKIPPED = 7;

/**
 * Finds ranks that have waited longer than the grace period for a rank that has also been idle for longer than this period, and
 * ranks that wait for each other.
 */
export function findMissing(
  situations: ReadonlyMap<number, Situation>,
  idle: readonly number[],
  at: Seconds = now(),
): MissingCollective | undefined {
  const idleLong = idle.filter((rank) => {
    const situation = situations.get(rank);
    return situation?.state === 'idle' && !situation.hasBackground && at - situation.since > GRACE_SECONDS;
  });
  for (const wait of findWaits(situations)) {
    const absent = wait.waitsFor.filter((rank) => idleLong.includes(rank));
    if (absent.length === 0 || at - wait.since <= GRACE_SECONDS) continue;
    const verb = wait.ranks.length === 1 ? 'waits' : 'wait';
    const text =
      `${rankNames(wait.ranks)} ${verb} in ${describeCollective(wait.collective)}, but ${rankNames(absent)} ended without calling it; ` +
      `let every rank of the group call ${calledAs(wait.collective)}, or make a group of the ranks that call it`;
    return { text, idle: absent };
  }
  return findDeadlock(situations, at);
}

/**
 * Checks at intervals, and reports a missing collective only if two checks in a row find it, because between two collectives
 * of a comm thread a rank can look idle for a moment. While `isBusy` is true, checks are rarer. The returned function ends the checks.
 */
function watchForMissing(
  look: () => Promise<MissingCollective | undefined>,
  report: (missing: MissingCollective) => void,
  isBusy: () => boolean,
): () => void {
  let before: string | undefined;
  let numSkipped = 0;
  let timer: NodeJS.Timeout | undefined;
  let hasEnded = false;
  const again = (): void => {
    timer = setTimeout(() => {
      numSkipped = isBusy() && numSkipped < MOST_SKIPPED ? numSkipped + 1 : 0;
      if (numSkipped > 0) {
        again();
        return;
      }
      void look().then((missing) => {
        if (hasEnded) return;
        if (missing !== undefined && missing.text === before) report(missing);
        before = missing?.text;
        again();
      });
    }, POLL_MS);
  };
  again();
  return () => {
    hasEnded = true;
    clearTimeout(timer);
  };
}

/**
 * Returns the function that the user called. A library function writes its own name as the module, as 'FSDP.optimStateDict()'.
 */
function calledAs({ op, module }: WaitingIn): string {
  return module.endsWith('()') ? `${module}, not rank 0 alone` : op;
}

/*
 * [Note: two stages] V8 skips `finally` when it terminates JavaScript. So an interrupt first sets the abort flag (in
 * shared memory or by couriers): blocking collectives throw a ShardlabError, and `finally` runs. After that, couriers end code
 * that still runs. After a rank's failure, calls on other ranks end in the same two stages, with more time between the stages.
 *
 * [Note: recovery] After a failure, when no rank runs a call any more, the segment gets a new epoch, and every rank
 * restores its engine's scopes and restarts its groups. The failed call ends after this, so the next cell works.
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
  /** Why the job cannot continue: a rank's process ended (RANK_DIED, OUT_OF_MEMORY), or recovery failed. */
  #broken: ShardlabError | undefined;
  #closed = false;

  /** Makes this supervisor the receiver of the messages of the fleet's ranks. */
  constructor(fleet: Fleet) {
    this.#fleet = fleet;
    this.#desk = new StatusDesk(fleet.control);
    fleet.listener = this;
    for (const { rank, exited } of fleet.processes) void exited.then((exit) => this.#died(rank, exit));
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
    if (message.type === 'ended' && message.damage !== undefined) this.damages.set(rank, message.damage);
    const call = this.#running.get(rank);
    if (message.type === 'need' && call !== undefined)
      this.#fleet.control.send(rank, supply(call.sink, message));
    if (call === undefined || !('id' in message) || call.id !== message.id) return;
    if (message.type === 'output') call.emit(rank, message.output);
    if (message.type === 'step') call.sink.step?.(rank, message.step);
    if (message.type === 'cellStep') call.sink.cellStep?.(rank, message.step);
    if (message.type === 'replicas') call.sink.replicas?.(rank, message.sums);
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
    this.#fail({ kind: 'closed' }, INTERRUPT_DELAY_MS);
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
      work: (rank: number) => {
        const { state, pid } = this.#fleet.processes[rank] ?? {};
        return state === undefined || pid === undefined ? undefined : readProcessWork(pid);
      },
    };
    const watch = new HangWatch(source, (isHanging) => {
      if (!isHanging || this.#pending !== undefined) this.hanging?.(undefined);
      else
        void this.why().then((why) => {
          // Meanwhile the call may have ended, or the ranks may continue.
          if (this.#hangs === watch) this.hanging?.(why.waits.length > 0 ? why : undefined);
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
    this.#recoverWhenIdle();
  }

  /** Cancels all running calls with this failure; a later failure is ignored. */
  #fail(reason: Failure, delayMs: number): void {
    if (this.#pending !== undefined) return;
    this.#endHangs();
    this.#pending = new Cancellation(STUCK_MS, () => {
      for (const rank of this.#running.keys()) this.#fleet.processes[rank]?.kill();
    });
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
    if (this.#broken !== undefined || this.#closed) return;
    // The reset begins a new epoch, in which collectives work again; no rank is in a collective now.
    if (this.#fleet.segment !== undefined) this.#fleet.segment.reset();
    else this.#tellAll({ type: 'reset' });
    const ranks = this.#fleet.processes.map(({ rank }) => rank);
    const call = createCall(this.#nextId++, ranks, { kind: 'recover' }, {});
    this.#send(call);
    await call.ended;
    if (call.failure !== undefined) this.#broken ??= this.#error(call.failure, call);
  }

  #died(rank: number, exit: RankExit): void {
    this.#desk.died(rank);
    this.saves.died(rank, exit);
    if (this.#closed) {
      this.#endDead(rank, exit);
      return;
    }
    this.#broken ??= new ShardlabError(
      codeOfExit(exit),
      `rank ${rank}'s process ended (${describeExit(exit)})${explainExit(exit)}; ${AFTER_DEATH}`,
      { rank, details: { rank, exit } },
    );
    const process = this.#fleet.processes[rank];
    const said = process === undefined ? '' : lastWords(process);
    const others = [...this.#running.keys()].some((running) => running !== rank);
    void (others ? this.#snapshot(`when rank ${rank} ended`) : Promise.resolve('')).then((waiting) => {
      this.#fail({ kind: 'died', rank, exit, waiting, said }, CANCEL_DELAY_MS);
      this.#endDead(rank, exit);
    });
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
    if (this.#closed) {
      throw new ShardlabError(
        'CLOSED',
        'this job was shut down; launch another one with sl.launch({ ranks })',
      );
    }
    if (this.#broken !== undefined) throw this.#broken;
  }
}
