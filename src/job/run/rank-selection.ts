import { currentDisplay } from '../../cell/display';
import { ConfigError } from '../../core/errors';
import type { Measurement } from '../control/messages';
import { createLiveOutput, createPlainOutput } from '../launch/outputs';
import type { Supervisor } from '../launch/supervisor';
import type { RankScope } from '../rank/scope';
import type { Recordings } from './records';

/**
 * A function that runs in ranks. It is sent as source code. It sees the scope of a rank's cell (also passed as its
 * first argument) and its other arguments, but no variables of the notebook.
 */
export type RankFunction<Args extends readonly unknown[], Value> = (scope: RankScope, ...args: Args) => Value;

/** Some ranks of a job. */
export class RankSelection {
  /** The selected ranks, ascending. */
  readonly ranks: readonly number[];
  readonly #supervisor: Supervisor;
  readonly #recordings: Recordings;

  constructor(ranks: readonly number[], supervisor: Supervisor, recordings: Recordings) {
    this.ranks = ranks;
    this.#supervisor = supervisor;
    this.#recordings = recordings;
  }

  /**
   * Runs a function in each of these ranks and returns their values in rank order. Structured clone must be able to carry
   * arguments and values. Prints of ranks are shown live, grouped by rank; in a script they go to the script's own
   * streams.
   * Throws: RANK_FAILED or the code of a rank's error, RANK_DIED, COLLECTIVE_MISSING, INTERRUPTED, CLOSED; CONFIG for
   * arguments that cannot be sent.
   */
  async run<Args extends readonly unknown[], Value>(
    work: RankFunction<Args, Value>,
    ...args: Args
  ): Promise<Awaited<Value>[]> {
    if (typeof work !== 'function') {
      throw new ConfigError(`run takes a function, as run(({ rank }) => rank), not ${String(work)}`);
    }
    checkArguments(args);
    const display = currentDisplay();
    const live = display === undefined ? createPlainOutput() : createLiveOutput(display);
    try {
      const shipped = { kind: 'function', source: String(work), args } as const;
      const values = await this.#recordings.during(this.ranks, shipped, (steps) =>
        this.#supervisor.run(this.ranks, shipped, { ...steps, output: (event) => live.add(event) }),
      );
      // Each rank sends the function's value, in the form that structured clone carries.
      return values as Awaited<Value>[];
    } finally {
      live.finish();
    }
  }

  /** Returns each rank's measurement, in rank order; the caller names the type. Throws: as `run`. */
  async measure<Value>(measurement: Measurement): Promise<Value[]> {
    return (await this.#supervisor.run(this.ranks, { kind: 'measure', measurement }, {})) as Value[];
  }
}

function checkArguments(args: readonly unknown[]): void {
  args.forEach((arg, i) => {
    try {
      structuredClone(arg);
    } catch (cause) {
      throw new ConfigError(
        `argument ${i + 1} of run cannot be sent to ranks (${String(cause)}); send plain values, arrays or typed arrays`,
        { argument: i + 1 },
      );
    }
  });
}
