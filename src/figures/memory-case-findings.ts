import { titleOf } from './figure';
import { byteScale, inUnit, listed, percent, type Scaled } from './format';
import { causesIn, peakOf } from './memory-areas';
import type { MemoryCase } from './memory-case';
import { isEqualWork, LEAST_STEPS, timeRatio } from './step-times';

/** What the runs' peaks say beside each other; of one run, what the host takes from its device. */
export function caseFinding(cases: readonly MemoryCase[], scale: Scaled): string {
  const [first] = cases;
  if (first === undefined) return '';
  if (cases.length === 1) return spacesFinding(first);
  const least = cases.reduce((a, b) => (b.devicePeak < a.devicePeak ? b : a));
  const most = cases.reduce((a, b) => (b.devicePeak > a.devicePeak ? b : a));
  if (most.devicePeak < least.devicePeak * 1.005) {
    return titleOf(`All peak alike on the device: ${inUnit(most.devicePeak, scale)}`);
  }
  const peaks = `${inUnit(least.devicePeak, scale)} instead of ${inUnit(most.devicePeak, scale)}`;
  const price = timePrice(least, most, isEqualWork(cases.map(({ times }) => times)));
  const moved = least.hostPeak - most.hostPeak;
  if (moved > 0) {
    return titleOf(
      `${least.name} peaks at ${peaks}: ${inUnit(moved, byteScale(moved))} held on the host`,
      `The peak is ${peaks}: ${inUnit(moved, byteScale(moved))} held on the host`,
    );
  }
  return titleOf(
    `${least.name} peaks at ${peaks}; ${price}`,
    `${least.name} peaks at ${peaks}`,
    `The lowest peak is ${peaks}; ${price}`,
    `The lowest peak is ${peaks}`,
  );
}

/** Nothing is claimed of few steps, or of times the middle halves of which overlap. */
function timePrice(least: MemoryCase, most: MemoryCase, isEqual: boolean): string {
  const { ratio, isClear } = timeRatio(least.times, most.times);
  if (isClear) return `${isEqual ? 'a step' : 'a token'} takes ${ratio.median.toFixed(2)}× as long`;
  const numSteps = Math.min(least.times.numSteps, most.times.numSteps);
  return numSteps < LEAST_STEPS ? 'too few steps to compare times' : 'no clear difference in time';
}

function spacesFinding({ device, host, devicePeak, hostPeak }: MemoryCase): string {
  const scale = byteScale(Math.max(devicePeak, hostPeak));
  if (devicePeak + hostPeak === 0) return 'Nothing was held';
  const peak = `the device peaks at ${inUnit(devicePeak, scale)}`;
  if (hostPeak === 0) {
    const { byCause } = peakOf(device);
    const [top] = [...causesIn(device)].sort((a, b) => byCause[b] - byCause[a]);
    const share = top === undefined ? 0 : byCause[top] / devicePeak;
    const percentage = percent(share).replace('&lt;', '<').replace('&gt;', '>');
    return titleOf(
      `Nothing lies on the host; ${peak}, ${percentage} of it ${top}`,
      `Nothing lies on the host; ${peak}`,
    );
  }
  const causes = listed(causesIn(host));
  return titleOf(
    `${inUnit(hostPeak, scale)} on the host (${causes}); ${peak}`,
    `${inUnit(hostPeak, scale)} lie on the host; ${peak}`,
  );
}
