import { z } from 'zod';
import { nearest, optimizerFields, wordsOfIssues } from '../../config';
import { ConfigError, classOf, isRecord, shortened, shown } from '../../core';

/** The options that all optimizers have. */
export interface CommonOptions {
  readonly lr?: number;
  /** Whether updates increase the loss. Default false. */
  readonly maximize?: boolean;
  /** Has no effect: the update is always fused (one pass over memory). */
  readonly fused?: boolean;
}

/** Checks an optimizer's options and adds defaults. Throws: CONFIG for an unknown key or a wrong value. */
export function checkedOptions<T extends object>(optimizer: string, options: object, defaults: T): T {
  const known = Object.keys(defaults);
  if (!isRecord(options))
    throw new ConfigError(
      `${optimizer} takes options by name, not ${classOf(options)}; choose of ${known.join(', ')}`,
    );
  for (const [key, value] of Object.entries(options)) {
    if (!known.includes(key)) {
      const near = nearest(key, known);
      const hint = near === undefined ? `choose one of ${known.join(', ')}` : `did you mean "${near}"?`;
      throw new ConfigError(
        `${optimizer}: unknown option "${shortened(key, 40)}" (${shown(value)}); ${hint}`,
      );
    }
    if (value === undefined) continue;
    const expected: unknown = Reflect.get(defaults, key);
    if (typeof value === typeof expected && !(typeof value === 'number' && !(value >= 0))) {
      requireInRange(optimizer, key, value);
      continue;
    }
    const kind = typeof expected === 'number' ? 'a number of at least 0' : `like ${JSON.stringify(expected)}`;
    throw new ConfigError(`${optimizer}: ${key} must be ${kind}, got ${shown(value)}`);
  }
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(entries) };
}

/** Throws: CONFIG for a value that a config would refuse too. */
function requireInRange(optimizer: string, key: string, value: unknown): void {
  const checked = z
    .object(optimizerFields.shape)
    .partial()
    .safeParse({ [key]: value });
  const [issue] = checked.error?.issues ?? [];
  if (issue === undefined) return;
  throw new ConfigError(`${optimizer}: ${wordsOfIssues([issue])}, got ${shown(value)}`);
}
