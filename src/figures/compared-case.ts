import { ConfigError } from '../core/errors';
import { MEMORY_CAUSES } from '../core/events';
import type { Bytes } from '../core/units';
import { logicalAtPeak, memoryAtPeak, totalBytes } from '../ledger/memory';
import { modelStatesOf } from '../ledger/model-states';
import type { BytesByCause, StepRecord } from '../ledger/record';
import { type Quantities, titleOf } from './figure';
import { byteScale, counted, inUnit, listed, type Scaled } from './format';
import { higherPeak, type RunView, recordsOfStep } from './run-view';

/** One run's bars: what was predicted, what was measured, what the peak was. */
export interface ComparedCase {
  readonly name: string;
  readonly rank: number;
  readonly predicted: BytesByCause | null;
  readonly states: BytesByCause;
  readonly peak: BytesByCause;
  /** The peak's bytes at the declared types, where values were rounded to shorter ones. */
  readonly logicalPeak: BytesByCause;
  readonly residual: Bytes | null;
}

/** Takes a run's last step apart. */
export function caseOf(name: string, run: RunView): ComparedCase {
  if (run.records.length === 0) throw new ConfigError(`run ${name} has no recorded step; run a step first`);
  const record = recordsOfStep(run.records).reduce(higherPeak);
  const predicted = run.forecast?.()?.states ?? null;
  const states = modelStatesOf(record);
  const residual = predicted === null ? null : distance(states, predicted);
  const peak = memoryAtPeak(record);
  const logicalPeak = logicalAtPeak(record);
  return { name, rank: record.rank, predicted, states, peak, logicalPeak, residual };
}

/** Sum of absolute differences: residuals of two causes must not cancel. */
function distance(a: BytesByCause, b: BytesByCause): Bytes {
  return MEMORY_CAUSES.reduce((sum, cause) => sum + Math.abs(a[cause] - b[cause]), 0);
}

/** Numbers of a comparison that a guess may be about. */
export function comparisonQuantities(cases: readonly ComparedCase[]): Quantities {
  const { most, least, states, peak } = extremes(cases);
  const stateRatio = {
    value: states,
    unit: '×',
    says: (times: string) => `${most.name} holds ${times} the model states of ${least.name}`,
  };
  return {
    ...(Number.isFinite(states) ? { stateRatio } : {}),
    peakRatio: {
      value: peak,
      unit: '×',
      says: (times) => `the peak of ${most.name} is ${times} that of ${least.name}`,
    },
    // One a case, under its name.
    ...Object.fromEntries(
      cases.map((one) => {
        const says = (mb: string): string => `under ${one.name} a rank holds ${mb} of model states`;
        return [one.name, { value: totalBytes(one.states) / 1e6, unit: 'MB', says }];
      }),
    ),
  };
}

/** The cases that hold most and least, and how many times more the first holds. */
function extremes(cases: readonly ComparedCase[]) {
  const most = cases.reduce((a, b) => (totalBytes(b.states) > totalBytes(a.states) ? b : a));
  const least = cases.reduce((a, b) => (order(b) < order(a) ? b : a));
  const states = ratio(totalBytes(most.states), totalBytes(least.states));
  const peak = ratio(totalBytes(most.peak), totalBytes(least.peak));
  return { most, least, states, peak };
}

/** What the comparison shows. */
export function comparisonFinding(cases: readonly ComparedCase[], scale: Scaled): string {
  const { most, least, states, peak } = extremes(cases);
  const held = `${inUnit(totalBytes(most.states), scale)} of model states`;
  const off = cases.filter(({ residual }) => residual !== null && residual > 0);
  if (off.length > 0) {
    const largest = Math.max(...off.map(({ residual }) => residual ?? 0));
    return titleOf(
      `The dry run misses ${inUnit(largest, byteScale(largest))} of ${listed(off.map(({ name }) => name))}`,
      `The dry run misses up to ${inUnit(largest, byteScale(largest))}`,
    );
  }
  const exact = cases.some(({ residual }) => residual === 0) ? ', exactly as predicted' : '';
  if (cases.length === 1) {
    return titleOf(`${most.name} holds ${held}${exact}`, `A rank holds ${held}${exact}`);
  }
  if (states === Number.POSITIVE_INFINITY) {
    return titleOf(
      `${least.name} holds no state on the device, ${most.name} ${inUnit(totalBytes(most.states), scale)}; its peak shrinks ${times(peak)}`,
      `No state is left on the device; the peak shrinks ${times(peak)}`,
    );
  }
  if (states < 1.005) return alikeFinding(cases, held);
  return titleOf(
    `${least.name} holds ${times(states)} less state than ${most.name}; its peak shrinks ${times(peak)}`,
    `Model states shrink ${times(states)}, the peak ${times(peak)}`,
  );
}

/** Where values were rounded to shorter types than they are held in, states stay, and the peak would be lower on a device that holds those. */
function alikeFinding(cases: readonly ComparedCase[], held: string): string {
  const lowest = cases
    .filter(isRounded)
    .sort((a, b) => totalBytes(a.logicalPeak) - totalBytes(b.logicalPeak))[0];
  if (lowest === undefined) return titleOf(`All hold ${held}`);
  const peak = totalBytes(lowest.logicalPeak);
  return titleOf(
    `All hold ${held}; held in its own type, ${lowest.name} peaks at ${inUnit(peak, byteScale(peak))}`,
    `All hold ${held}; held in its own type, one peaks at ${inUnit(peak, byteScale(peak))}`,
    `All hold ${held}`,
  );
}

/** By states, then by peak. */
function order({ states, peak }: ComparedCase): number {
  return totalBytes(states) + totalBytes(peak) * 1e-6;
}

/** Infinite where all went away (to the host); nothing to nothing is as much. */
function ratio(a: Bytes, b: Bytes): number {
  return a === b ? 1 : a / b;
}

function times(factor: number): string {
  return `${factor >= 10 ? factor.toFixed(0) : factor.toFixed(1)}×`;
}

/** What is compared where. */
export function comparisonSubtitle(
  runs: Readonly<Record<string, RunView>>,
  cases: readonly ComparedCase[],
): string {
  const worlds = [...new Set(Object.values(runs).map(({ world }) => world))];
  const where = worlds.length === 1 ? counted(worlds[0] ?? 0, 'rank') : `${worlds.join(', ')} ranks`;
  const isPredicted = cases.some(({ predicted }) => predicted !== null);
  const said = isPredicted ? ' Predicted: by a dry run.' : '';
  const onHost = Object.values(runs).some(({ records }) => records.some(holdsOnHost));
  const logical = cases.some(isRounded) ? ' Logical: as 16-bit values.' : '';
  const device = onHost ? ' on the device' : '';
  return `Held bytes${device} of the fullest rank, ${where}.${said}${logical} Hatched: whole or transient.`;
}

/** Whether the peak would be lower at the declared types. */
export function isRounded({ peak, logicalPeak }: ComparedCase): boolean {
  return totalBytes(logicalPeak) < totalBytes(peak);
}

/** What lies on the host is not in the bars. */
function holdsOnHost({ memory: { owners, atPeak } }: StepRecord): boolean {
  return owners.some(({ space }, i) => space === 'host' && (atPeak[i] ?? 0) > 0);
}
