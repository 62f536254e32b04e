import type { CommCause } from '../core/events';
import { mean, sumOf } from '../core/statistics';
import type { Bytes } from '../core/units';
import { createFigure, type Figure, type Title } from './figure';
import { byteScale, counted, inUnit, quoted, short, timesText } from './format';
import { bareRowAxis, rowRange } from './grammar/axes';
import { bars, endLabel } from './grammar/marks';
import { COMM_FILL, type Fill, NEUTRAL_FILL } from './grammar/palette';
import type { Panel } from './grammar/plot';
import { plotStacks } from './grammar/stacks';
import type { RunView } from './run-view';
import { type Cases, casesOf, extremes, missedFinding, type Runs, valuesOf, wireRatio } from './runs';
import { lastSteps } from './step-times';
import { createTable } from './table';

/** The width, in pixels, of the space right of the bars; the number of calls is written there. */
const NOTE_ROOM = 72;
/** Where the panels of bytes per step and per token begin and end, as shares of the width, if both panels are shown. */
const SPLIT = { step: [0, 0.55], token: [0.78, 1] } as const;

type Words = 'parameters' | 'gradients' | 'activations' | 'your own' | 'norm, loss, buffers';
type WireBytes = Readonly<Record<Words, Bytes>>;

/** The groups in which this figure shows causes of communication. */
const GROUPS: Readonly<Record<Words, { readonly fill: Fill; readonly causes: readonly CommCause[] }>> = {
  parameters: { fill: COMM_FILL.param, causes: ['param'] },
  gradients: { fill: COMM_FILL.grad, causes: ['grad'] },
  activations: { fill: COMM_FILL.activation, causes: ['activation'] },
  'your own': { fill: COMM_FILL.user, causes: ['user'] },
  'norm, loss, buffers': { fill: COMM_FILL.norm, causes: ['norm', 'loss', 'buffer', 'control'] },
};
const WORDS = Object.keys(GROUPS) as readonly Words[]; // all keys of GROUPS

/**
 * Draws the bytes that a rank of each run receives per step, by cause, and the bytes that a dry run predicts. Also draws bytes
 * per token, if the runs' steps have different numbers of tokens. Throws: CONFIG without runs or steps.
 */
export function compareComm(runs: Runs): Figure {
  const cases = casesOf(runs, caseOf);
  const rows = cases.flatMap(rowsOf);
  const scale = byteScale(Math.max(...rows.map(({ values }) => totalOf(values))));
  const aside = `, ${scale.unit} per rank`;
  const perToken = countsTokens(cases) ? { across: SPLIT.step, beside: tokenPanel(rows) } : {};
  const style = {
    order: WORDS,
    fillOf: (words: Words) => GROUPS[words].fill,
    hover: (words: Words) => `<b>${words}</b> %{customdata:,} B<extra></extra>`,
  };
  return createFigure({
    title: findingOf(cases),
    subtitle: subtitleOf(runs, cases),
    ...plotStacks([{ heading: 'Received per step', aside, rows, scale }], style, {
      noteRoom: NOTE_ROOM,
      ...perToken,
    }),
    quantities: { wireRatio: wireRatio(cases.map(({ total }) => total)) },
    table: createTable(
      cases.map(
        ({ name, measured, predicted, residual, numCollectives, tokens, perToken: bytesPerToken }) => ({
          run: name,
          paramBytes: measured.parameters,
          gradBytes: measured.gradients,
          activationBytes: measured.activations,
          userBytes: measured['your own'],
          otherBytes: measured['norm, loss, buffers'],
          predictedParamBytes: predicted?.param ?? null,
          predictedGradBytes: predicted?.grad ?? null,
          residualBytes: residual,
          numCollectives,
          tokens,
          bytesPerToken,
        }),
      ),
    ),
  });
}

type CommCase = ReturnType<typeof caseOf>;

/** Returns the bytes that a rank of one run receives per step, predicted and measured: means over ranks and the last steps. */
function caseOf(name: string, run: RunView) {
  const records = lastSteps(run).flat();
  const bytesOf = (words: Words): Bytes =>
    mean(
      records.map(({ collectives }) =>
        sumOf(collectives, ({ cause, wireBytes }) => (GROUPS[words].causes.includes(cause) ? wireBytes : 0)),
      ),
    );
  const measured = Object.fromEntries(WORDS.map((words) => [words, bytesOf(words)])) as WireBytes; // one value per entry of WORDS
  const total = totalOf(measured);
  const predicted = run.forecast?.()?.wireBytes ?? null;
  const counts = records.map((record) => record.tokens).filter((count) => count !== null);
  const tokens = counts.length === records.length ? mean(counts) : null;
  return {
    name,
    measured,
    total,
    /** The predicted bytes of parameters and of gradients; null without a prediction. */
    predicted,
    residual: predicted === null ? null : residualOf(measured, predicted),
    numCollectives: mean(records.map(({ collectives }) => collectives.length)),
    /** The number of tokens per rank and step; null if the run did not report it. */
    tokens,
    /** The received bytes per token; null if the number of tokens is unknown. */
    perToken: tokens === null || tokens <= 0 ? null : total / tokens,
  };
}

