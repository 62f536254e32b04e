import { titleOf } from './figure';
import { byteScale, counted, short } from './format';
import type { WhatIfKnob, WhatIfSetting } from './what-if-settings';

/** Which knob moves the time most, and which the peak. */
export function whatIfFinding(knobs: readonly WhatIfKnob[]): string {
  const time = widest(knobs, ({ seconds }) => seconds.value);
  const memory = widest(knobs, ({ memoryBytes }) => memoryBytes.value);
  const settings = knobs.flatMap((one) => one.settings);
  const fitting = settings.filter(({ fits }) => fits).length;
  const count = `${fitting} of ${counted(settings.length, 'setting')} fit`;
  if (time.ratio < 1.005 && memory.ratio < 1.005) return titleOf(`No knob moves anything; ${count}`);
  const peaks = rangeText(memory.low, memory.high);
  if (time.knob === memory.knob) {
    return titleOf(
      `${time.knob} moves time (${time.ratio.toFixed(1)}×) and peak (${peaks}) most; ${count}`,
      `${time.knob} moves both time and peak most; ${count}`,
    );
  }
  return titleOf(
    `${time.knob} moves time most (${time.ratio.toFixed(1)}×), ${memory.knob} the peak (${peaks})`,
    `${time.knob} moves time most, ${memory.knob} the peak; ${count}`,
    `One knob moves the time ${time.ratio.toFixed(1)}×; ${count}`,
  );
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

/** '37.2–92.9 GB': rounded as the numbers in the bars are. */
function rangeText(low: number, high: number): string {
  const { divisor, unit } = byteScale(high);
  return `${short(low / divisor)}–${short(high / divisor)} ${unit}`;
}
