import { type Bytes, listed, type MemoryCause, sumOf } from '../core';
import { type BytesByCause, totalBytes } from '../ledger';
import { type Quantities, type Quantity, quantity, type Title } from './figure';
import { byteScale, inUnit, percent, quoted, type Scaled, timesText } from './format';
import { unescaped } from './grammar/ink';
import { STACK_ORDER } from './grammar/palette';
import { causesIn, peakOf } from './memory-areas';
import { type ComparedCase, isRounded, type MemoryCase } from './memory-case';
import { type Cases, extremes, missedFinding } from './runs';
import { isEqualWork, LEAST_STEPS, timeRatio } from './step-times';

// The titles of figures of memory, and the numbers that a reader may guess.

/** The causes that one measure would lower, a name for these causes, and the measure. */
type CauseGroup = readonly [causes: readonly MemoryCause[], name: string, measure: string];

const ACTIVATIONS: readonly MemoryCause[] = ['activation', 'temp'];
const BOTH = 'activations and temporaries';
const STATES: readonly MemoryCause[] = ['param.shard', 'grad.shard', 'optimizer'];
const GROUPS: readonly CauseGroup[] = [
  [ACTIVATIONS, BOTH, 'unchanged by sharding'],
  [['param.full'], 'whole parameters', 'smaller units would lower it'],
  [['grad.full'], 'whole gradients', 'an earlier reduction would lower it'],
  [STATES, 'model states', 'more ranks would lower it'],
  [['comm'], 'communication buffers', 'smaller buckets would lower it'],
  [['batch'], 'the batch', 'a smaller batch would lower it'],
];

/** What most of a peak is: wordings of this finding, the longest first, and its words. */
interface PeakFinding {
  readonly wordings: readonly string[];
  /** The share of the peak, as '72%', and the name of the causes that have it. */
  readonly share: string;
  readonly name: string;
}

/**
 * Says what most of a peak is, as "80% of the peak is activations and temporaries: unchanged by sharding". `leftBytes` are the
 * bytes of temporaries that a cell has not disposed.
 */
export function peakFinding(held: BytesByCause, leftBytes: Bytes, world: number): PeakFinding {
  const total = totalBytes(held);
  if (total === 0) return { wordings: ['Nothing was held on the device'], share: '0%', name: 'nothing' };
  const atPeak = { ...held, temp: held.temp - leftBytes };
  const bytesOf = ([causes]: CauseGroup): number => sumOf(causes, (cause) => atPeak[cause]);
  const largest = GROUPS.reduce((a, b) => (bytesOf(b) > bytesOf(a) ? b : a));
  const [causes, groupName, measure] = largest;
  // Titles are plain text, without escapes.
  const shareOf = (bytes: Bytes): string => unescaped(percent(bytes / total));
  if (leftBytes > bytesOf(largest)) {
    const [share, name] = [shareOf(leftBytes), 'results of earlier passes'];
    const sentence = `${share} of the peak is ${name}`;
    return { wordings: [`${sentence}: use tf.tidy`, sentence], share, name };
  }
  const isActivations = causes === ACTIVATIONS;
  const name = isActivations ? activationName(atPeak) : groupName;
  const share = shareOf(bytesOf(largest));
  const sentence = `${share} of the peak is ${name}`;
  return {
    wordings: [
      `${sentence}: ${causes === STATES && world === 1 ? 'sharding would lower it' : measure}`,
      ...(isActivations ? [`${share} of the peak is unsharded ${name}`] : []),
      sentence,
    ],
    share,
    name,
  };
}

/** Names activations, temporaries or both, depending on which of them are more than a hundredth of the peak. */
function activationName(atPeak: BytesByCause): string {
  const least = totalBytes(atPeak) / 100;
  if (atPeak.temp <= least) return 'activations';
  return atPeak.activation <= least ? 'temporaries' : BOTH;
}

/** Returns the numbers of a peak that a reader may guess. */
export function peakQuantities(atPeak: BytesByCause): Quantities {
  const total = totalBytes(atPeak);
  const share = (are: string, ...causes: MemoryCause[]): Quantity => {
    const value = total > 0 ? (sumOf(causes, (cause) => atPeak[cause]) / total) * 100 : 0;
    return quantity(value, '%', (part) => `${are} ${part} of the peak`);
  };
  return {
    peakMB: quantity(total / 1e6, 'MB', (mb) => `the peak is ${mb}`),
    paramShare: share('parameters are', 'param.shard', 'param.full'),
    gradShare: share('gradients are', 'grad.shard', 'grad.full'),
    optimizerShare: share('the optimizer’s moments are', 'optimizer'),
    activationShare: share('activations are', 'activation'),
  };
}

