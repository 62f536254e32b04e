import { ConfigError } from '../core/errors';
import {
  bytesPerToken,
  type CommCase,
  commCaseOf,
  commFinding,
  countsTokens,
  WIRE_GROUP_NAMES,
  type WireBytes,
  type WireGroup,
  wireTotal,
} from './comm-case';
import { createFigure, type Figure } from './figure';
import { byteScale, counted, type Scaled, short } from './format';
import { bold, safe, soft, strong } from './ink';
import { legendRoom } from './legend-room';
import { COMM_FILL, type Fill, inkOn, NEUTRAL } from './palette';
import { panelHeading } from './panel-heading';
import type { Annotation, BarTrace, Layout } from './plotly';
import type { RunView } from './run-view';
import { STATIC_WIDTH } from './static-svg';
import { createTable, type Table } from './table';
import { fits, shortened, textWidth } from './text-width';

const ROW = 26;
const TOP = 92;
const AXIS_ROOM = 28;
const MAX_LEFT = 190;
/** Right of the bars stand totals and counts. */
const RIGHT = 128;
/** Shares of the width that bytes a step and bytes a token have, where both are shown. */
const SPLIT = { step: [0, 0.55], token: [0.78, 1] } as const;

const GROUPS: Readonly<Record<WireGroup, { readonly words: string; readonly fill: Fill }>> = {
  param: { words: 'parameters', fill: COMM_FILL.param },
  grad: { words: 'gradients', fill: COMM_FILL.grad },
  user: { words: 'your own', fill: COMM_FILL.user },
  other: { words: 'norm, loss, buffers', fill: COMM_FILL.norm },
};

interface Row {
  readonly name: string;
  readonly bytes: WireBytes;
  /** Of measured rows. */
  readonly measuredCase: CommCase | undefined;
}

/**
 * What a rank of each run receives in a step, by cause, beside what the formulas predict; bytes a token besides where the runs'
 * steps hold different numbers of tokens. Throws: CONFIG without runs or steps.
 */
