import { fields, requireKind } from '../config';
import { ConfigError, isWhole, shortened, shown } from '../core';
import type { Layout } from './layout';
import type { Held } from './layout-of-config';
import type { Place } from './place';
import type { PlannedConfig } from './planned-model';

/** A setting of a plan that `whatIf` can change: its name, its value in a layout, and the keys of config and place that set it. */
interface Knob {
  readonly label: string;
  of(layout: Layout): unknown;
  /** Absent: the value is held, whatever config and place say. */
  keys?(value: unknown): object;
}

/** The config's words for knobs with other names. */
const CONFIG_WORDS: Readonly<Record<string, keyof typeof KNOBS>> = {
  batch: 'microBatch',
  on: 'hardware',
  activationCheckpointing: 'recompute',
};

const parallel =
  (key: string) =>
  (value: unknown): object => ({ parallel: { [key]: value } });
const key =
  (name: string) =>
  (value: unknown): object => ({ [name]: value });

/** The settings that `whatIf` can change. */
const KNOBS = {
  microBatch: { label: 'microbatch', of: ({ microBatch }: Layout) => microBatch },
  globalBatch: { label: 'global batch', of: ({ globalBatch }: Layout) => globalBatch },
  tp: { label: 'tp', keys: parallel('tp'), of: ({ tp }: Layout) => tp },
  pp: { label: 'pp', keys: parallel('pp'), of: ({ pp }: Layout) => pp },
  cp: { label: 'cp', keys: parallel('cp'), of: ({ cp }: Layout) => cp },
  strategy: { label: 'strategy', keys: parallel('strategy'), of: ({ strategy }: Layout) => strategy },
  recompute: {
    label: 'recompute',
    keys: (value) => ({ activationCheckpointing: value === 'none' ? null : value }),
    of: ({ recompute }: Layout) => recompute,
  },
  attention: { label: 'attention', keys: key('attention'), of: ({ attention }: Layout) => attention },
  nicGbit: { label: 'NIC, Gbit/s', keys: key('nicGbit'), of: ({ hardware }: Layout) => hardware.nicGbit },
  hardware: { label: 'GPU', keys: key('hardware'), of: ({ hardware }: Layout) => hardware.name },
  gpus: { label: 'GPUs', keys: key('gpus'), of: ({ gpus }: Layout) => gpus },
  stack: { label: 'program', keys: key('stack'), of: ({ stack }: Layout) => stack },
  compile: { label: 'compiled', keys: key('compile'), of: ({ compile }: Layout) => compile },
  seq: { label: 'tokens per sample', of: ({ model }: Layout) => model.seq },
} as const satisfies Readonly<Record<string, Knob>>;

type Values<Name extends keyof typeof KNOBS> = readonly ReturnType<(typeof KNOBS)[Name]['of']>[];

/** The values to try for each knob, by the knob's name or by the config's word for it. */
export type KnobValues = {
  readonly [Name in keyof typeof KNOBS]?: Values<Name>;
} & {
  readonly [Name in 'tp' | 'pp' | 'cp' | 'strategy' as `parallel.${Name}`]?: Values<Name>;
} & {
  readonly batch?: readonly number[];
  readonly on?: readonly string[];
  readonly activationCheckpointing?: readonly Layout['recompute'][];
};

/** A knob's value, and the keys that set this value. */
export interface Turn {
  readonly value: string | number | boolean;
  readonly place: PlannedConfig & Place;
  readonly held: Held;
  /** Whether a layout has this value. */
  isOf(layout: Layout): boolean;
}

/** Returns the named knobs with their values. Throws: CONFIG for an unknown knob, and for values that are not in a list. */
export function turnsOf(
  values: KnobValues,
): readonly { readonly label: string; readonly turns: readonly Turn[] }[] {
  requireKind('whatIf', 'the values', values, fields);
  return Object.entries(values).map(([word, tried]) => {
    const written = word.replace(/^parallel\./, '');
    const name = Object.hasOwn(CONFIG_WORDS, written) ? CONFIG_WORDS[written] : written;
    const knob: Knob | undefined = Object.entries(KNOBS).find(([key]) => key === name)?.[1];
    if (knob === undefined || name === undefined) {
      throw new ConfigError(
        `there is no knob '${shortened(word)}'; choose one of ${Object.keys(KNOBS).join(', ')}`,
      );
    }
    if (!Array.isArray(tried)) {
      throw new ConfigError(`${word} is ${shown(tried)}; give a list of the values to try, such as [1, 2]`);
    }
    return {
      label: knob.label,
      turns: tried.map((value) => ({
        value,
        place: knob.keys?.(value) ?? {},
        held: knob.keys === undefined ? { [name]: countOf(name, value) } : {},
        isOf: (layout) => knob.of(layout) === value,
      })),
    };
  });
}

function countOf(name: string, value: unknown): number {
  if (isWhole(value, 1)) return value;
  throw new ConfigError(`whatIf: ${name} is ${shown(value)}; give whole numbers above 0`);
}