/** Says how the runs' peaks differ. */
export function caseFinding(cases: Cases<MemoryCase>, scale: Scaled): Title {
  if (cases.length === 1) return spacesFinding(cases[0]);
  const { least, most } = extremes(cases, ({ devicePeak }) => devicePeak);
  if (most.devicePeak < least.devicePeak * 1.005) {
    return [`All runs have the same peak on the device: ${inUnit(most.devicePeak, scale)}`];
  }
  const [low, high] = [inUnit(least.devicePeak, scale), inUnit(most.devicePeak, scale)];
  const lowest = `${quoted(least.name)} peaks at ${low} instead of ${high}`;
  const both = `The lowest peak is ${low}, the highest is ${high}`;
  const price = timePrice(least, most, isEqualWork(cases.map(({ times }) => times)));
  const moved = least.hostPeak - most.hostPeak;
  const onHost = `${inUnit(moved, byteScale(moved))} more are on the host`;
  if (moved > 0) return [`${lowest}; ${onHost}`, `${both}; ${onHost}`];
  return [`${lowest}; ${price}`, lowest, `${both}; ${price}`, both];
}

/** Compares step times. Claims no difference if there are few steps, or if the middle halves of both runs' times overlap. */
function timePrice(least: MemoryCase, most: MemoryCase, isEqual: boolean): string {
  const { ratio, isClear } = timeRatio(least.times, most.times);
  if (isClear) return `${isEqual ? 'a step' : 'a token'} takes ${ratio.median.toFixed(2)}× as long`;
  const numSteps = Math.min(least.times.numSteps, most.times.numSteps);
  return numSteps < LEAST_STEPS ? 'too few steps to compare times' : 'no clear difference in time';
}

/** Says what is on the host, and how high the device's peak is. */
export function spacesFinding({ device, host, devicePeak, hostPeak }: MemoryCase): Title {
  const scale = byteScale(Math.max(devicePeak, hostPeak));
  if (devicePeak + hostPeak === 0) return 'Nothing was held';
  const peak = `the device peaks at ${inUnit(devicePeak, scale)}`;
  if (hostPeak === 0) {
    const { byCause } = peakOf(device);
    const [top] = [...causesIn(device)].sort((a, b) => byCause[b] - byCause[a]);
    const share = unescaped(percent(top === undefined ? 0 : byCause[top] / devicePeak));
    return [
      `Nothing is on the host; ${peak}, and ${share} of this is ${top}`,
      `Nothing is on the host; ${peak}`,
    ];
  }
  return [
    `The host peaks at ${inUnit(hostPeak, scale)} (${listed(causesIn(host))}); ${peak}`,
    `The host peaks at ${inUnit(hostPeak, scale)} (${listed(causesIn(host))}), the device at ${inUnit(devicePeak, scale)}`,
    `The host peaks at ${inUnit(hostPeak, scale)}; ${peak}`,
  ];
}

/** Returns the cases that hold most and least, and the ratios (most ÷ least) of their states and peaks. */
function holders(cases: Cases<ComparedCase>) {
  // If states are equal, peaks decide.
  const { most, least } = extremes(cases, ({ states, peak }) => totalBytes(states) + totalBytes(peak) * 1e-6);
  const ratio = (key: 'states' | 'peak'): number => {
    const [a, b] = [totalBytes(most[key]), totalBytes(least[key])];
    // The ratio is infinite if only `least` holds nothing (everything is on the host); the ratio is 1 if both hold nothing.
    return a === b ? 1 : a / b;
  };
  return { most, least, states: ratio('states'), peak: ratio('peak') };
}

