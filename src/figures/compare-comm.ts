import type { CommCause } from '../core/events';
import { mean, sumOf } from '../core/statistics';
import type { Bytes } from '../core/units';
import { type Kind, kindsOf, plotKinds } from './comm-causes';
import { createFigure, type Figure, type Title } from './figure';
import { byteScale, counted, inUnit, quoted, timesText } from './format';
import type { RunView } from './run-view';
import { type Cases, casesOf, extremes, missedFinding, type Runs, valuesOf, wireRatio } from './runs';
import { lastSteps } from './step-times';
import { createTable } from './table';

/** The causes that have no column of their own in the table. */
const OTHERS: readonly CommCause[] = ['norm', 'loss', 'buffer', 'control'];

/**
 * Draws the collectives of each run as a facet, by cause and operation; the caption has the bytes that a rank receives per step,
 * and per token if the runs' steps have different numbers of tokens. Throws: CONFIG without runs or steps.
 */
export function compareComm(runs: Runs): Figure {
  const cases = casesOf(runs, caseOf);
  return createFigure({
    title: findingOf(cases),
    subtitle: subtitleOf(runs, cases),
    ...plotKinds(cases, (one) => captionWordings(one, countsTokens(cases))),
    quantities: { wireRatio: wireRatio(cases.map(({ total }) => total)) },
    table: createTable(
      cases.map(({ name, kinds, predicted, residual, numCollectives, tokens, perToken }) => ({
        run: name,
        paramBytes: receivedFor(kinds, 'param'),
        gradBytes: receivedFor(kinds, 'grad'),
        activationBytes: receivedFor(kinds, 'activation'),
        userBytes: receivedFor(kinds, 'user'),
        otherBytes: receivedFor(kinds, ...OTHERS),
        predictedParamBytes: predicted?.param ?? null,
        predictedGradBytes: predicted?.grad ?? null,
        residualBytes: residual,
        numCollectives,
        tokens,
        bytesPerToken: perToken,
      })),
    ),
  });
}

type CommCase = ReturnType<typeof caseOf>;

/** Returns what a rank of one run receives per step, predicted and measured: means over ranks and the last steps. */
function caseOf(name: string, run: RunView) {
  const kinds = kindsOf(run);
  const total = sumOf(kinds, ({ wireBytes }) => wireBytes);
  const predicted = run.forecast?.()?.wireBytes ?? null;
  const records = lastSteps(run).flat();
  const counts = records.map((record) => record.tokens).filter((count) => count !== null);
  const tokens = counts.length === records.length ? mean(counts) : null;
  return {
    name,
    kinds,
    total,
    /** The predicted bytes of parameters and of gradients; null without a prediction. */
    predicted,
    residual: predicted === null ? null : residualOf(kinds, predicted),
    numCollectives: sumOf(kinds, ({ count }) => count),
    /** The number of tokens per rank and step; null if the run did not report it. */
    tokens,
    /** The received bytes per token; null if the number of tokens is unknown. */
    perToken: tokens === null || tokens <= 0 ? null : total / tokens,
  };
}

function receivedFor(kinds: readonly Kind[], ...causes: readonly CommCause[]): Bytes {
  return sumOf(kinds, ({ cause, wireBytes }) => (causes.includes(cause) ? wireBytes : 0));
}

/** Sums the absolute differences of measured and predicted bytes; returns 0 for less than half a byte (a rounding error). */
function residualOf(
  kinds: readonly Kind[],
  { param, grad }: { readonly param: Bytes; readonly grad: Bytes },
): Bytes {
  const off = Math.abs(receivedFor(kinds, 'param') - param) + Math.abs(receivedFor(kinds, 'grad') - grad);
  return off < 0.5 ? 0 : off;
}

/** Returns wordings of what a rank of a run receives, the longest first. */
function captionWordings(
  { total, numCollectives, perToken, predicted, residual }: CommCase,
  withTokens: boolean,
): string[] {
  const text = (bytes: Bytes): string => inUnit(bytes, byteScale(bytes));
  const calls = `${text(total)} in ${counted(Number(numCollectives.toFixed(1)), 'call')}`;
  const tokens = withTokens && perToken !== null ? `, ${text(perToken)} per token` : '';
  const expected = predicted === null ? '' : `, predicted ${text(predicted.param + predicted.grad)}`;
  const long = `${calls}${tokens}${residual === 0 ? ', as predicted' : expected}`;
  return [long, `${calls}${tokens}`, `${text(total)}${tokens}`, text(total)];
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
  return `Bytes per rank and step: means of the last steps, ${where}.${said}`;
}