export function compareComm(runs: Readonly<Record<string, RunView>>): Figure {
  const cases = Object.entries(runs).map(([name, run]) => commCaseOf(name, run));
  if (cases.length === 0) throw new ConfigError('no runs to compare; pass an object of runs by name');
  const rows = cases.flatMap(rowsOf);
  const scale = byteScale(Math.max(...rows.map(({ bytes }) => wireTotal(bytes))));
  const left = Math.min(MAX_LEFT, Math.max(...rows.map(({ name }) => textWidth(name, 11))) * 1.1 + 14);
  const perToken = countsTokens(cases);
  const domain = perToken ? SPLIT.step : ([0, 1] as const);
  const highest = Math.max(...rows.map(({ bytes }) => wireTotal(bytes))) / scale.divisor || 1;
  const perUnit = ((STATIC_WIDTH - left - RIGHT) * (domain[1] - domain[0])) / (highest * 1.02);
  const seen = WIRE_GROUP_NAMES.filter((group) => rows.some(({ bytes }) => bytes[group] > 0));
  const legend = legendRoom(
    seen.map((group) => GROUPS[group].words),
    10,
    STATIC_WIDTH,
  );
  const pixels = rows.length * ROW;
  return createFigure({
    title: commFinding(cases),
    subtitle: subtitleOf(runs, cases),
    data: [
      ...seen.map((group) => groupBars(group, rows, scale, perUnit)),
      ...(perToken ? [tokenBars(rows)] : []),
    ],
    layout: {
      height: TOP + pixels + AXIS_ROOM + legend + 8,
      margin: { t: TOP, r: RIGHT, l: left, b: AXIS_ROOM + legend + 8 },
      barmode: 'overlay',
      showlegend: true,
      legend: { x: -(left - 10) / (STATIC_WIDTH - left - RIGHT), y: -AXIS_ROOM / pixels },
      ...axesOf(rows, { domain, highest, left, perToken }),
      annotations: [
        panelHeading(0, `<b>Received a step</b>, ${scale.unit} a rank`),
        ...(perToken ? [panelHeading(SPLIT.token[0], '<b>A token</b>, bytes')] : []),
        ...rows.flatMap((row, i) => endLabels(row, i, scale, perToken)),
      ],
    },
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

function groupBars(group: WireGroup, rows: readonly Row[], scale: Scaled, perUnit: number): BarTrace {
  const { words, fill } = GROUPS[group];
  const shown = rows.map((row, i) => ({ row, i })).filter(({ row }) => row.bytes[group] > 0);
  const values = shown.map(({ row }) => row.bytes[group] / scale.divisor);
  return {
    type: 'bar',
    orientation: 'h',
    name: soft(words),
    x: values.map(rounded),
    y: shown.map(({ i }) => i),
    base: shown.map(({ row }) => rounded(below(group, row.bytes) / scale.divisor)),
    width: 0.72,
    text: values.map((value) => (fits(short(value), 10, value * perUnit) ? short(value) : '')),
    textposition: 'inside',
    insidetextanchor: 'middle',
    textangle: 0,
    constraintext: 'none',
    textfont: { size: 10, color: inkOn(fill) },
    marker: {
      color: fill.color,
      pattern: fill.pattern ?? { shape: '' },
      line: { width: 0.5, color: NEUTRAL },
    },
    customdata: shown.map(({ row }) => Math.round(row.bytes[group])),
    hovertemplate: `<b>${words}</b> %{customdata:,} B<extra></extra>`,
  };
}

/** What the groups before a group hold: they lie left of it. */
function below(group: WireGroup, bytes: WireBytes): number {
  const before = WIRE_GROUP_NAMES.slice(0, WIRE_GROUP_NAMES.indexOf(group));
  return before.reduce((sum, name) => sum + bytes[name], 0);
}

const TOKEN_FILL: Fill = { color: '#59636E' };

function tokenBars(rows: readonly Row[]): BarTrace {
  const measured = rows.map((row, i) => ({ i, value: tokenCost(row) })).filter(({ value }) => value !== null);
  return {
    type: 'bar',
    orientation: 'h',
    x: measured.map(({ value }) => rounded(value ?? 0)),
    y: measured.map(({ i }) => i),
    width: 0.5,
    xaxis: 'x2',
    yaxis: 'y2',
    showlegend: false,
    marker: { color: TOKEN_FILL.color, line: { width: 0.5, color: NEUTRAL } },
    hovertemplate: '%{x:.4g} B a token<extra></extra>',
  };
}

function tokenCost({ measuredCase }: Row): number | null {
  return measuredCase === undefined ? null : bytesPerToken(measuredCase);
}

interface AxesPlace {
  readonly domain: readonly [number, number];
  readonly highest: number;
  readonly left: number;
  readonly perToken: boolean;
}

function axesOf(rows: readonly Row[], { domain, highest, left, perToken }: AxesPlace): Partial<Layout> {
  const y = { range: [rows.length - 0.5, -0.5], showgrid: false, ticks: '', ticklabelstandoff: 5 } as const;
  const most = Math.max(...rows.map((row) => tokenCost(row) ?? 0)) || 1;
  return {
    xaxis: { domain, range: [0, highest * 1.02] },
    yaxis: {
      ...y,
      tickvals: rows.map((_, i) => i),
      ticktext: rows.map(({ name }) => strong(safe(shortened(name, 11, left - 14)))),
    },
    ...(perToken
      ? {
          xaxis2: { domain: SPLIT.token, range: [0, most * 1.02], anchor: 'y2' },
          yaxis2: {
            range: y.range,
            showgrid: false,
            ticks: '',
            anchor: 'x2',
            showticklabels: false,
            tickvals: [],
          },
        }
      : {}),
  };
}

function endLabels(row: Row, i: number, scale: Scaled, perToken: boolean): Annotation[] {
  const place = { y: i, showarrow: false, xanchor: 'left', xshift: 2, font: { size: 11 } } as const;
  const total = wireTotal(row.bytes);
  const { measuredCase } = row;
  const calls =
    measuredCase === undefined
      ? ''
      : ` ${soft(`in ${Number(measuredCase.numCollectives.toFixed(1))} calls`)}`;
  const cost = perToken ? tokenCost(row) : null;
  return [
    { ...place, x: total / scale.divisor, text: `${bold(short(total / scale.divisor))}${calls}` },
    ...(cost === null ? [] : [{ ...place, x: cost, xref: 'x2', yref: 'y2', text: bold(short(cost)) }]),
  ];
}

function subtitleOf(runs: Readonly<Record<string, RunView>>, cases: readonly CommCase[]): string {
  const worlds = [...new Set(Object.values(runs).map(({ world }) => world))];
  const where = worlds.map((world) => counted(world, 'rank')).join(', ');
  const exact = cases.every(({ residual }) => (residual ?? 0) === 0) ? ', residual 0 B' : '';
  const isPredicted = cases.some(({ predicted }) => predicted !== null);
  const said = isPredicted ? ` Predicted: parameters and gradients by ring algorithms${exact}.` : '';
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

function rounded(value: number): number {
  return Number(value.toPrecision(8));
}
