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
      settings.map(({ name, seconds, memoryBytes, fits: isFitting, isBase = false }) => ({
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
    numFitting: { value: fitting.length, unit: '', label: `of ${settings.length} settings fit` },
    timeSpread: { value: spread, unit: '×', label: 'the slowest setting that fits over the fastest' },
  };
}
