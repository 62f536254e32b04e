import { fields, requireKind } from '../config/call-options';
import { ConfigError } from '../core/errors';
import { shortened } from '../core/shortened';
import { shown } from '../core/shown';
import type { Layout } from './layout';
import type { Place } from './plan-input';

/** A key of a plan request that `whatIf` can change: its name, its path in the request, and its value in a layout. */
interface Knob {
  readonly label: string;
  readonly path: string;
  of(layout: Layout): unknown;
}

/** The keys that `whatIf` can change. */
const KNOBS = {
  microBatch: { label: 'microbatch', path: 'batch.micro', of: (layout: Layout) => layout.microBatch },
  globalBatch: { label: 'global batch', path: 'batch.global', of: (layout: Layout) => layout.globalBatch },
  tp: { label: 'tp', path: 'parallel.tp', of: (layout: Layout) => layout.tp },
  pp: { label: 'pp', path: 'parallel.pp', of: (layout: Layout) => layout.pp },
  cp: { label: 'cp', path: 'parallel.cp', of: (layout: Layout) => layout.cp },
  strategy: { label: 'strategy', path: 'parallel.strategy', of: (layout: Layout) => layout.strategy },
  recompute: { label: 'recompute', path: 'recompute', of: (layout: Layout) => layout.recompute },
  attention: { label: 'attention', path: 'attention', of: (layout: Layout) => layout.attention },
  nicGbit: { label: 'NIC, Gbit/s', path: 'nicGbit', of: (layout: Layout) => layout.hardware.nicGbit },
  hardware: { label: 'GPU', path: 'hardware', of: (layout: Layout) => layout.hardware.name },
  compile: { label: 'compiled', path: 'compile', of: (layout: Layout) => layout.compile },
  seq: { label: 'tokens per sample', path: 'seq', of: (layout: Layout) => layout.model.seq },
} as const satisfies Readonly<Record<string, Knob>>;

/** The values to try for each knob. */
export type KnobValues = {
  readonly [Name in keyof typeof KNOBS]?: readonly ReturnType<(typeof KNOBS)[Name]['of']>[];
};

/** A knob's value, and the keys of a request that set this value. */
export interface Turn {
  readonly value: string | number | boolean;
  readonly place: Place;
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
        place: nested(knob.path.split('.'), value),
        isOf: (layout) => knob.of(layout) === value,
      })),
    };
  });
}

function nested([key = '', ...rest]: readonly string[], value: unknown): Place {
  return { [key]: rest.length === 0 ? value : nested(rest, value) };
}
