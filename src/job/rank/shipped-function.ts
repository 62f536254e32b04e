import { deserialize, serialize } from 'node:v8';
import { Script } from 'node:vm';
import { ConfigError, ShardlabError } from '../../core/errors';
import { Tensor } from '../../core/tf';
import type { RankScope } from './scope';

/** The name in stack traces of a function that was sent as source code. */
export const FUNCTION_NAME = 'job.on().run';

/**
 * Runs a function, given as its source, in this rank. Throws: CONFIG when the source is not a function, and the
 * function's errors.
 */
export async function runShipped(
  source: string,
  scope: RankScope,
  args: readonly unknown[],
): Promise<unknown> {
  const work = compile(source);
  try {
    return await work(scope, ...args);
  } catch (error) {
    throw error instanceof ReferenceError && error.message.endsWith('is not defined')
      ? explained(error)
      : error;
  }
}

function compile(source: string): (...args: unknown[]) => unknown {
  // The source of a method, as { f() {} }.f, is a function only within an object.
  for (const text of [`(${source})`, `(Object.values({ ${source} })[0])`]) {
    try {
      const work: unknown = new Script(text, { filename: FUNCTION_NAME }).runInThisContext();
      // JavaScript accepts any arguments for any function.
      if (typeof work === 'function') return work as (...args: unknown[]) => unknown;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
  throw new ConfigError(
    `run takes a function written in TypeScript or JavaScript; this one has no source that can be sent: ${source.slice(0, 80)}`,
  );
}

function explained(error: ReferenceError): ShardlabError {
  return new ShardlabError(
    'RANK_FAILED',
    `${error.message} in this rank. A function is sent to ranks as source code: it sees its arguments and the rank's scope, ` +
      'not the variables and imports of the notebook; pass them as arguments of run(fn, ...args)',
    { cause: error },
  );
}

/**
 * The value in a form that structured clone can send. Throws: CONFIG for a value that cannot be sent, with what to send
 * instead.
 */
export function sendable(value: unknown): unknown {
  if (value instanceof Tensor) {
    throw new ConfigError(
      `a tensor [${value.shape.join(', ')}] lives in its rank's engine and cannot be sent; return x.arraySync() or x.dataSync()`,
    );
  }
  try {
    return deserialize(serialize(value));
  } catch (cause) {
    throw new ConfigError(
      `a value cannot be sent from its rank (${String(cause)}); return plain values, arrays or typed arrays`,
    );
  }
}
