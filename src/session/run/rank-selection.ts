import { currentDisplay } from '../../cell';
import { ConfigError, rankNames, shown } from '../../core';
import {
  type CallSink,
  decodeSent,
  encodeSent,
  type LaunchPlan,
  type Measurement,
  outputs,
  type RankScope,
  type RankVariables,
  type Supervisor,
  type VariableNamed,
  variableNames,
} from '../../launch';
import { encodeValues, requireLanguage } from '../../torch';
import { Walk } from '../walk/walk';
import type { RecordedWork, Recordings } from './records';

/**
 * A function that runs in ranks. It is sent as source code. It sees its arguments, the scope of a rank's cell and the
 * variables of `%%ranks` cells (the first argument contains the scope and these variables), but no variables of the notebook.
 */
export type RankFunction<Args extends readonly unknown[], Value> = (
  scope: RankScope & RankVariables,
  ...args: Args
) => Value;

/** Some ranks of a job. */
export class RankSelection {
  /** The selected ranks, ascending. */
  readonly ranks: readonly number[];
  readonly #supervisor: Supervisor;
  readonly #recordings: Recordings;
  readonly #engine: LaunchPlan['engine'];

  constructor(
    ranks: readonly number[],
    supervisor: Supervisor,
    recordings: Recordings,
    engine: LaunchPlan['engine'],
  ) {
    this.ranks = ranks;
    this.#supervisor = supervisor;
    this.#recordings = recordings;
    this.#engine = engine;
  }

  /**
   * Runs a function in each of these ranks and returns their values in rank order. Arguments and values are copied as `put`
   * copies them. Prints of ranks are shown live, grouped by rank; in a script they go to the script's own
   * streams.
   * Throws: RANK_FAILED or the code of a rank's error, RANK_DIED, COLLECTIVE_MISSING, INTERRUPTED, CLOSED; CONFIG for
   * arguments that cannot be sent.
   */
  async run<Args extends readonly unknown[], Value>(
    work: RankFunction<Args, Value>,
    ...args: Args
  ): Promise<Awaited<Value>[]> {
    requireLanguage(this.#engine, 'JavaScript', 'run(function)');
    const values = await this.#perform(shippedFunction(work, args));
    return values.map(decodedValue) as Awaited<Value>[]; // structured clone keeps the type
  }

  /**
   * Runs a function in each of these ranks, which halt before each point of a step: a forward, a collective, an update; see
   * `run.walk`. A number in place of the function is the number of an earlier %%ranks cell, which runs again. Throws: as `run` does;
   * CONFIG for a cell that has not run in these ranks.
   * @example
   * const walk = await job.walk(({ tf, dist }) => dist.allReduce(tf.ones([4])).dispose());
   * await walk.next();
   */
  async walk<Args extends readonly unknown[]>(
    work: RankFunction<Args, unknown> | number,
    ...args: Args
  ): Promise<Walk> {
    requireLanguage(this.#engine, 'JavaScript', 'walk(function)');
    if (typeof work !== 'number' && typeof work !== 'function') {
      throw new ConfigError(
        `walk takes a function, or the number of a %%ranks cell, as job.walk(4), not ${shown(work)}`,
      );
    }
    const { ranks } = this;
    const walked = typeof work === 'number' ? this.#recordings.cellAgain(work) : shippedFunction(work, args);
    const title = `${typeof work === 'number' ? `cell ${work}` : 'a function'} on ${rankNames(ranks)}`;
    return await Walk.begin({
      title,
      step: 1,
      ranks,
      supervisor: this.#supervisor,
      begin: (sink) => this.#perform({ ...walked, walks: true }, sink),
    });
  }

  /** Does work that is recorded, and shows what the ranks print. */
  async #perform(work: RecordedWork, sink: CallSink = {}): Promise<unknown[]> {
    const live = liveOutput();
    try {
      return await this.#recordings.during(this.ranks, work, (steps) =>
        this.#supervisor.run(this.ranks, work, { ...steps, ...sink, output: (event) => live.add(event) }),
      );
    } finally {
      live.finish();
    }
  }

