import { ShardlabError } from '../../core/errors';
import type { AbortSwitch } from '../control/abort-switch';
import type { ControlServer } from '../control/control-server';
import type { FromRank, Outcome, RankOutput, RankWork, StepGrant } from '../control/messages';
import type { Situation } from '../control/situation';
import { type BusyRank, busyRanks, interruptChildrenOf } from './busy-ranks';
import { Call, type CallSink } from './call';
import { Cancellation } from './cancellation';
import { AFTER_DEATH, abortReason, type Failure, failureError } from './failure';
import { RankLocks } from './locks';
import { findMissing, type MissingCollective, watchForMissing } from './missing';
import {
  codeOfExit,
  describeExit,
  exitsOf,
  explainExit,
  lastWords,
  type RankExit,
  type RankProcess,
} from './rank-process';
import type { StatusDesk } from './status-desk';
import { explain, type Why } from './why';

/*
 * [Note: two stages] V8 skips `finally` when it terminates JavaScript. So an interrupt first sets the abort flag in
 * shared memory: blocking collectives throw a ShardlabError, and `finally` runs. Then the courier terminates the code that still runs.
 * The same two stages cancel the other ranks when one rank has failed, with more time between them.
 *
 * [Note: recovery] After a failure, when no rank runs any more, the segment gets a new epoch, and every rank restores
 * its engine's scopes and restarts its groups. Only then does the failed call end, so the next cell works.
 */

/** After an interrupt by the user, couriers act at once; a main thread that does not stop within 50 ms is terminated (worker.ts). */
const INTERRUPT_DELAY_MS = 0;
/** After a failure of a rank, the other ranks have this time to clean up. */
const CANCEL_DELAY_MS = 1000;
/** A rank that neither ends nor can be terminated within this time (stuck in native code) is killed. */
const STUCK_MS = 15_000;
/** A courier that does not answer within this time, even on a busy machine, is reported as not answering. */
const ANSWER_MS = 3000;

/** The parts that a supervisor needs. */
export interface SupervisorParts {
  readonly processes: readonly RankProcess[];
  readonly control: ControlServer;
  readonly desk: StatusDesk;
  readonly abortSwitch: AbortSwitch;
}

/** Runs calls on ranks: order, failures, interrupts, recovery. It does not know how ranks were started. */
export class Supervisor {
  /** The hang report of the last failure. */
  lastIncident: { readonly event: string; readonly why: Why } | undefined;
  /** By rank, the WebAssembly operation that crashed and may have damaged its heap; values of these ranks may be wrong. */
  readonly damages = new Map<number, string>();
  readonly #parts: SupervisorParts;
  readonly #running = new Map<number, Call>();
  readonly #locks = new RankLocks();
  #nextId = 1;
  #numInterrupts = 0;
  #pending: Cancellation | undefined;
  #broken: ShardlabError | undefined;
  #closed = false;

