import { Script } from 'node:vm';
import { ConfigError, ShardlabError } from '../../core';

/** Makes a function from its source. `name` is the file in stack traces. Throws: CONFIG if the source is not a function. */
export function compile(source: string, name: string): (...args: unknown[]) => unknown {
  // A method's source, such as `f() {}`, can be compiled only within an object.
  for (const text of [`(${source})`, `(Object.values({ ${source} })[0])`]) {
    try {
      const work: unknown = new Script(text, { filename: name }).runInThisContext();
      // JavaScript accepts any arguments for any function.
      if (typeof work === 'function') return work as (...args: unknown[]) => unknown;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
  throw new ConfigError(
    `${name.startsWith('job.on') ? 'run' : name} takes a function written in TypeScript or JavaScript; this one has no source that can be sent: ${source.slice(0, 80)}`,
  );
}

/** Adds an explanation to an error about a name that a function does not see in its rank; returns other errors unchanged. */
export function explainedError(error: unknown, why: string): unknown {
  if (!(error instanceof ReferenceError && error.message.endsWith('is not defined'))) return error;
  return new ShardlabError('RANK_FAILED', `${error.message} in this rank. ${why}`, { cause: error });
}

/**
 * Adds advice to an error about a class or function that a user's function takes from its scope (as ({ Net }) => new
 * Net() does), although the scope has no such name; returns other errors unchanged.
 */
export function explainedAbsence(error: unknown, scope: object): unknown {
  if (!(error instanceof TypeError)) return error;
  const name = /^(\w+) is not a (constructor|function)$/.exec(error.message)?.[1];
  if (name === undefined || Reflect.get(scope, name) !== undefined) return error;
  return new ConfigError(
    `the scope has no ${name}: names that a %%ranks cell declares exist only in the ranks in which the cell ran. After a new ` +
      `launch, run the cell again. sl.plan calls the function in the notebook: declare ${name} in the function`,
    { cause: error },
  );
}

/** Returns the place in a function of job.train in which an error was thrown, as text; '' if there is none. */
export function placeInFunction(thrown: unknown): string {
  const stack = thrown instanceof Error ? thrown.stack : undefined;
  const match = /\bjob\.train (\w+):(\d+):/.exec(stack ?? '');
  return match === null ? '' : ` (in job.train's ${match[1]}, line ${match[2]} of the function)`;
}
