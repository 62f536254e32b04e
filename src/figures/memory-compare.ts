import { MEMORY_CAUSES, type MemoryCause } from '../core/events';
import { sumOf } from '../core/statistics';
import type { Bytes } from '../core/units';
import { logicalAtPeak, memoryAtPeak, totalBytes } from '../ledger/memory';
import { modelStatesOf } from '../ledger/model-states';
import { type BytesByCause, noBytes, type StepRecord } from '../ledger/record';
import { createFigure, type Figure, type Quantities, quantity, type Title } from './figure';
import { byteScale, counted, inUnit, quoted, type Scaled, short, timesText } from './format';
import { STACK_ORDER } from './grammar/palette';
import { CAUSE_STYLE, plotStacks, type StackPanel, type StackRow } from './grammar/stacks';
import { higherPeak, type RunView, recordsOfStep } from './run-view';
import { type Cases, casesOf, extremes, missedFinding, type Runs, valuesOf } from './runs';
import { createTable, type Table } from './table';

const HATCHED = 'Hatched: whole parameters and gradients, and memory that is freed within the step.';
const NOTE_ROOM = 54;

/**
 * Draws runs side by side: model states, predicted by a dry run and measured, then the whole peak. A run's bars show its rank
 * with the highest peak. Model states are parameters and optimizer states at rest, and gradients at their maximum.
 */
export function compareMemory(runs: Runs): Figure {
  const cases = casesOf(runs, caseOf);
  const scale = byteScale(
    Math.max(...cases.flatMap((one) => [one.peak, one.predicted ?? noBytes()].map(totalBytes))),
  );
  return createFigure({
    title: comparisonFinding(cases, scale),
    subtitle: subtitleOf(runs, cases),
    ...plotStacks(
      [statesPanel(cases, scale), peakPanel(cases, scale), ...residualPanel(cases)],
      CAUSE_STYLE,
      {
        noteRoom: NOTE_ROOM,
      },
    ),
    table: tableOf(cases),
    quantities: comparisonQuantities(cases),
  }).withNote(HATCHED);
}

/** One run's bars: predicted states, measured states, and the peak. */
export interface ComparedCase {
  readonly name: string;
  readonly rank: number;
  readonly predicted: BytesByCause | null;
  readonly states: BytesByCause;
  readonly peak: BytesByCause;
  /** The peak's bytes if values had their declared types; less than `peak` if values were rounded to 16 bits. */
  readonly logicalPeak: BytesByCause;
  readonly residual: Bytes | null;
}

/** Returns the bars of a run's last step. */
function caseOf(name: string, run: RunView): ComparedCase {
  const record = recordsOfStep(run.records).reduce(higherPeak);
  const predicted = run.forecast?.()?.states ?? null;
  const states = modelStatesOf(record);
  const [peak, logicalPeak] = [memoryAtPeak(record), logicalAtPeak(record)];
  // The differences are absolute, because two causes' differences must not cancel.
  const residual = predicted && sumOf(MEMORY_CAUSES, (cause) => Math.abs(states[cause] - predicted[cause]));
  return { name, rank: record.rank, predicted, states, peak, logicalPeak, residual };
}

type Panel = StackPanel<MemoryCause>;
type Row = StackRow<MemoryCause>;

function statesPanel(cases: Cases<ComparedCase>, scale: Scaled): Panel {
  const isPredicted = cases.some(({ predicted }) => predicted !== null);
  const exact = isPredicted && cases.every(({ residual }) => (residual ?? 0) === 0);
  const rows = cases.flatMap(({ name, predicted, states }): Row[] => [
    ...(predicted ? [{ name: `${name} predicted`, values: predicted }] : []),
    { name: predicted ? 'measured' : name, values: states },
  ]);
  const aside = `, ${scale.unit} per rank${exact ? '; exact: residual 0 B' : ''}`;
  return { heading: 'Model states', aside, rows, scale };
}

function peakPanel(cases: Cases<ComparedCase>, scale: Scaled): Panel {
  const rows = cases.map((one): Row => {
    const note = `logical ${short(totalBytes(one.logicalPeak) / scale.divisor)}`;
    return { name: one.name, values: one.peak, ...(isRounded(one) ? { note } : {}) };
  });
  return { heading: 'At the peak', aside: `, ${scale.unit}, measured`, rows, scale };
}

/** Draws measured − predicted bytes, by cause; returns no panel if nothing differs. */
function residualPanel(cases: Cases<ComparedCase>): Panel[] {
  const rows = cases.flatMap(({ name, predicted, states, residual }): Row[] => {
    if (predicted === null || residual === 0) return [];
    const values = noBytes();
    for (const cause of MEMORY_CAUSES) values[cause] = states[cause] - predicted[cause];
    return [{ name, values }];
  });
  if (rows.length === 0) return [];
  const scale = byteScale(Math.max(...rows.flatMap(({ values }) => Object.values(values).map(Math.abs))));
  const aside = `: measured minus predicted, ${scale.unit}`;
  return [{ heading: 'Residual', aside, rows, scale, isSigned: true }];
}

function tableOf(cases: Cases<ComparedCase>): Table {
  const rows = cases.flatMap(({ name, rank, predicted, states, peak, logicalPeak }) =>
    STACK_ORDER.map((cause) => ({
      run: name,
      rank,
      cause,
      predictedBytes: predicted ? predicted[cause] : null,
      measuredBytes: states[cause],
      residualBytes: predicted ? states[cause] - predicted[cause] : null,
      peakBytes: peak[cause],
      logicalPeakBytes: logicalPeak[cause],
    })),
  );
  return createTable(rows.filter((row) => row.measuredBytes + row.peakBytes + (row.predictedBytes ?? 0) > 0));
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

function subtitleOf(runs: Runs, cases: Cases<ComparedCase>): string {
  const [first = 0, ...others] = valuesOf(runs, ({ world }) => world);
  const where = others.length === 0 ? counted(first, 'rank') : `${[first, ...others].join(', ')} ranks`;
  const isPredicted = cases.some(({ predicted }) => predicted !== null);
  const said = isPredicted ? ' Predicted: by a dry run.' : '';
  const logical = cases.some(isRounded) ? ' Logical: the peak with 16-bit values.' : '';
  const onHost = Object.values(runs).some(({ records }) => records.some(holdsOnHost));
  const device = onHost ? ' on the device' : '';
  return `Held bytes${device} on the rank that holds most, ${where}.${said}${logical}`;
}

/** Whether the peak would be lower if values had their declared types. */
function isRounded({ peak, logicalPeak }: ComparedCase): boolean {
  return totalBytes(logicalPeak) < totalBytes(peak);
}

/** Whether a rank has bytes on the host, which the bars do not show. */
function holdsOnHost({ memory: { owners, atPeak } }: StepRecord): boolean {
  return owners.some(({ space }, i) => space === 'host' && (atPeak[i] ?? 0) > 0);
}
