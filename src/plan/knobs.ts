import { ConfigError } from '../core/errors';
import type { Layout } from './layout';
import type { Place } from './layout-of-config';

/** A key of a plan request that one may turn, with what it is in a layout. */
interface Knob {
  readonly label: string;
  place(value: never): Place;
  of(layout: Layout): unknown;
}

/** What `whatIf` can turn. */
export const KNOBS = {
  microBatch: {
    label: 'micro-batch',
    place: (micro: number): Place => ({ batch: { micro } }),
    of: (layout: Layout) => layout.microBatch,
  },
  globalBatch: {
    label: 'global batch',
    place: (global: number): Place => ({ batch: { global } }),
    of: (layout: Layout) => layout.globalBatch,
  },
  tp: {
    label: 'tp',
    place: (tp: number): Place => ({ parallel: { tp } }),
    of: (layout: Layout) => layout.tp,
  },
  pp: {
    label: 'pp',
    place: (pp: number): Place => ({ parallel: { pp } }),
    of: (layout: Layout) => layout.pp,
  },
  cp: {
    label: 'cp',
    place: (cp: number): Place => ({ parallel: { cp } }),
    of: (layout: Layout) => layout.cp,
  },
  strategy: {
    label: 'strategy',
    place: (strategy: Layout['strategy']): Place => ({ parallel: { strategy } }),
    of: (layout: Layout) => layout.strategy,
  },
  recompute: {
    label: 'recompute',
    place: (recompute: Layout['recompute']): Place => ({ recompute }),
    of: (layout: Layout) => layout.recompute,
  },
  attention: {
    label: 'attention',
    place: (attention: Layout['attention']): Place => ({ attention }),
    of: (layout: Layout) => layout.attention,
  },
  nicGbit: {
    label: 'NIC, Gbit/s',
    place: (nicGbit: number): Place => ({ nicGbit }),
    of: (layout: Layout) => layout.hardware.nicGbit,
  },
  hardware: {
    label: 'GPU',
    place: (hardware: string): Place => ({ hardware }),
    of: (layout: Layout) => layout.hardware.name,
  },
  compile: {
    label: 'compiled',
    place: (compile: boolean): Place => ({ compile }),
    of: (layout: Layout) => layout.compile,
  },
  seq: {
    label: 'tokens a sample',
    place: (seq: number): Place => ({ seq }),
    of: (layout: Layout) => layout.model.seq,
  },
} as const satisfies Readonly<Record<string, Knob>>;

export type KnobName = keyof typeof KNOBS;

/** Values to try, knob by knob. */
export type KnobValues = {
  readonly [Name in KnobName]?: readonly Parameters<(typeof KNOBS)[Name]['place']>[0][];
};

/** A knob's value with the request's keys that set it. */
export interface Turn {
  readonly value: string | number | boolean;
  readonly place: Place;
  /** Whether a layout has this value. */
  isOf(layout: Layout): boolean;
}

/** Every knob that was named with its turns. Throws: CONFIG for a knob that does not exist. */
export function turnsOf(
  values: KnobValues,
): readonly { readonly label: string; readonly turns: readonly Turn[] }[] {
  return Object.entries(values).map(([name, tried]) => {
    const knob: Knob | undefined = Object.hasOwn(KNOBS, name) ? KNOBS[name as KnobName] : undefined; // own keys only
    if (knob === undefined) {
      throw new ConfigError(
        `there is no knob '${name}'; what can be turned: ${Object.keys(KNOBS).join(', ')}`,
      );
    }
    return {
      label: knob.label,
      turns: tried.map((value) => ({
        value,
        place: knob.place(value as never), // KnobValues gives each knob its own kind of value
        isOf: (layout) => knob.of(layout) === value,
      })),
    };
  });
}
