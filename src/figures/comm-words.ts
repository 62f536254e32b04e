import { type Bytes, type CommCause, sumOf } from '../core';
import type { CommCase, Kind } from './comm-case';
import type { Title } from './figure';
import { byteScale, counted, inUnit, percent, quoted, timeScale, timesText } from './format';
import { unescaped } from './grammar/ink';
import type { RunView } from './run-view';
import { type Cases, extremes, missedFinding, type Runs, valuesOf } from './runs';
import { lastSteps } from './step-times';

/** Words for the data that a collective carries. */
export const CAUSE_WORDS: Readonly<Record<CommCause, string>> = {
  param: 'parameters',
  grad: 'gradients',
  activation: 'activations',
  norm: 'gradient norm',
  loss: 'loss',
  buffer: 'buffers',
  user: 'your own calls',
  control: 'control',
};

/** Returns an operation's name in prose, as 'all-gather' for allGather. */
export function spoken(op: string): string {
  return op.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Says what a rank of a run receives, and what most of it is for. */
export function commFinding({ part }: RunView, kinds: readonly Kind[]): Title {
  const wire = sumOf(kinds, (kind) => kind.wireBytes);
  const where = part === undefined ? '' : ` in ${part}`;
  if (kinds.length === 0) return `Nothing was communicated${where}`;
  if (wire === 0) return `Ranks called collectives${where}, but exchanged no bytes`;
  const byCause = new Map<string, number>();
  for (const { cause, wireBytes } of kinds) {
    byCause.set(CAUSE_WORDS[cause], (byCause.get(CAUSE_WORDS[cause]) ?? 0) + wireBytes);
  }
  const [[words, most] = ['', 0]] = [...byCause].sort((a, b) => b[1] - a[1]);
  const share = unescaped(percent(most / wire));
  return [
    `Each rank receives ${inUnit(wire, byteScale(wire))}${where || ' per step'}; ${share} of this is for ${words}`,
  ];
}

/** Says over how many steps the numbers are means, and how much of the transfers is hidden. */
export function commSubtitle(run: RunView, kinds: readonly Kind[]): string {
  const numSteps = counted(lastSteps(run).length, 'step');
  const where = `${run.strategy}, ${counted(run.world, 'rank')}: mean per rank and step, over ${numSteps}.`;
  const wire = sumOf(kinds, (kind) => kind.wire);
  if (wire === 0) return where;
  const hidden = percent(sumOf(kinds, (kind) => kind.overlapped) / wire);
  return `${where} Bytes travel for ${inUnit(wire, timeScale(wire))}, and ranks compute in ${hidden} of this time.`;
}

/** Names the runs that receive least and most, with their ratio. If a prediction is wrong, says only by how much. */
export function comparedCommFinding(cases: Cases<CommCase>): Title {
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

/** Says what the numbers are, and whether a dry run predicted them. */
export function comparedCommSubtitle(runs: Runs, cases: Cases<CommCase>): string {
  const where = valuesOf(runs, ({ world }) => counted(world, 'rank')).join(', ');
  const exact = cases.every(({ residual }) => (residual ?? 0) === 0) ? ', residual 0 B' : '';
  const isPredicted = cases.some(({ predicted }) => predicted !== null);
  const said = isPredicted ? ` Predicted: parameters and gradients, by a dry run${exact}.` : '';
  return `Bytes per rank and step: means of the last steps, ${where}.${said}`;
}

/** Returns wordings of what a rank of a run receives, the longest first. */
export function receivedWordings(
  { total, numCollectives, perToken, predicted, residual }: CommCase,
  cases: Cases<CommCase>,
): string[] {
  const text = (bytes: Bytes): string => inUnit(bytes, byteScale(bytes));
  const calls = `${text(total)} in ${counted(Number(numCollectives.toFixed(1)), 'call')}`;
  const tokens = countsTokens(cases) && perToken !== null ? `, ${text(perToken)} per token` : '';
  const expected = predicted === null ? '' : `, predicted ${text(predicted.param + predicted.grad)}`;
  const long = `${calls}${tokens}${residual === 0 ? ', as predicted' : expected}`;
  return [long, `${calls}${tokens}`, `${text(total)}${tokens}`, text(total)];
}

/** Whether runs process different numbers of tokens per step, so that bytes per step are not comparable. */
function countsTokens(cases: readonly CommCase[]): boolean {
  const tokens = new Set(cases.map((one) => one.tokens));
  return tokens.size > 1 && !tokens.has(null);
}
