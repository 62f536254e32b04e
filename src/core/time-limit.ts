import { createContext, Script } from 'node:vm';
import { ConfigError } from './errors';

/** The time for any work, beside the time for its characters. */
const SECONDS = 10;
/** Reading one character takes much less. */
const SECONDS_PER_CHARACTER = 20e-6;

/** What runs under a limit. */
export interface Limited {
  /** The beginning of the error: what takes too long. */
  readonly subject: string;
  /** The end of the error: what to change. */
  readonly advice: string;
  /** The number of characters that are read. */
  readonly numCharacters: number;
}

/**
 * Ends code that a file of others brings with it, such as a template's loops or a regular expression, when it takes too long. Only
 * node's `vm` can end a function that does not return, without ending the process.
 */
export class TimeLimit {
  readonly #seconds: number;
  readonly #context = createContext({});
  readonly #script = new Script('work()');
  #innermost: Limited | undefined;

  constructor(seconds = SECONDS) {
    this.#seconds = seconds;
  }

  /** Runs work that does not wait. Work within work has the outer limit, and its own words. Throws: CONFIG; errors of the work. */
  run<T>(limited: Limited, work: () => T): T {
    const outer = this.#innermost;
    this.#innermost = limited;
    // When a limit ends the work, `finally` does not run, so the innermost work is still known.
    if (outer !== undefined) {
      try {
        return work();
      } finally {
        this.#innermost = outer;
      }
    }
    let result: { readonly value: T } | undefined;
    this.#context.work = () => {
      result = { value: work() };
    };
    const seconds = this.#seconds + SECONDS_PER_CHARACTER * limited.numCharacters;
    try {
      this.#script.runInContext(this.#context, { timeout: Math.ceil(1e3 * seconds), displayErrors: false });
    } catch (error) {
      // The error is one of another realm, whose Error is not ours.
      const { code } = { ...(error as { readonly code?: unknown }) };
      if (code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      const { subject, advice } = this.#innermost;
      throw new ConfigError(`${subject} took longer than ${Math.round(seconds)} s and was ended; ${advice}`);
    } finally {
      this.#innermost = undefined;
      this.#context.work = undefined;
    }
    return (result as unknown as { readonly value: T }).value; // the script has returned, so the work has too
  }
}