/** Sums the absolute differences of measured and predicted bytes; returns 0 for less than half a byte (a rounding error). */
function residualOf({ parameters, gradients }: WireBytes, predicted: { param: Bytes; grad: Bytes }): Bytes {
  const off = Math.abs(parameters - predicted.param) + Math.abs(gradients - predicted.grad);
  return off < 0.5 ? 0 : off;
}

function totalOf(bytes: Partial<WireBytes>): Bytes {
  return sumOf(WORDS, (words) => bytes[words] ?? 0);
}

/** Whether runs process different numbers of tokens per step, so that bytes per step are not comparable. */
function countsTokens(cases: readonly CommCase[]): boolean {
  const tokens = new Set(cases.map((one) => one.tokens));
  return tokens.size > 1 && !tokens.has(null);
}

/** Names the runs that receive least and most, with their ratio. If a prediction is wrong, says only by how much. */
function findingOf(cases: Cases<CommCase>): Title {
  const missed = missedFinding(cases);
  if (missed !== undefined) return missed;
  const perToken = countsTokens(cases);
  const costOf = (one: CommCase): number => (perToken ? (one.perToken ?? 0) : one.total);
  const { least, most } = extremes(cases, costOf);
  const [low, high] = [costOf(least), costOf(most)];
  const exact = cases.some(({ residual }) => residual === 0) ? ', as predicted' : '';
  const unit = perToken ? 'per token' : 'per step';
  const [lowText, highText] = [low, high].map((cost) => inUnit(cost, byteScale(high)));
  if (high === 0) return 'Nothing was received';
  if (high < low * 1.0005) return [`All runs receive the same: ${highText} ${unit}${exact}`];
  const [fewer, more] = [quoted(least.name), quoted(most.name)];
  if (low === 0) return [`${more} receives ${highText} ${unit}, ${fewer} receives nothing`];
  const times = `${timesText(high / low)} as much`;
  return [
    `${more} receives ${highText} ${unit}, ${times} as ${fewer} (${lowText})`,
    `${more} receives ${highText} ${unit}, ${times} as ${fewer}`,
    `Runs receive ${lowText} to ${highText} ${unit} (ratio ${timesText(high / low)})`,
  ];
}

function subtitleOf(runs: Runs, cases: Cases<CommCase>): string {
  const where = valuesOf(runs, ({ world }) => counted(world, 'rank')).join(', ');
  const exact = cases.every(({ residual }) => (residual ?? 0) === 0) ? ', residual 0 B' : '';
  const isPredicted = cases.some(({ predicted }) => predicted !== null);
  const said = isPredicted ? ` Predicted: parameters and gradients, by a dry run${exact}.` : '';
  return `Bytes on the wire that a rank receives, mean of its last steps, ${where}.${said}`;
}

interface Row {
  readonly name: string;
  readonly values: Partial<WireBytes>;
  readonly note?: string;
  /** The received bytes per token; only measured rows have this number. */
  readonly perToken?: number | null;
}

function rowsOf({ name, measured, predicted, numCollectives, perToken }: CommCase): Row[] {
  const rounded = WORDS.map((words) => [words, Math.round(measured[words])]);
  const values: Partial<WireBytes> = Object.fromEntries(rounded);
  const row = { values, note: `in ${Number(numCollectives.toFixed(1))} calls`, perToken };
  if (predicted === null) return [{ ...row, name }];
  const { param, grad } = predicted;
  const expected = { parameters: Math.round(param), gradients: Math.round(grad) };
  return [
    { name: `${name} predicted`, values: expected },
    { ...row, name: 'measured' },
  ];
}

function tokenPanel(rows: readonly Row[]): Panel {
  const items = rows.flatMap(({ perToken: length = null }, at) => (length === null ? [] : [{ at, length }]));
  const most = Math.max(...items.map(({ length }) => length)) || 1;
  return {
    x: { domain: SPLIT.token, range: [0, most * 1.02] },
    y: bareRowAxis(rowRange(rows.length)),
    data: [bars(items, { fill: NEUTRAL_FILL, width: 0.5, hover: '%{x:.4g} B per token<extra></extra>' })],
    heading: 'Per token',
    aside: ', bytes',
    annotations: items.map(({ at, length }) => endLabel(length, at, short(length))),
  };
}
