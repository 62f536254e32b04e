import { ConfigError } from '../core/errors';
import {
  bytesPerToken,
  type CommCase,
  commCaseOf,
  commFinding,
  countsTokens,
  WIRE_GROUP_NAMES,
  type WireBytes,
  wireTotal,
} from './comm-case';
import { createFigure, type Figure } from './figure';
import { byteScale, counted, short } from './format';
import { bareRowAxis, rowRange } from './grammar/axes';
import { bars, endLabel } from './grammar/marks';
import { COMM_FILL, NEUTRAL_FILL } from './grammar/palette';
import type { Panel } from './grammar/plot';
import { plotStacks, type StackStyle } from './grammar/stacks';
import type { RunView } from './run-view';
import { createTable, type Table } from './table';

/** Right of the bars stand counts beside totals. */
const NOTE_ROOM = 72;
/** Shares of the width that bytes per step and bytes per token have, where both are shown. */
const SPLIT = { step: [0, 0.55], token: [0.78, 1] } as const;

const WORDS = {
  param: 'parameters',
  grad: 'gradients',
  user: 'your own',
  other: 'norm, loss, buffers',
} as const;
type Words = (typeof WORDS)[keyof typeof WORDS];
const FILLS = {
  parameters: COMM_FILL.param,
  gradients: COMM_FILL.grad,
  'your own': COMM_FILL.user,
  'norm, loss, buffers': COMM_FILL.norm,
} as const;

const STYLE: StackStyle<Words> = {
  order: WIRE_GROUP_NAMES.map((group) => WORDS[group]),
  fillOf: (words) => FILLS[words],
  hover: (words) => `<b>${words}</b> %{customdata:,} B<extra></extra>`,
};

interface Row {
  readonly name: string;
  readonly bytes: WireBytes;
  /** Of measured rows. */
  readonly measuredCase: CommCase | undefined;
}

/**
 * What a rank of each run receives in a step, by cause, beside what a dry run predicts; bytes per token besides where the runs'
 * steps hold different numbers of tokens. Throws: CONFIG without runs or steps.
 */
export function compareComm(runs: Readonly<Record<string, RunView>>): Figure {
  const cases = Object.entries(runs).map(([name, run]) => commCaseOf(name, run));
  if (cases.length === 0) throw new ConfigError('no runs to compare; pass an object of runs by name');
  const rows = cases.flatMap(rowsOf);
  const scale = byteScale(Math.max(...rows.map(({ bytes }) => wireTotal(bytes))));
  const panel = {
    heading: 'Received per step',
    aside: `, ${scale.unit} per rank`,
    rows: rows.map(stackRow),
    scale,
  };
  const place = countsTokens(cases)
    ? { noteRoom: NOTE_ROOM, across: SPLIT.step, beside: tokenPanel(rows) }
    : { noteRoom: NOTE_ROOM };
  return createFigure({
    title: commFinding(cases),
    subtitle: subtitleOf(runs, cases),
    ...plotStacks([panel], STYLE, place),
    quantities: quantitiesOf(cases),
    table: tableOf(cases),
  });
}

function rowsOf(one: CommCase): Row[] {
  const { name, measured, predicted } = one;
  if (predicted === null) return [{ name, bytes: measured, measuredCase: one }];
  return [
    { name: `${name} predicted`, bytes: { ...predicted, user: 0, other: 0 }, measuredCase: undefined },
    { name: 'measured', bytes: measured, measuredCase: one },
  ];
}

function stackRow({ name, bytes, measuredCase }: Row) {
  const values = Object.fromEntries(
    WIRE_GROUP_NAMES.map((group) => [WORDS[group], Math.round(bytes[group])]),
  ) as Readonly<Record<Words, number>>; // of all groups
  if (measuredCase === undefined) return { name, values };
  return { name, values, note: `in ${Number(measuredCase.numCollectives.toFixed(1))} calls` };
}

function tokenPanel(rows: readonly Row[]): Panel {
  const items = rows.flatMap(({ measuredCase }, row) => {
    const length = measuredCase === undefined ? null : bytesPerToken(measuredCase);
    return length === null ? [] : [{ row, length }];
  });
  const most = Math.max(...items.map(({ length }) => length)) || 1;
  const trace = bars(items, { fill: NEUTRAL_FILL, width: 0.5, hover: '%{x:.4g} B per token<extra></extra>' });
  return {
    x: { domain: SPLIT.token, range: [0, most * 1.02] },
    y: bareRowAxis(rowRange(rows.length)),
    data: [trace],
    heading: 'Per token',
    aside: ', bytes',
    annotations: items.map(({ row, length }) => endLabel(length, row, short(length))),
  };
}

function subtitleOf(runs: Readonly<Record<string, RunView>>, cases: readonly CommCase[]): string {
  const worlds = [...new Set(Object.values(runs).map(({ world }) => world))];
  const where = worlds.map((world) => counted(world, 'rank')).join(', ');
  const exact = cases.every(({ residual }) => (residual ?? 0) === 0) ? ', residual 0 B' : '';
  const isPredicted = cases.some(({ predicted }) => predicted !== null);
  const said = isPredicted ? ` Predicted: parameters and gradients, by a dry run${exact}.` : '';
  return `Bytes on the wire that a rank receives, mean of its last steps, ${where}.${said}`;
}

function quantitiesOf(cases: readonly CommCase[]) {
  const totals = cases.map(({ measured }) => wireTotal(measured));
  const least = Math.min(...totals);
  return {
    wireRatio: {
      value: least > 0 ? Math.max(...totals) / least : 1,
      unit: '×',
      says: (times: string) => `the most bytes received are ${times} the fewest`,
    },
  };
}

function tableOf(cases: readonly CommCase[]): Table {
  return createTable(
    cases.map((one) => ({
      run: one.name,
      paramBytes: one.measured.param,
      gradBytes: one.measured.grad,
      userBytes: one.measured.user,
      otherBytes: one.measured.other,
      predictedParamBytes: one.predicted?.param ?? null,
      predictedGradBytes: one.predicted?.grad ?? null,
      residualBytes: one.residual,
      numCollectives: one.numCollectives,
      tokens: one.tokens,
      bytesPerToken: bytesPerToken(one),
    })),
  );
}
