import { MEMORY_CAUSES, type MemoryCause } from '../core';
import { noBytes, type StepRecord, totalBytes } from '../ledger';
import { createFigure, type Figure } from './figure';
import { byteScale, counted, type Scaled, short } from './format';
import { STACK_ORDER } from './grammar/palette';
import { CAUSE_STYLE, plotStacks, type StackPanel, type StackRow } from './grammar/stacks';
import { type ComparedCase, comparedCaseOf, isRounded } from './memory-case';
import { comparisonFinding, comparisonQuantities } from './memory-words';
import { type Cases, casesOf, type Runs, valuesOf } from './runs';
import { createTable, type Table } from './table';

const HATCHED = 'Hatched: whole parameters and gradients, and memory that is freed within the step.';
const NOTE_ROOM = 54;

/**
 * Draws runs side by side: model states, predicted by a dry run and measured, then the whole peak. A run's bars show its rank
 * with the highest peak. Model states are parameters and optimizer states at rest, and gradients at their maximum.
 */
export function compareMemory(runs: Runs): Figure {
  const cases = casesOf(runs, comparedCaseOf);
  const scale = byteScale(
    Math.max(...cases.flatMap((runCase) => [runCase.peak, runCase.predicted ?? noBytes()].map(totalBytes))),
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
  const rows = cases.map((runCase): Row => {
    const note = `logical ${short(totalBytes(runCase.logicalPeak) / scale.divisor)}`;
    return { name: runCase.name, values: runCase.peak, ...(isRounded(runCase) ? { note } : {}) };
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

/** Whether a rank has bytes on the host, which the bars do not show. */
function holdsOnHost({ memory: { owners, atPeak } }: StepRecord): boolean {
  return owners.some(({ space }, i) => space === 'host' && (atPeak[i] ?? 0) > 0);
}
