import { setTimeout as delay } from 'node:timers/promises';
import type { EvaluateResult, Evaluator } from '../../src/cell/evaluator';
import { toMimeBundle, toWireBundle } from '../../src/cell/mime';
import type { StrayError } from '../../src/cell/stray-errors';
import { interruptJobs, registeredJobs } from '../../src/job/run/registry';
import type { CellTimers } from './cell-timers';
import type { OutputChannel } from './output-channel';
import type { Person } from './person';
import type { Outcome, RunCell, RunRanks } from './protocol';
import type { RankCells } from './rank-cells';
import { StuckRanks } from './stuck-ranks';

/** The time that a waiting cell gets to end by itself after an interrupt. */
const INTERRUPT_GRACE_SECONDS = 0.03;
/** The time that jobs get to stop their ranks before the cell ends without them. */
const JOBS_LIMIT_MS = 8000;

export interface CellRunnerParts {
  readonly evaluator: Evaluator;
  readonly channel: OutputChannel;
  readonly timers: CellTimers;
  readonly person: Person;
  /** Loaded with the first `%%ranks` cell. */
  readonly rankCells: () => Promise<RankCells>;
}

/** Runs one cell at a time and reports its outcome. */
export class CellRunner {
  readonly #parts: CellRunnerParts;
  readonly #stuckRanks: StuckRanks;
  #rankCells: RankCells | undefined;
  /** The running request. */
  #running: RunCell | RunRanks | undefined;

  constructor(parts: CellRunnerParts) {
    this.#parts = parts;
    this.#stuckRanks = new StuckRanks((text) => parts.channel.write('stderr', text));
  }

  async run(request: RunCell): Promise<void> {
    const { channel, evaluator, person } = this.#parts;
    const { id, cell, js, allowStdin } = request;
    channel.current = id;
    this.#running = request;
    person.reachable = allowStdin;
    const name = `In[${cell}]`;
    const result = await evaluator.evaluate(js, { name });
    const outcome = await this.#outcome(result, name);
    this.#running = undefined;
    channel.done(id, outcome);
  }

  async runInRanks(request: RunRanks): Promise<void> {
    const { channel, evaluator } = this.#parts;
    channel.current = request.id;
    this.#running = request;
    let outcome: Outcome = { ok: true, result: undefined };
    try {
      this.#rankCells ??= await this.#parts.rankCells();
      await this.#rankCells.run(request);
    } catch (thrown) {
      outcome = { ok: false, error: evaluator.describe(thrown, `In[${request.cell}]`) };
    }
    this.#running = undefined;
    channel.done(request.id, outcome);
  }

  async interrupt(): Promise<void> {
    const running = this.#running;
    this.#parts.channel.interrupting();
    if (running !== undefined) {
      if (await this.#stuckRanks.end(running)) return;
      this.#stuckRanks.watch(running, () => this.#running === running);
    }
    this.#interruptCell();
  }

  #interruptCell(): void {
    const { channel, evaluator, timers } = this.#parts;
    if (this.#rankCells?.interrupt() === true) return;
    const id = channel.current;
    const settle = (): void => {
      if (channel.current === id && evaluator.interrupt(INTERRUPT_GRACE_SECONDS)) timers.stop(id);
    };
    // A cell that waits for ranks ends by their error, once they have stopped.
    if (registeredJobs().length === 0) settle();
    else void jobsStopped().then(settle);
  }

  /** Shows an error that no code caught, in the running cell's output. */
  reportStray({ cell, thrown }: StrayError): void {
    const { channel, evaluator } = this.#parts;
    const name = cell === undefined ? '' : `In[${cell}]`;
    const from = cell === undefined ? '' : ` in ${name}`;
    channel.write(
      'stderr',
      `Nobody caught this error${from}:\n${evaluator.describe(thrown, name).traceback.join('\n')}\n`,
    );
  }

  async #outcome(result: EvaluateResult, name: string): Promise<Outcome> {
    if (!result.ok) return { ok: false, error: result.error };
    if (result.value === undefined) return { ok: true, result: undefined };
    try {
      return { ok: true, result: toWireBundle(await toMimeBundle(result.value)) };
    } catch (thrown) {
      return { ok: false, error: this.#parts.evaluator.describe(thrown, name) };
    }
  }
}

/** Resolves when the jobs have stopped their ranks, could not, or took too long. */
async function jobsStopped(): Promise<void> {
  const limit = new AbortController();
  await Promise.race([interruptJobs(), delay(JOBS_LIMIT_MS, undefined, { signal: limit.signal })]).catch(
    () => undefined,
  );
  limit.abort();
}
