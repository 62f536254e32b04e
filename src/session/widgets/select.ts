import { inspect } from 'node:util';
import { z } from 'zod';
import { parseOptions } from '../../config';
import { ConfigError } from '../../core';
import { Control } from './control';

/** Options of a select. */
export interface SelectOptions<T> {
  /** The values, or an object with a value for each text that is shown. */
  readonly options: readonly T[] | Readonly<Record<string, T>>;
  /** The first value. Default: the first of the options. */
  readonly value?: T | undefined;
  /** The name beside the select. */
  readonly label?: string | undefined;
}

/**
 * Makes a list from which one value is chosen, which a cell shows as its value. `.value` is the chosen value, and
 * `.onChange(callback)` shows what depends on it. Throws: CONFIG without options, and for a value that is none of them.
 * @example
 * const on = sl.select({ options: ['A100-80G', 'H100-80G'], label: 'GPU' });
 * on.onChange((on) => sl.plan('llama3-8b', { on, gpus: 64 }));
 * sl.select({ options: { 'one node': 8, 'two nodes': 16 }, value: 16 });
 */
export function select<const T>(options: SelectOptions<T>): Control<T> {
  const { label = '' } = parseOptions(
    'sl.select({ … })',
    { ...options },
    {
      options: z.union([z.array(z.unknown()).readonly(), z.record(z.string(), z.unknown())]),
      value: z.unknown(),
      label: z.string(),
    },
  );
  const pairs: readonly (readonly [string, T])[] = Array.isArray(options.options)
    ? options.options.map((value: T) => [textOf(value), value])
    : Object.entries(options.options);
  const [first] = pairs;
  if (first === undefined) throw new ConfigError('sl.select: options is empty; give at least one value');
  const texts = pairs.map(([text]) => text);
  const indexOf = (value: T): number => pairs.findIndex(([, own]) => Object.is(own, value));
  const value = 'value' in options && options.value !== undefined ? options.value : first[1];
  if (indexOf(value) < 0)
    throw new ConfigError(
      `sl.select: value ${inspect(value)} is none of the options; give one of ${texts.join(', ')}`,
    );
  return new Control<T>(
    {
      kind: 'select',
      label,
      fixed: { options: texts },
      range: `of ${texts.join(', ')}`,
      toPage: (chosen) => (indexOf(chosen) < 0 ? undefined : indexOf(chosen)),
      fromPage: (index) => (typeof index === 'number' ? pairs[index]?.[1] : undefined),
      toText: (chosen) => texts[indexOf(chosen)] ?? '',
    },
    value,
  );
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : inspect(value);
}
