import { fields, requireKind } from '../config/call-options';
import { ConfigError } from '../core/errors';
import { shortened } from '../core/shortened';
import { shown } from '../core/shown';
import type { Layout } from './layout';
import type { Asked } from './layout-of';
import type { Place } from './place';
import type { PlannedConfig } from './planned-model';

/** A setting of a plan that `whatIf` can change: its name, its value in a layout, and what sets it. */
interface Knob {
  readonly label: string;
  of(layout: Layout): unknown;
  /** Returns the keys of a config and of its place that set a value. */
  keys?(value: unknown): object;
  /** The key of a layout's request that has the value, if a config says it otherwise. */
  readonly asked?: 'micro' | 'global' | 'seq';
}

const parallel =
  (key: string) =>
  (value: unknown): object => ({ parallel: { [key]: value } });
const key =
  (name: string) =>
  (value: unknown): object => ({ [name]: value });

/** The settings that `whatIf` can change. */
const KNOBS = {
  microBatch: { label: 'microbatch', asked: 'micro', of: (layout: Layout) => layout.microBatch },
  globalBatch: { label: 'global batch', asked: 'global', of: (layout: Layout) => layout.globalBatch },
  tp: { label: 'tp', keys: parallel('tp'), of: (layout: Layout) => layout.tp },
  pp: { label: 'pp', keys: parallel('pp'), of: (layout: Layout) => layout.pp },
  cp: { label: 'cp', keys: parallel('cp'), of: (layout: Layout) => layout.cp },
  strategy: { label: 'strategy', keys: parallel('strategy'), of: (layout: Layout) => layout.strategy },
  recompute: {
    label: 'recompute',
    keys: (value) => ({ activationCheckpointing: value === 'none' ? null : value }),
    of: (layout: Layout) => layout.recompute,
  },
  attention: { label: 'attention', keys: key('attention'), of: (layout: Layout) => layout.attention },
  nicGbit: { label: 'NIC, Gbit/s', keys: key('nicGbit'), of: (layout: Layout) => layout.hardware.nicGbit },
  hardware: { label: 'GPU', keys: key('hardware'), of: (layout: Layout) => layout.hardware.name },
  compile: { label: 'compiled', keys: key('compile'), of: (layout: Layout) => layout.compile },
  seq: { label: 'tokens per sample', asked: 'seq', of: (layout: Layout) => layout.model.seq },
} as const satisfies Readonly<Record<string, Knob>>;

/** The values to try for each knob. */
export type KnobValues = {
  readonly [Name in keyof typeof KNOBS]?: readonly ReturnType<(typeof KNOBS)[Name]['of']>[];
};

/** A knob's value, and the keys that set this value. */
export interface Turn {
  readonly value: string | number | boolean;
  readonly place: PlannedConfig & Place;
  readonly changes: Asked;
  /** Whether a layout has this value. */
  isOf(layout: Layout): boolean;
}

/** Returns the named knobs with their values. Throws: CONFIG for an unknown knob, and for values that are not in a list. */
export function turnsOf(
  values: KnobValues,
): readonly { readonly label: string; readonly turns: readonly Turn[] }[] {
  requireKind('whatIf', 'the values', values, fields);
  return Object.entries(values).map(([name, tried]) => {
    const knob: Knob | undefined = Object.entries(KNOBS).find(([key]) => key === name)?.[1];
    if (knob === undefined) {
      throw new ConfigError(
        `there is no knob '${shortened(name)}'; choose one of ${Object.keys(KNOBS).join(', ')}`,
      );
    }
    if (!Array.isArray(tried)) {
      throw new ConfigError(`${name} is ${shown(tried)}; give a list of the values to try, such as [1, 2]`);
    }
    return {
      label: knob.label,
      turns: tried.map((value) => ({
        value,
        place: knob.keys?.(value) ?? {},
        changes: knob.asked === undefined ? {} : { [knob.asked]: countOf(name, value) },
        isOf: (layout) => knob.of(layout) === value,
      })),
    };
  });
}

function countOf(name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value > 0) return value;
  throw new ConfigError(`whatIf: ${name} is ${shown(value)}; give whole numbers above 0`);
}