  /**
   * Runs Python in each of these ranks of a job on PyTorch, as `job.on('all').python('rank * n', { n: 2 })`. `values`
   * become variables first, as `put` sends them; variables stay available. Returns, per rank, the value of the last expression as
   * `get` returns it; the value's repr if the value cannot be sent; null if there is no last expression. `rank`, `world_size`,
   * `dist`, `torch`, `device`, `runs` and `report` are in scope. Throws: CONFIG if the ranks run JavaScript, and as `run` does.
   */
  async python(source: string, values: Readonly<Record<string, unknown>> = {}): Promise<unknown[]> {
    requireLanguage(this.#engine, 'Python', 'python(source)');
    if (typeof source !== 'string') {
      throw new ConfigError(`python takes source code, as python('rank * 2'), not ${String(source)}`);
    }
    variableNames.requireVariables(values, 'job.on().python');
    const coded = encodeValues(values, 'job.on().python');
    return await this.#perform({ kind: 'python', source, cell: undefined, coded });
  }

  /**
   * Declares variables in these ranks: later `%%ranks` cells and functions see them by their names, with their types. Each
   * rank gets its own copies. Python gets dict, list, set, bytes, datetime and arrays of numpy. Throws: CONFIG for a value that
   * would not arrive as it is, with its path, and for a name that every rank has already, such as tf or torch.
   * @example
   * await job.put({ X: [[0, 1], [1, 0]], y: new Float32Array([1, 1]) });
   */
  async put(values: Readonly<Record<string, unknown>>): Promise<void> {
    variableNames.requireVariables(values, 'job.put');
    const encode = this.#engine === 'torch' ? encodeValues : encodeSent;
    await this.#supervisor.run(this.ranks, { kind: 'put', coded: encode(values, 'job.put') }, {});
  }

  /**
   * Returns the value of a variable of `%%ranks` cells from each of these ranks, in rank order; a tensor is returned as a number
   * or as nested arrays, and an int of Python that no number equals as a bigint. Throws: CONFIG for a rank that has no such
   * variable, and for a value that cannot be sent, with its path.
   * @example
   * const losses = await job.get('losses');
   */
  async get<Name extends string>(
    name: Name | (keyof RankVariables & string),
  ): Promise<VariableNamed<Name>[]> {
    variableNames.requireName(name, 'get');
    const sent = await this.#supervisor.run(this.ranks, { kind: 'get', name }, {});
    const values = this.#engine === 'torch' ? sent : sent.map(decodedValue);
    // The kernel's compiler declares the types of variables; a rank sends the value that the variable has.
    return values as VariableNamed<Name>[];
  }

  /** Returns each rank's result of a measurement, in rank order; the caller names the result's type. Throws: as `run` does. */
  async measure<Value>(measurement: Measurement): Promise<Value[]> {
    return (await this.#supervisor.run(this.ranks, { kind: 'measure', measurement }, {})) as Value[];
  }
}

/** Returns the work of a function. Throws: CONFIG unless it is a function, and for arguments that cannot be sent. */
function shippedFunction(work: unknown, args: readonly unknown[]): RecordedWork & { kind: 'function' } {
  if (typeof work !== 'function') {
    throw new ConfigError(`run takes a function, as run(({ rank }) => rank), not ${shown(work)}`);
  }
  const named = args.map((arg, i) => [`argument ${i + 1}`, arg]);
  return {
    kind: 'function',
    source: String(work),
    coded: encodeSent(Object.fromEntries(named), 'job.on().run'),
  };
}

function liveOutput() {
  const display = currentDisplay();
  return display === undefined ? outputs.createPlainOutput() : outputs.createLiveOutput(display);
}

/** Returns the only value that a rank has sent. */
function decodedValue(sent: unknown): unknown {
  // Ranks send the bytes of a value as the outcome of 'get' and of a function.
  return Object.values(decodeSent(sent as Uint8Array))[0];
}