/** Returns the numbers of a comparison that a reader may guess. */
export function comparisonQuantities(cases: Cases<ComparedCase>): Quantities {
  const { most, least, states, peak } = holders(cases);
  const stateText = (times: string): string =>
    `${quoted(most.name)} holds ${times} the model states of ${quoted(least.name)}`;
  const peakText = (times: string): string =>
    `the peak of ${quoted(most.name)} is ${times} that of ${quoted(least.name)}`;
  const perCase = cases.map(({ name, states: held }) => {
    const says = (mb: string): string => `with ${quoted(name)} a rank holds ${mb} of model states`;
    return [name, quantity(totalBytes(held) / 1e6, 'MB', says)];
  });
  return {
    ...(Number.isFinite(states) ? { stateRatio: quantity(states, '×', stateText) } : {}),
    peakRatio: quantity(peak, '×', peakText),
    ...Object.fromEntries(perCase),
  };
}

/** Says what the comparison shows. */
export function comparisonFinding(cases: Cases<ComparedCase>, scale: Scaled): Title {
  const missed = missedFinding(cases);
  if (missed !== undefined) return missed;
  const { most, least, states, peak } = holders(cases);
  const held = inUnit(totalBytes(most.states), scale);
  const exact = cases.some(({ residual }) => residual === 0) ? ', exactly as predicted' : '';
  const all = `holds ${held} of model states${exact}`;
  if (cases.length === 1) return [`${quoted(most.name)} ${all}`, `A rank ${all}`];
  if (states === Number.POSITIVE_INFINITY) {
    return [
      `${quoted(least.name)} holds no state on the device; the peaks differ by ${timesText(peak)}`,
      `One run holds no state on the device; the peaks differ by ${timesText(peak)}`,
    ];
  }
  if (states < 1.005) return equalFinding(cases, `All runs hold ${held} of model states`);
  return [
    `${quoted(most.name)} holds ${timesText(states)} the states of ${quoted(least.name)}; its peak is ${timesText(peak)} as high`,
    `Model states differ by ${timesText(states)}, and peaks differ by ${timesText(peak)}`,
  ];
}

/**
 * Says that states are equal, and how peaks differ. If values were rounded to 16 bits, the peaks are those of a device that
 * stores 16-bit values.
 */
function equalFinding(cases: Cases<ComparedCase>, all: string): Title {
  const [first, ...rest] = cases.filter(isRounded);
  if (first === undefined) {
    const { most, peak: ratio } = holders(cases);
    const more = `the peak of ${quoted(most.name)} is ${timesText(ratio)} as high`;
    return ratio < 1.05 ? [all] : [`${all}; ${more}`, all];
  }
  const { least } = extremes([first, ...rest], ({ logicalPeak }) => totalBytes(logicalPeak));
  const peak = totalBytes(least.logicalPeak);
  const size = inUnit(peak, byteScale(peak));
  return [
    `${all}; with 16-bit values the peak of ${quoted(least.name)} would be ${size}`,
    `${all}; with 16-bit values one peak would be ${size}`,
    all,
  ];
}

/** A rank's memory at its own peak. */
export interface RankPeak {
  readonly rank: number;
  readonly bytes: BytesByCause;
  readonly leftBytes: number;
  readonly total: number;
  readonly rest: number;
}

/** Compares the ranks' peaks; if they are alike, says what the peak is. */
export function ranksFinding(peaks: Cases<RankPeak>, world: number, scale: Scaled): Title {
  const { least: low, most: top } = extremes(peaks, ({ total }) => total);
  const [least, most] = [low.total, top.total];
  if (most === 0) return 'Nothing was held on the device';
  if (most > least * 1.05) {
    const factor = least > 0 ? `${(most / least).toPrecision(2)}×` : 'more than';
    const growth = STACK_ORDER.map((cause) => top.bytes[cause] - low.bytes[cause]);
    const cause = STACK_ORDER[growth.indexOf(Math.max(...growth))];
    return [`Rank ${top.rank} needs ${factor} the memory of rank ${low.rank}: ${cause} differs most`];
  }
  const { wordings, share, name } = peakFinding(top.bytes, top.leftBytes, world);
  if (peaks.length === 1) return wordings;
  const same = most === least ? 'exactly the same peak' : 'the same peak within 5%';
  const peak = inUnit(most, scale);
  const about = most === least ? '' : 'about ';
  return [
    `All ranks have ${same}: ${peak}; ${share} is ${name}`,
    `All ranks peak at ${about}${peak}; ${share} is ${name}`,
    `Each rank peaks at ${about}${peak}: ${share} ${name}`,
    `Ranks peak at ${about}${peak}: ${share} ${name}`,
    ...wordings,
  ];
}
