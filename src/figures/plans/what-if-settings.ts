import type { Estimate } from '../../planner';
import type { Quantities, Title } from '../figure';
import { byteScale, counted, quoted, short } from '../format';
import { createTable, type Table } from '../table';

/** The figure's layout, in which one knob has another value. */
export interface WhatIfSetting {
  /** The knob's value as text: '4'. */
  readonly name: string;
  readonly seconds: Estimate;
  readonly memoryBytes: Estimate;
  readonly fits: boolean;
  /** Whether the figure's layout itself has this value. */
  readonly isBase: boolean;
  /** Whether this setting changes the tokens per iteration, so that `seconds` was scaled to the tokens of the layout. */
  readonly isScaled: boolean;
}

/** A knob, and the values to which it is set while the other knobs do not change. */
export interface WhatIfKnob {
  readonly knob: string;
  readonly settings: readonly WhatIfSetting[];
}

/** Makes a table with a row per setting. */
export function settingsTable(knobs: readonly WhatIfKnob[]): Table {
  return createTable(
    knobs.flatMap(({ knob, settings }) =>
      settings.map(({ name, seconds, memoryBytes, fits, isBase, isScaled }) => ({
        knob,
        setting: name,
        seconds: seconds.value,
        lowSeconds: seconds.low,
        highSeconds: seconds.high,
        memoryBytes: memoryBytes.value,
        lowMemoryBytes: memoryBytes.low,
        highMemoryBytes: memoryBytes.high,
        fits,
        isBase,
        isScaled,
      })),
    ),
  );
}

/** Returns the numbers that a reader may guess. */
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

/** Names the knobs that change time and peak most. */
export function whatIfFinding(knobs: readonly WhatIfKnob[]): Title {
  const time = widest(knobs, ({ seconds }) => seconds.value);
  const memory = widest(knobs, ({ memoryBytes }) => memoryBytes.value);
  const settings = knobs.flatMap((one) => one.settings);
  const fitting = settings.filter(({ fits }) => fits).length;
  const count = `${fitting} of ${counted(settings.length, 'setting')} fit`;
  if (time.ratio < 1.005 && memory.ratio < 1.005) return [`No knob changes the time or the peak; ${count}`];
  const peaks = rangeText(memory.low, memory.high);
  if (time.knob === memory.knob) {
    return [
      `${quoted(time.knob)} changes time (${time.ratio.toFixed(1)}×) and peak (${peaks}) most; ${count}`,
      `${quoted(time.knob)} changes both the time and the peak most; ${count}`,
    ];
  }
  return [
    `Largest effect on time: ${time.knob} (${time.ratio.toFixed(1)}×); on the peak: ${memory.knob} (${peaks})`,
    `Largest effect on time: ${time.knob} (${time.ratio.toFixed(1)}×); on peak: ${memory.knob} (${peaks})`,
    `Largest effect on time: ${time.knob} (${time.ratio.toFixed(1)}×); on the peak: ${memory.knob}`,
    `The time changes by up to ${time.ratio.toFixed(1)}×; ${count}`,
  ];
}

interface Widest {
  readonly knob: string;
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
}

function widest(knobs: readonly WhatIfKnob[], size: (one: WhatIfSetting) => number): Widest {
  const ranges = knobs.map(({ knob, settings }): Widest => {
    const values = settings.map(size);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return { knob, ratio: high / (low || 1), low, high };
  });
  return ranges.reduce((a, b) => (b.ratio > a.ratio ? b : a));
}

/** Formats a range, as '37.2–92.9 GB', rounded like the numbers in the bars. */
function rangeText(low: number, high: number): string {
  const { divisor, unit } = byteScale(high);
  return `${short(low / divisor)}–${short(high / divisor)} ${unit}`;
}
