import type { AdviceFinding } from '../plan/advice';
import { layoutWords } from './plan-table';
import { createTable, type Table } from './table';

/** The documents' advice, and in how much of the grid it holds. */
export function adviceTable(findings: readonly AdviceFinding[]): Table {
  return createTable(
    findings.map(({ statement, cases, numHolds, summary }) => ({
      advice: statement,
      cases: cases.length,
      holds: numHolds,
      summary,
    })),
  );
}

/** Every place of the grid for one advice: what is advised, the best, and the ratio of their times. */
export function adviceCases({ statement, cases }: AdviceFinding): Table {
  return createTable(
    cases.map((one) => ({
      model: one.model,
      gpus: one.gpus,
      hardware: one.hardware,
      nicGbit: one.nicGbit,
      holds: one.holds,
      ratio: one.ratio,
      advised: one.advised === null ? 'does not fit' : layoutWords(one.advised),
      best: layoutWords(one.best),
    })),
    { title: statement },
  );
}
