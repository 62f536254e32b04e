import { types } from 'node:util';
import { Script } from 'node:vm';
import { ConfigError, shown } from '../../core';
import type { Tensor } from '../../core/tf';

declare global {
  /**
   * The variables of ranks, by name. The kernel declares the variables of `%%ranks` cells and of `job.put` here; a program
   * without the kernel can declare its own: `declare global { interface ShardlabRankVariables { losses: number[] } }`.
   */
  interface ShardlabRankVariables {}
}

/** Variables that cells and `job.put` have made in ranks. */
export type RankVariables = ShardlabRankVariables;

/** The type of a rank's variable after it was sent: a tensor becomes a number or nested arrays. */
export type Received<T> = T extends Tensor ? ReturnType<T['arraySync']> : T;

/** The type of the variable with this name, as `get` returns it; `unknown` for a name that is not declared. */
export type VariableNamed<Name extends string> = Name extends keyof RankVariables
  ? Received<RankVariables[Name]>
  : unknown;

/** Throws: CONFIG unless the value is a plain object whose keys are names of variables; `caller` is the called function. */
export function requireVariables(
  values: unknown,
  caller: string,
): asserts values is Readonly<Record<string, unknown>> {
  if (typeof values !== 'object' || values === null || !isPlain(values)) {
    throw new ConfigError(`${caller} takes an object of values by name: await job.put({ X })`);
  }
  for (const name of Object.keys(values)) requireName(name, 'put');
}

function isPlain(value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value);
  return prototype === null || (Object.getPrototypeOf(prototype) === null && !types.isProxy(value));
}

/** Throws: CONFIG unless the name can be that of a variable. */
export function requireName(name: unknown, caller: 'put' | 'get'): asserts name is string {
  if (typeof name === 'string' && isName(name)) return;
  throw new ConfigError(
    `${caller}: ${shown(name)} cannot be the name of a variable; give a name such as ` +
      (caller === 'get' ? "'losses': await job.get('losses')" : 'losses: await job.put({ losses })'),
  );
}

function isName(name: string): boolean {
  if (!/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)) return false;
  try {
    // A reserved word does not parse as a name. The script is only parsed, not run.
    new Script(`let ${name};`);
    return true;
  } catch {
    return false;
  }
}
