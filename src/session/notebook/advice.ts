import { count, finite, instance, listOf, ofKind, parseOptions, type ShapeOf, text } from '../../config';
import { ConfigError, DISPLAY } from '../../core';
import { createTable, planTexts, type Table } from '../../figures';
import {
  ADVICE_GRID,
  type AdviceFinding,
  type AdviceGrid,
  type AdviceName,
  predict,
  testAdvice,
} from '../../planner';
import type { TableView } from '../plans/plan';

/** The documents' advice, compared with the best of all layouts over a grid. Shown in a notebook as a table. */
export interface AdviceView extends TableView {
  readonly findings: readonly AdviceFinding[];
  /** Returns every case of the grid for one advice. */
  cases(name: AdviceName): Table;
}

const GRID = {
  models: ofKind<AdviceGrid['models']>(listOf(instance)).nonoptional(),
  gpus: ofKind<AdviceGrid['gpus']>(listOf(count)).nonoptional(),
  hardware: ofKind<AdviceGrid['hardware']>(listOf(text)).nonoptional(),
  nicGbit: ofKind<AdviceGrid['nicGbit']>(listOf(finite)).nonoptional(),
} satisfies ShapeOf<AdviceGrid>;

/** Compares the documents' advice with the best layout of every case; the default grid takes some seconds. */
export function advice(grid: AdviceGrid = ADVICE_GRID): AdviceView {
  parseOptions('advice({ … })', grid, GRID);
  const findings = testAdvice(predict, grid);
  const table = adviceTable(findings);
  return {
    findings,
    table,
    cases: (name) => adviceCases(named(findings, name)),
    frame: () => table.frame(),
    save: table.save,
    toText: () => table.toText(),
    [DISPLAY]: () => table[DISPLAY](),
  };
}

function named(findings: readonly AdviceFinding[], name: AdviceName): AdviceFinding {
  const finding = findings.find((each) => each.name === name);
  if (finding !== undefined) return finding;
  const names = findings.map((finding) => finding.name).join(', ');
  throw new ConfigError(`no advice is called '${name}'; choose one of ${names}`);
}

/** Returns a table of the documents' advice, with the number of the grid's cases in which each advice holds. */
function adviceTable(findings: readonly AdviceFinding[]): Table {
  return createTable(
    findings.map(({ statement, cases, numHolds, summary }) => ({
      advice: statement,
      cases: cases.length,
      holds: numHolds,
      summary,
    })),
  );
}

/** Returns a table of the grid's cases for one advice: the advised layout, the best layout, and the ratio of their times. */
function adviceCases({ statement, cases }: AdviceFinding): Table {
  return createTable(
    cases.map((one) => ({
      model: one.model,
      gpus: one.gpus,
      hardware: one.hardware,
      nicGbit: one.nicGbit,
      holds: one.holds,
      ratio: one.ratio,
      advised: one.advised === null ? 'does not fit' : planTexts.layoutWords(one.advised),
      best: planTexts.layoutWords(one.best),
    })),
    { title: statement },
  );
}
