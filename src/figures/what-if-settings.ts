import type { Bytes } from '../core/units';
import type { Estimate } from '../plan/prediction';
import type { Quantities } from './figure';
import { createTable, type Table } from './table';

/** One value of a knob, all else as in the layout that the figure is about. */
export interface WhatIfSetting {
  /** As 'tp 4'; the panel says the knob. */
  readonly name: string;
  readonly seconds: Estimate;
  readonly memoryBytes: Estimate;
  readonly fits: boolean;
  /** Whether the layout has this value. */
  readonly isBase?: boolean | undefined;
  /** Whether an iteration of it holds other tokens, so that its time was brought to the layout's. */
  readonly isScaled?: boolean | undefined;
}

/** A knob turned alone. */
export interface WhatIfKnob {
  readonly knob: string;
  readonly settings: readonly WhatIfSetting[];
}

export interface WhatIfOptions {
  /** What a GPU's allocator can reserve. */
  readonly capacityBytes: Bytes;
  readonly subtitle: string;
}

/** Every setting as a row. */
export function settingsTable(knobs: readonly WhatIfKnob[]): Table {
  return createTable(
    knobs.flatMap(({ knob, settings }) =>
      settings.map(({ name, seconds, memoryBytes, fits: isFitting, isBase = false, isScaled = false }) => ({
        knob,
        setting: name,
        seconds: seconds.value,
        lowSeconds: seconds.low,
        highSeconds: seconds.high,
        memoryBytes: memoryBytes.value,
        lowMemoryBytes: memoryBytes.low,
        highMemoryBytes: memoryBytes.high,
        fits: isFitting,
        isBase,
        isScaled,
      })),
    ),
  );
}

/** What one may guess. */
export function settingQuantities(settings: readonly WhatIfSetting[]): Quantities {
  const fitting = settings.filter((one) => one.fits);
  const times = fitting.map(({ seconds }) => seconds.value);
  const spread = times.length === 0 ? 1 : Math.max(...times) / Math.min(...times);
  return {
    numFitting: {
      value: fitting.length,
      unit: '',
      says: (count) => `${count} of ${settings.length} settings fit`,
    },
    timeSpread: {
      value: spread,
      unit: '×',
      says: (times) => `the slowest setting that fits takes ${times} as long as the fastest`,
    },
  };
}
