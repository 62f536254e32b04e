import assert from 'node:assert/strict';
import { ShardlabError } from '../../src/core/errors';

class Own {
  readonly field = 1;
}

/** Makes values that no setting and hardly any option takes, by name. */
export function nonsense(): Readonly<Record<string, unknown>> {
  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  const refuse = (): never => {
    throw new Error('read');
  };
  return {
    map: new Map([['tp', 2]]),
    set: new Set([1]),
    date: new Date(0),
    regexp: /x/,
    instance: new Own(),
    promise: Promise.resolve(1),
    list: [],
    nested: [[]],
    bigint: 5n,
    bigints: [5n],
    deepBigint: { a: { b: 5n } },
    symbol: Symbol('s'),
    text: 'x'.repeat(1e5),
    words: 'a b '.repeat(25e3),
    longKey: { ['k'.repeat(1e5)]: 1 },
    manyKeys: Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`key${i}`, i])),
    manyValues: new Array(1e4).fill(0),
    nan: Number.NaN,
    infinite: Number.POSITIVE_INFINITY,
    negative: -1.5,
    cycle,
    proxy: new Proxy({}, { get: refuse, has: refuse, ownKeys: refuse, getPrototypeOf: refuse }),
    getter: Object.defineProperty({}, 'a', { get: refuse, enumerable: true }),
  };
}

/**
 * Runs a call that got nonsense. Fails unless the call succeeds or throws an error of shardlab with a short message, within a
 * second. Returns whether it threw.
 */
export function refusesShortly(what: string, call: () => unknown): boolean {
  const began = process.cpuUsage(); // other processes may use the machine
  try {
    call();
    return false;
  } catch (error) {
    assert.ok(
      error instanceof ShardlabError,
      `${what}: a raw error: ${error instanceof Error ? error.stack : error}`,
    );
    assert.ok(error.message.length < 600, `${what}: a message of ${error.message.length} characters`);
    return true;
  } finally {
    const { user, system } = process.cpuUsage(began);
    const seconds = (user + system) / 1e6;
    assert.ok(seconds < 1, `${what}: ${seconds} s`);
  }
}
