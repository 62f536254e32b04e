import { setTimeout as delay } from 'node:timers/promises';
import {
  AGAIN_SECONDS,
  type CallbackOutcome,
  type CellError,
  type CellOutput,
  type EvaluateResult,
  type Evaluator,
  type MimeBundle,
  SecondInterrupt,
  type StrayError,
  shownTraceback,
  toMimeBundle,
  toWireBundle,
} from '../../src/cell';
import { globalSlot, rankNames, ShardlabError } from '../../src/core';
import type { BusyRank } from '../../src/launch';
import { interruptJobs, type Job, registeredJobs } from '../../src/session';
import type { CellTimers } from './cell-timers';
import type { OutputChannel } from './output-channel';
import type { ExecutionId, Outcome, RankOrder, RunCell, RunRanks } from './protocol';
import type { RankCells } from './rank-cells';

/** After an interrupt, a waiting cell has this time to end by itself. */
const INTERRUPT_GRACE_SECONDS = 0.03;
/** After an interrupt, jobs get this time to stop their ranks; then the cell ends, even if ranks still run. */
const JOBS_LIMIT_MS = 8000;

/** The slot of the callback of a widget that the evaluator is about to call. */
const CALLBACK = globalSlot<() => Promise<MimeBundle | undefined>>('shardlab.callback');
const CALL = "await globalThis[Symbol.for('shardlab.callback')]()";

/** Runs cells and reports their outcomes. The cell of a subshell may run while other cells wait. */
export class CellRunner {
  readonly #evaluator: Evaluator;
  readonly #channel: OutputChannel;
  readonly #timers: CellTimers;
  /** Remembers the ranks that an interrupt has not stopped; the next interrupt kills these ranks. */
  readonly #second = new SecondInterrupt<readonly StuckRank[]>();
  /** Runs `%%ranks` cells; undefined until the first such cell. */
  #rankCells: RankCells | undefined;
  /** The requests that have not ended, the oldest first. */
  readonly #running = new Map<ExecutionId, RunCell | RunRanks>();
  /** The number of callbacks of widgets that have not ended. */
  #numCallbacks = 0;
  /** The open prompt, and the cell that waits for its answer. */
  #prompt: { readonly id: ExecutionId; readonly resolve: (answer: string) => void } | undefined;

  constructor(evaluator: Evaluator, channel: OutputChannel, timers: CellTimers) {
    this.#evaluator = evaluator;
    this.#channel = channel;
    this.#timers = timers;
  }

  async run(request: RunCell): Promise<void> {
    const name = `In[${request.cell}]`;
    this.#begin(request);
    const result = await this.#channel.runFor(request, () => this.#evaluator.evaluate(request.js, { name }));
    // After V8 has terminated a cell in a microtask, an async function that returns a promise stays pending: each one is awaited.
    this.#end(request, await this.#channel.runFor(request, () => this.#outcome(result, name)));
  }

  async runInRanks(request: RunRanks): Promise<void> {
    this.#begin(request);
    let hasBegun = false;
    const begins = (): void => {
      hasBegun = true;
    };
    try {
      this.#rankCells ??= new (await import('./rank-cells.js')).RankCells(this.#channel.send);
      const cells = this.#rankCells;
      const sink = this.#channel.sinkOf(request.id);
      await this.#channel.runFor(request, () => cells.run(request, sink, begins));
      this.#end(request, { ok: true, result: undefined });
    } catch (thrown) {
      const error = this.#evaluator.describe(thrown, `In[${request.cell}]`);
      this.#end(request, { ok: false, error, ...(!hasBegun && { reachedNoRank: true }) });
    }
  }

  /** Passes the debugger's order to ranks that have run a cell. */
  passToRanks(order: RankOrder): void {
    this.#rankCells?.debug.pass(order);
  }

