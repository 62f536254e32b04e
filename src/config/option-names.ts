import { ConfigError, classOf } from '../core/errors';
import { nearest } from './nearest';

/**
 * Checks that options are given by name, and that all names are known. `what` is how the call is written, such as 'FSDP(model, …)'.
 * Throws: CONFIG for a value without names, as in `f(2)`, and with every unknown name and the most similar known name; snake_case gets its own message.
 */
export function requireKnownOptions(what: string, given: object, known: readonly string[]): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new ConfigError(
      `${what} takes options by name, not ${classOf(given)}; the options are ${known.join(', ')}`,
    );
  const wrong = Object.keys(given).filter((name) => !known.includes(name));
  if (wrong.length === 0) return;
  throw new ConfigError(wrong.map((name) => unknownOption(what, name, known)).join('\n'), { unknown: wrong });
}

function unknownOption(what: string, name: string, known: readonly string[]): string {
  const spelled = camelCase(name);
  if (spelled !== name && known.includes(spelled)) return `${what}: ${name} is written ${spelled} here`;
  const near = nearest(name, known);
  const hint = near === undefined ? `choose one of ${known.join(', ')}` : `did you mean ${near}?`;
  return `${what} has no argument ${name}; ${hint}`;
}

/** Returns 'autoWrapPolicy' for 'auto_wrap_policy'. */
export function camelCase(name: string): string {
  return name.replaceAll(/(?<=[a-z0-9])_([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase());
}