  constructor(parts: SupervisorParts) {
    this.#parts = parts;
    const { processes } = parts;
    for (const { rank, exited } of processes) void exited.then((exit) => this.#died(rank, exit));
  }

  /** Why the job cannot continue: a rank's process ended (RANK_DIED, OUT_OF_MEMORY), or recovery failed. */
  get broken(): ShardlabError | undefined {
    return this.#broken;
  }

  /**
   * Runs `work` on `ranks` when they are free; returns their results in the order of `ranks`.
   * Throws: RANK_FAILED or the code of a rank's error, RANK_DIED, COLLECTIVE_MISSING, INTERRUPTED, CLOSED.
   */
  async run(ranks: readonly number[], work: RankWork, sink: CallSink): Promise<unknown[]> {
    this.#assertUsable();
    const interruptsBefore = this.#numInterrupts;
    const release = await this.#locks.acquire(ranks);
    try {
      while (this.#pending !== undefined) await this.#pending.recovered;
      this.#assertUsable();
      const call = new Call(this.#nextId++, ranks, work, sink);
      if (this.#numInterrupts !== interruptsBefore) {
        throw this.#error({ kind: 'interrupted', waiting: '' }, call);
      }
      return await this.#execute(call);
    } finally {
      release();
    }
  }

  /** Takes a message of a rank. */
  receive(rank: number, message: FromRank): void {
    const call = this.#running.get(rank);
    if (message.type === 'ended' && message.damage !== undefined) this.damages.set(rank, message.damage);
    if (message.type === 'status') this.#parts.desk.receive(rank, message);
    else if (message.type === 'output' && call?.id === message.id) call.emit(rank, message.output);
    else if (message.type === 'step' && call?.id === message.id) call.step(rank, message.step);
    else if (message.type === 'progress' && call?.id === message.id) call.progress(rank, message.progress);
    else if (message.type === 'ended' && call?.id === message.id) this.#ended(rank, call, message.outcome);
  }

  /** Output of a rank's process itself goes to its current work; between works it is dropped. */
  written(rank: number, output: RankOutput): void {
    this.#running.get(rank)?.emit(rank, output);
  }

  /** Sends ranks the number of steps of their call that they may run. */
  grant(grant: StepGrant): void {
    for (const { rank } of this.#parts.processes) this.#parts.control.send(rank, { type: 'grant', grant });
  }

  /** What each living rank does now. */
  statuses(): Promise<Map<number, Situation>> {
    const alive = this.#parts.processes.filter(({ exit }) => exit === undefined);
    return this.#parts.desk.ask(
      alive.map(({ rank }) => rank),
      ANSWER_MS,
    );
  }

  /** Who waits for whom now. */
  async why(): Promise<Why> {
    const { processes } = this.#parts;
    return explain(await this.statuses(), processes.length, exitsOf(processes), undefined, this.damages);
  }

  /** Ranks that run a call now, and what their processes are doing. */
  busyRanks(): BusyRank[] {
    return busyRanks(this.#running, this.#parts.processes);
  }

  /** Stops running and queued calls; resolves when ranks can work again. */
  async interrupt(): Promise<void> {
    this.#numInterrupts++;
    if (this.#pending !== undefined) {
      // A cancellation with a longer grace period is running already: shorten it.
      this.#sendInterrupt(INTERRUPT_DELAY_MS);
    } else if (this.#running.size > 0) {
      const titles = new Set([...this.#running.values()].map(({ title }) => title));
      const waiting = await this.#snapshot(`when ${[...titles].join(' and ')} was interrupted`);
      if (this.#running.size > 0) this.#fail({ kind: 'interrupted', waiting }, INTERRUPT_DELAY_MS);
    }
    // Child processes are interrupted last, so that errors of ranks that wait for them come after the interrupt.
    interruptChildrenOf(this.#running, this.#parts.processes);
    await this.#pending?.recovered;
  }

  /** Refuses further calls and fails the running ones. */
  close(): void {
    this.#closed = true;
    this.#fail({ kind: 'closed' }, INTERRUPT_DELAY_MS);
  }

  async #execute(call: Call): Promise<unknown[]> {
    this.#send(call);
    const endWatch = watchForMissing(
      () => this.#lookForMissing(),
      (missing) => this.#fail({ kind: 'missing', ...missing }, CANCEL_DELAY_MS),
    );
    await call.ended;
    endWatch();
    if (call.failure !== undefined) {
      await this.#pending?.recovered;
      throw this.#error(call.failure, call);
    }
    return call.ranks.map((rank) => {
      const outcome = call.outcomes.get(rank);
      return outcome?.ok === true ? outcome.value : undefined;
    });
  }

  #send(call: Call): void {
    for (const rank of call.ranks) {
      this.#running.set(rank, call);
      this.#parts.control.send(rank, { type: 'work', id: call.id, work: call.work });
    }
  }

  #ended(rank: number, call: Call, outcome: Outcome): void {
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
    this.#pending = new Cancellation(reason);
    for (const call of this.#running.values()) call.failure ??= reason;
    if (this.#running.size > 0) this.#parts.abortSwitch.abort(abortReason(reason));
    this.#sendInterrupt(delayMs);
    this.#pending.overdue(STUCK_MS, () => {
      for (const rank of this.#running.keys()) this.#parts.processes[rank]?.kill();
    });
    this.#recoverWhenIdle();
  }

  #sendInterrupt(delayMs: number): void {
    for (const rank of this.#running.keys()) this.#parts.control.send(rank, { type: 'interrupt', delayMs });
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
    this.#parts.abortSwitch.reset();
    const ranks = this.#parts.processes.map(({ rank }) => rank);
    const call = new Call(this.#nextId++, ranks, { kind: 'recover' }, {});
    this.#send(call);
    await call.ended;
    if (call.failure !== undefined) this.#broken ??= this.#error(call.failure, call);
  }

  #died(rank: number, exit: RankExit): void {
    this.#parts.desk.died(rank);
    if (this.#closed) {
      this.#endDead(rank, exit);
      return;
    }
    this.#broken ??= new ShardlabError(
      codeOfExit(exit),
      `rank ${rank}'s process ended (${describeExit(exit)})${explainExit(exit)}; ${AFTER_DEATH}`,
      { rank, details: { rank, exit } },
    );
    const process = this.#parts.processes[rank];
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

  /** Finds a rank that waits in a collective for a rank whose call has ended without it. */
  async #lookForMissing(): Promise<MissingCollective | undefined> {
    const { processes } = this.#parts;
    if (this.#pending !== undefined || this.#running.size === processes.length) return undefined;
    const statuses = await this.statuses();
    const idle = processes.map(({ rank }) => rank).filter((rank) => !this.#running.has(rank));
    return findMissing(statuses, idle);
  }

  async #snapshot(event: string): Promise<string> {
    const why = await this.why();
    this.lastIncident = { event, why };
    return why.waits.length === 0 ? '' : why.text;
  }

  #error(failure: Failure, call: Call): ShardlabError {
    return failureError(failure, {
      title: call.title,
      numRanks: this.#parts.processes.length,
      outcomes: call.outcomes,
    });
  }

  #assertUsable(): void {
    if (this.#broken !== undefined) throw this.#broken;
    if (this.#closed) {
      throw new ShardlabError(
        'CLOSED',
        'this job was shut down; launch another one with sl.launch({ ranks })',
      );
    }
  }
}
