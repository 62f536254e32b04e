import { setTimeout as delay } from 'node:timers/promises';
import {
  AGAIN_SECONDS,
  type EvaluateResult,
  type Evaluator,
  SecondInterrupt,
  type StrayError,
  shownTraceback,
  toMimeBundle,
  toWireBundle,
} from '../../src/cell';
import { rankNames, ShardlabError } from '../../src/core';
import type { BusyRank } from '../../src/launch';
import { interruptJobs, type Job, registeredJobs } from '../../src/session';
import type { CellTimers } from './cell-timers';
import type { OutputChannel } from './output-channel';
import type { Outcome, RunCell, RunRanks } from './protocol';
import type { RankCells } from './rank-cells';

/** After an interrupt, a waiting cell has this time to end by itself. */
const INTERRUPT_GRACE_SECONDS = 0.03;
/** After an interrupt, jobs get this time to stop their ranks; then the cell ends, even if ranks still run. */
const JOBS_LIMIT_MS = 8000;

/** Runs one cell at a time and reports its outcome. */
export class CellRunner {
  readonly #evaluator: Evaluator;
  readonly #channel: OutputChannel;
  readonly #timers: CellTimers;
  /** Remembers the ranks that an interrupt has not stopped; the next interrupt kills these ranks. */
  readonly #second = new SecondInterrupt<readonly StuckRank[]>();
  /** Runs `%%ranks` cells; undefined until the first such cell. */
  #rankCells: RankCells | undefined;
  /** The running request. */
  #running: RunCell | RunRanks | undefined;
  /** Whether the running cell's client can answer a prompt. */
  #canAsk = false;
  /** Resolves the open prompt with the user's answer. */
  #answer: ((value: string) => void) | undefined;

  constructor(evaluator: Evaluator, channel: OutputChannel, timers: CellTimers) {
    this.#evaluator = evaluator;
    this.#channel = channel;
    this.#timers = timers;
  }

  async run(request: RunCell): Promise<void> {
    const name = `In[${request.cell}]`;
    this.#begin(request);
    const result = await this.#evaluator.evaluate(request.js, { name });
    this.#end(request, await this.#outcome(result, name));
  }

  async runInRanks(request: RunRanks): Promise<void> {
    this.#begin(request);
    let hasBegun = false;
    try {
      this.#rankCells ??= new (await import('./rank-cells.js')).RankCells(this.#channel.sink);
      await this.#rankCells.run(request, () => {
        hasBegun = true;
      });
      this.#end(request, { ok: true, result: undefined });
    } catch (thrown) {
      const error = this.#evaluator.describe(thrown, `In[${request.cell}]`);
      this.#end(request, { ok: false, error, ...(!hasBegun && { reachedNoRank: true }) });
    }
  }

  /** Asks the user of the notebook for a line of text. Throws: IO if the running cell's client does not allow prompts. */
  prompt(message = '', { password = false }: { readonly password?: boolean } = {}): Promise<string> {
    const { current: id } = this.#channel;
    if (!this.#canAsk) {
      const advice = 'run the cell in a notebook, or give the value in the code';
      throw new ShardlabError('IO', `prompt("${message}"): this client cannot be asked for input; ${advice}`);
    }
    return new Promise((resolve) => {
      this.#answer = resolve;
      this.#channel.send({ type: 'inputRequest', id, prompt: message, password });
    });
  }

  answer(value: string): void {
    this.#answer?.(value);
    this.#answer = undefined;
  }

  #begin(request: RunCell | RunRanks): void {
    this.#channel.begin(request.id);
    this.#running = request;
    if (request.type === 'run') this.#canAsk = request.allowStdin;
  }

  #end({ id }: RunCell | RunRanks, outcome: Outcome): void {
    this.#running = undefined;
    try {
      this.#channel.end();
    } finally {
      this.#channel.send({ type: 'done', id, outcome });
    }
  }

  async interrupt(): Promise<void> {
    const running = this.#running;
    this.#channel.send({ type: 'interrupting', id: this.#channel.current });
    if (running !== undefined) {
      const stuck = this.#second.take(running);
      if (stuck !== undefined) {
        // A rank's process may have ended meanwhile.
        await Promise.allSettled(stuck.map(({ job, rank }) => job.kill(rank)));
        return;
      }
      this.#second.watch(running, () => {
        const ranks = this.#running === running ? stuckRanks() : [];
        if (ranks.length === 0) return undefined;
        this.#channel.write('stderr', notStopped(ranks));
        return ranks;
      });
    }
    this.#interruptCell();
  }

  #interruptCell(): void {
    const channel = this.#channel;
    if (this.#rankCells?.interrupt() === true) return;
    const id = channel.current;
    const settle = (): void => {
      if (channel.current !== id) return;
      if (this.#evaluator.interrupt(INTERRUPT_GRACE_SECONDS)) this.#timers.stop(id);
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
