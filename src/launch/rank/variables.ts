import { Script } from 'node:vm';
import { nameInCells } from '../../cell';
import { ConfigError, shortened } from '../../core';
import { Tensor } from '../../core/tf';
import type { RankScope } from './scope';

const NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/**
 * Returns the scope with the variables of cells: `({ losses }) => losses` finds a variable that a cell has declared. If the
 * scope itself has a name, a variable with this name is not found.
 */
export function withVariables(scope: RankScope): RankScope {
  return new Proxy(scope, {
    get: (target, key, receiver) =>
      key in target || typeof key !== 'string' || !NAME.test(key)
        ? Reflect.get(target, key, receiver)
        : variable(key),
  });
}

/** Returns a variable of this rank's cells; undefined if there is none. Cells' variables are not properties of globalThis. */
function variable(name: string): unknown {
  for (const text of new Set([nameInCells(name), name])) {
    try {
      return new Script(text).runInThisContext();
    } catch (error) {
      if (!(error instanceof ReferenceError || error instanceof SyntaxError)) throw error;
    }
  }
  return undefined;
}

/** Returns the names of the values that can be declared: all of them, or none if the scope already has one of them. */
export function freeNames(values: Readonly<Record<string, unknown>>, scope: RankScope): string[] {
  const names = Object.keys(values);
  return names.some((name) => name in scope) ? [] : names;
}

/** Returns the values. Throws: CONFIG if the name of a value is a name of the scope. */
export function requireFree(
  values: Readonly<Record<string, unknown>>,
  scope: RankScope,
): Readonly<Record<string, unknown>> {
  const taken = Object.keys(values).find((name) => name in scope);
  if (taken === undefined) return values;
  throw new ConfigError(
    `put cannot replace ${taken}, which every rank has already; choose another name: put({ my_${taken}: … })`,
  );
}

/** Returns a variable's value in a form that can be sent: a tensor as a number or nested arrays. */
export function valueToSend(value: unknown): unknown {
  return value instanceof Tensor ? value.arraySync() : value;
}

/** Returns the error for a variable that does not exist; returns other errors unchanged. */
export function missingVariable(error: unknown, name: string, rank: number): unknown {
  if (!(error instanceof ReferenceError)) return error;
  return new ConfigError(
    `rank ${rank} has no variable ${shortened(name)}; declare it at the top level of a %%ranks cell that runs in this rank, or send it with ` +
      `await job.put({ ${shortened(name)} })`,
  );
}