  /**
   * Runs a callback of a widget as a cell runs: `heard` gets its outputs, and an interrupt ends it. Its outcome has the value as it is
   * shown. Never rejects.
   */
  async call(work: () => unknown, heard: (output: CellOutput) => void): Promise<CallbackOutcome> {
    this.#numCallbacks++;
    try {
      return await this.#channel.capture(heard, async () => {
        CALLBACK.value = async () => {
          const value = await work();
          return value === undefined ? undefined : toWireBundle(await toMimeBundle(value));
        };
        const result = await this.#evaluator.evaluate(CALL, { name: 'callback' });
        if (result.ok) return { ok: true, result: result.value as MimeBundle | undefined }; // the callback's type
        return { ok: false, error: this.#callbackError(result) };
      });
    } finally {
      this.#numCallbacks--;
    }
  }

  /** Describes a callback's error by its line in the cell that declared the callback. */
  #callbackError({ error, thrown }: EvaluateResult & { readonly ok: false }): CellError {
    const isInterrupt = thrown instanceof ShardlabError && thrown.code === 'INTERRUPTED';
    if (isInterrupt) {
      const evalue = 'the callback was interrupted; the widget and the variables keep their values';
      return { ...error, evalue, traceback: [`${error.ename}: ${evalue}`] };
    }
    const cell = /\bIn\[\d+\](?=:\d)/.exec(error.traceback.join('\n'))?.[0];
    const described = cell === undefined ? error : this.#evaluator.describe(thrown, cell);
    return { ...described, traceback: withoutCaller(described.traceback) };
  }

  /** Asks the user of the notebook for a line of text. Throws: IO if the cell's client does not allow prompts. */
  async prompt(message = '', { password = false }: { readonly password?: boolean } = {}): Promise<string> {
    const { current: id } = this.#channel;
    const request = this.#running.get(id);
    if (request?.type !== 'run' || !request.allowStdin) {
      const advice = 'run the cell in a notebook, or give the value in the code';
      throw new ShardlabError('IO', `prompt("${message}"): this client cannot be asked for input; ${advice}`);
    }
    if (this.#prompt !== undefined && this.#prompt.id !== id)
      throw new ShardlabError('IO', `prompt("${message}"): another cell waits for input; answer it first`);
    return new Promise((resolve) => {
      this.#prompt = { id, resolve };
      this.#channel.send({ type: 'inputRequest', id, prompt: message, password });
    });
  }

  answer(value: string): void {
    this.#prompt?.resolve(value);
    this.#prompt = undefined;
  }

  #begin(request: RunCell | RunRanks): void {
    this.#running.set(request.id, request);
    this.#channel.begin(request);
  }

  #end({ id }: RunCell | RunRanks, outcome: Outcome): void {
    this.#running.delete(id);
    if (this.#prompt?.id === id) this.#prompt = undefined;
    try {
      this.#channel.end(id);
    } finally {
      this.#channel.cells.end(id, outcome);
      this.#channel.send({ type: 'done', id, outcome });
    }
  }

  async interrupt(): Promise<void> {
    const [running] = this.#running.values();
    this.#channel.send({ type: 'interrupting', id: this.#channel.current });
    if (running !== undefined) {
      const stuck = this.#second.take(running);
      if (stuck !== undefined) {
        // A rank's process may have ended meanwhile.
        await Promise.allSettled(stuck.map(({ job, rank }) => job.kill(rank)));
        return;
      }
      this.#second.watch(running, () => {
        const ranks = this.#running.has(running.id) ? stuckRanks() : [];
        if (ranks.length === 0) return undefined;
        this.#channel.write('stderr', notStopped(ranks));
        return ranks;
      });
    }
    this.#interruptCells();
  }

  #interruptCells(): void {
    this.#rankCells?.interrupt();
    const cells = [...this.#running.values()].filter(({ type }) => type === 'run');
    if (cells.length === 0 && this.#numCallbacks === 0) return;
    const settle = (): void => {
      const late = cells.filter(({ id }) => this.#running.has(id));
      if (
        (late.length === 0 && this.#numCallbacks === 0) ||
        !this.#evaluator.interrupt(INTERRUPT_GRACE_SECONDS)
      )
        return;
      for (const { id } of late) this.#timers.stop(id);
    };
    // A cell that waits for ranks shall end with the ranks' error, so the ranks are stopped first.
    if (registeredJobs().length === 0) settle();
    else void jobsStopped().then(settle);
  }

  /** Writes an error that no code caught into the output of the running cell (or of the last cell). */
  reportStray({ cell, thrown }: StrayError): void {
    const name = cell === undefined ? '' : `In[${cell}]`;
    const from = cell === undefined ? '' : ` in ${name}`;
    const traceback = shownTraceback(this.#evaluator.describe(thrown, name), process.env);
    this.#channel.write('stderr', `Nobody caught this error${from}:\n${traceback.join('\n')}\n`);
  }

  async #outcome(result: EvaluateResult, name: string): Promise<Outcome> {
    if (!result.ok) return { ok: false, error: result.error };
    if (result.value === undefined) return { ok: true, result: undefined };
    try {
      const bundle = await toMimeBundle(result.value);
      // A value that shows itself (a live player) returns an empty bundle.
      const isShown = Object.keys(bundle).length === 0;
      return { ok: true, result: isShown ? undefined : toWireBundle(bundle) };
    } catch (thrown) {
      return { ok: false, error: this.#evaluator.describe(thrown, name) };
    }
  }
}

/** Leaves out the frames below the last frame of a cell: those of the code that has called the callback. */
function withoutCaller(traceback: readonly string[]): readonly string[] {
  const last = traceback.findLastIndex((line) => /^\s+at .*\bIn\[\d+\]:\d/.test(line));
  return traceback.filter((line, i) => i <= last || last < 0 || !/^\s+at /.test(line));
}

/**
 * Interrupts the ranks of all jobs. Resolves when the jobs have stopped their ranks or have failed, at the latest after
 * JOBS_LIMIT_MS.
 */
async function jobsStopped(): Promise<void> {
  const limit = new AbortController();
  await Promise.race([interruptJobs(), delay(JOBS_LIMIT_MS, undefined, { signal: limit.signal })]).catch(
    () => undefined,
  );
  limit.abort();
}

/** A rank that runs a call, and may continue to run it after an interrupt. */
export interface StuckRank extends BusyRank {
  readonly job: Job;
}

/** Returns all ranks, of any job, that run a call now. */
export function stuckRanks(): readonly StuckRank[] {
  return registeredJobs().flatMap((job) => job.busyRanks().map((rank) => ({ ...rank, job })));
}

/** Returns the message about ranks that an interrupt has not stopped; see [Note: native calls]. */
export function notStopped(ranks: readonly StuckRank[]): string {
  const names = rankNames(ranks.map(({ rank }) => rank));
  const places = ranks.map(({ rank, pid, activity }) => `rank ${rank} (pid ${pid}) ${activity}`);
  const whose = ranks.length === 1 ? 'its variables are' : 'their variables are';
  return (
    `The cell has not stopped: ${places.join('; ')}. ` +
    `Interrupt again within ${AGAIN_SECONDS} s to end ${names}: ${whose} lost then, and the job must be launched again; ` +
    'the variables of the notebook stay.\n'
  );
}
