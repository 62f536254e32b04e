import { ConfigError } from '../core/errors';
import {
  ADVICE_GRID,
  type AdviceFinding,
  type AdviceGrid,
  type AdviceName,
  testAdvice,
} from '../plan/advice';
import { predict } from '../plan/predict';
import { adviceCases, adviceTable } from './advice-table';
import type { DataFrame } from './frame';
import { DISPLAY, type DisplayBundle, type Table } from './table';

/** The documents' advice against the best of all layouts, over a grid. In a notebook it shows itself. */
export interface AdviceView {
  readonly findings: readonly AdviceFinding[];
  readonly table: Table;
  /** Every place of the grid for one advice. */
  cases(name: AdviceName): Table;
  frame(): Promise<DataFrame>;
  toText(): string;
  [DISPLAY](): DisplayBundle;
}

/** Tries the documents' advice; the grid's default takes some seconds. */
export function advice(grid: AdviceGrid = ADVICE_GRID): AdviceView {
  const findings = testAdvice(predict, grid);
  const table = adviceTable(findings);
  return {
    findings,
    table,
    cases: (name) => adviceCases(named(findings, name)),
    frame: () => table.frame(),
    toText: () => table.toText(),
    [DISPLAY]: () => table[DISPLAY](),
  };
}

function named(findings: readonly AdviceFinding[], name: AdviceName): AdviceFinding {
  const found = findings.find((finding) => finding.name === name);
  if (found !== undefined) return found;
  const names = findings.map((finding) => finding.name).join(', ');
  throw new ConfigError(`no advice is called '${name}'; there are ${names}`);
}
