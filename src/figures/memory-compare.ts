import { ConfigError } from '../core/errors';
import { MEMORY_CAUSES, type MemoryCause } from '../core/events';
import { totalBytes } from '../ledger/memory';
import { noBytes } from '../ledger/record';
import {
  type ComparedCase,
  caseOf,
  comparisonFinding,
  comparisonQuantities,
  comparisonSubtitle,
  isRounded,
} from './compared-case';
import { createFigure, type Figure } from './figure';
import { byteScale, type Scaled, short } from './format';
import { CAUSE_STYLE } from './grammar/cause-style';
import { STACK_ORDER } from './grammar/palette';
import { plotStacks, type StackPanel, type StackRow } from './grammar/stacks';
import type { RunView } from './run-view';
import { createTable } from './table';

const NOTE_ROOM = 54;

/**
 * Runs side by side: model states that a dry run predicts beside measured ones, then the whole peak.
 * States are parameters and optimizer at rest and gradients at their fullest; of each run the rank with the highest peak.
 */
export function compareMemory(runs: Readonly<Record<string, RunView>>): Figure {
  const cases = Object.entries(runs).map(([name, run]) => caseOf(name, run));
  if (cases.length === 0) throw new ConfigError('no runs to compare; pass an object of runs by name');
  const largest = cases.flatMap(({ peak, predicted }) => [
    totalBytes(peak),
    predicted ? totalBytes(predicted) : 0,
  ]);
  const scale = byteScale(Math.max(...largest));
  const panels = [statesPanel(cases, scale), peakPanel(cases, scale), ...residualPanel(cases)];
  return createFigure({
    title: comparisonFinding(cases, scale),
    subtitle: comparisonSubtitle(runs, cases),
    ...plotStacks(panels, CAUSE_STYLE, { noteRoom: NOTE_ROOM }),
    table: tableOf(cases),
    quantities: comparisonQuantities(cases),
  });
}

type Row = StackRow<MemoryCause>;
type Panel = StackPanel<MemoryCause>;

function statesPanel(cases: readonly ComparedCase[], scale: Scaled): Panel {
  const isPredicted = cases.some(({ predicted }) => predicted !== null);
  const exact = isPredicted && cases.every(({ residual }) => residual === null || residual === 0);
  const rows = cases.flatMap(({ name, predicted, states }): Row[] => [
    ...(predicted ? [{ name: `${name} predicted`, values: predicted }] : []),
    { name: predicted ? 'measured' : name, values: states },
  ]);
  const aside = `, ${scale.unit} per rank${exact ? '; exact: residual 0 B' : ''}`;
  return { heading: 'Model states', aside, rows, scale };
}

function peakPanel(cases: readonly ComparedCase[], scale: Scaled): Panel {
  const rows = cases.map((one): Row => {
    const note = `logical ${short(totalBytes(one.logicalPeak) / scale.divisor)}`;
    return { name: one.name, values: one.peak, ...(isRounded(one) ? { note } : {}) };
  });
  return { heading: 'At the peak', aside: `, ${scale.unit}, measured`, rows, scale };
}

/** Only where prediction and measurement differ: by how much, by cause. */
function residualPanel(cases: readonly ComparedCase[]): Panel[] {
  const off = cases.filter(({ residual }) => residual !== null && residual > 0);
  if (off.length === 0) return [];
  const rows = off.map(({ name, predicted, states }): Row => {
    const bytes = { ...noBytes() };
    for (const cause of MEMORY_CAUSES) bytes[cause] = states[cause] - (predicted?.[cause] ?? 0);
    return { name, values: bytes };
  });
  const scale = byteScale(
    Math.max(...rows.flatMap(({ values }) => MEMORY_CAUSES.map((cause) => Math.abs(values[cause] ?? 0)))),
  );
  return [
    {
      heading: 'Residual',
      aside: `: measured minus predicted, ${scale.unit}`,
      rows,
      scale,
      isSigned: true,
    },
  ];
}

function tableOf(cases: readonly ComparedCase[]) {
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
