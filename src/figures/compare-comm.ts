import type { CommCause } from '../core/events';
import { mean, sumOf } from '../core/statistics';
import type { Bytes } from '../core/units';
import { type Kind, kindsOf, plotKinds } from './comm-causes';
import { comparedCommFinding, comparedCommSubtitle, receivedWordings } from './comm-words';
import { createFigure, type Figure } from './figure';
import type { RunView } from './run-view';
import { casesOf, type Runs, wireRatio } from './runs';
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
    title: comparedCommFinding(cases),
    subtitle: comparedCommSubtitle(runs, cases),
    ...plotKinds(cases, (one) => receivedWordings(one, cases)),
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

/** What a rank of one run receives. */
export type CommCase = ReturnType<typeof caseOf>;

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
