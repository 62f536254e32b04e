import { count, either, fields, finite, flag, type OptionKind, requireKind, text } from '../config';
import { ConfigError, shortened, shown } from '../core';
import type { Layout } from './layout';
import type { Held } from './layout-of-config';
import type { Place } from './place';
import type { PlannedConfig } from './planned-model';

/** A setting of a plan that `whatIf` can change: its name, its value in a layout, and the keys of config and place that set it. */
interface Knob {
  readonly label: string;
  /** The values that can be tried. */
  readonly kind: OptionKind;
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

/** A kind of GPU by its name, or by its figures. */
const HARDWARE = either(text, fields);

/** The settings that `whatIf` can change. */
const KNOBS = {
  microBatch: { label: 'microbatch', kind: count, of: ({ microBatch }: Layout) => microBatch },
  globalBatch: { label: 'global batch', kind: count, of: ({ globalBatch }: Layout) => globalBatch },
  tp: { label: 'tp', kind: count, keys: parallel('tp'), of: ({ tp }: Layout) => tp },
  pp: { label: 'pp', kind: count, keys: parallel('pp'), of: ({ pp }: Layout) => pp },
  cp: { label: 'cp', kind: count, keys: parallel('cp'), of: ({ cp }: Layout) => cp },
  strategy: {
    label: 'strategy',
    kind: text,
    keys: parallel('strategy'),
    of: ({ strategy }: Layout) => strategy,
  },
  recompute: {
    label: 'recompute',
    kind: text,
    keys: (value) => ({ activationCheckpointing: value === 'none' ? null : value }),
    of: ({ recompute }: Layout) => recompute,
  },
  attention: {
    label: 'attention',
    kind: text,
    keys: key('attention'),
    of: ({ attention }: Layout) => attention,
  },
  nicGbit: {
    label: 'NIC, Gbit/s',
    kind: finite,
    keys: key('nicGbit'),
    of: ({ hardware }: Layout) => hardware.nicGbit,
  },
  hardware: {
    label: 'GPU',
    kind: HARDWARE,
    keys: key('hardware'),
    of: ({ hardware }: Layout) => hardware.name,
  },
  gpus: { label: 'GPUs', kind: count, keys: key('gpus'), of: ({ gpus }: Layout) => gpus },
  stack: { label: 'program', kind: text, keys: key('stack'), of: ({ stack }: Layout) => stack },
  compile: { label: 'compiled', kind: flag, keys: key('compile'), of: ({ compile }: Layout) => compile },
  seq: { label: 'tokens per sample', kind: count, of: ({ model }: Layout) => model.seq },
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

/** Returns the named knobs with their values. Throws: CONFIG for an unknown knob, for values that are not in a list, and for a value of another type. */
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
    for (const [i, value] of tried.entries()) requireKind('whatIf', `${word}[${i}]`, value, knob.kind);
    return {
      label: knob.label,
      turns: tried.map((value) => ({
        value,
        place: knob.keys?.(value) ?? {},
        held: knob.keys === undefined ? { [name]: value } : {},
        isOf: (layout) => knob.of(layout) === value,
      })),
    };
  });
}
