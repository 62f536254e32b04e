import { type Bytes, type CommCause, mean, sumOf } from '../core';
import { byWaitKind, type CommunicationRow, communication } from '../ledger';
import type { Title } from './figure';
import { byteScale, counted, inUnit, percent, quoted, timeScale, timesText } from './format';
import { unescaped } from './grammar/ink';
import type { RunView } from './run-view';
import { type Cases, extremes, missedFinding, type Runs, worldsText } from './runs';
import { lastSteps } from './step-times';

/** Returns the collectives of one step by cause and operation, as means over ranks and the last steps. */
export function kindsOf(run: RunView) {
  const records = lastSteps(run).flat();
  const byKind = new Map<string, { cause: CommCause; op: string; rows: CommunicationRow[] }>();
  for (const row of communication(records)) {
    const { cause, op } = row;
    const kind = byKind.get(`${cause} ${op}`) ?? { cause, op, rows: [] };
    kind.rows.push(row);
    byKind.set(`${cause} ${op}`, kind);
  }
  return [...byKind.values()].map(({ cause, op, rows }) => {
    const mean = (of: (row: CommunicationRow) => number): number => sumOf(rows, of) / records.length;
    const count = mean((row) => row.count);
    return {
      cause,
      op,
      count,
      bytes: mean((row) => row.bytes),
      wireBytes: mean((row) => row.wireBytes),
      /** The part of `wireBytes` that comes from other nodes; undefined if the job has no nodes. */
      outsideBytes: run.ranksPerNode === undefined ? undefined : mean(({ outsideBytes = 0 }) => outsideBytes),
      exposed: mean((row) => row.exposedSeconds),
      waits: byWaitKind((kind) => mean((row) => row.waits[kind])),
      /** The seconds in which bytes were in flight: in total (`wire`), and while the main thread worked (`overlapped`). */
      wire: mean((row) => row.wireSeconds),
      overlapped: mean((row) => row.overlappedSeconds),
    };
  });
}

/** The collectives of one step with the same cause and operation. */
export type Kind = ReturnType<typeof kindsOf>[number];

/** Returns what a rank of one run receives per step, predicted and measured: means over ranks and the last steps. */
export function commCaseOf(name: string, run: RunView) {
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
    /** The part of `total` that comes from other nodes; null if the job has no nodes. */
    outside: run.ranksPerNode === undefined ? null : sumOf(kinds, ({ outsideBytes = 0 }) => outsideBytes),
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

/** What a rank of one run receives. */
type CommCase = ReturnType<typeof commCaseOf>;

/** Returns the bytes that a rank receives per step for some causes. */
export function receivedFor(kinds: readonly Kind[], ...causes: readonly CommCause[]): Bytes {
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
export function commFinding(run: RunView, kinds: readonly Kind[]): Title {
  const { part } = run;
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
  const receives = isEven(run) ? 'Each rank receives' : 'On average a rank receives';
  const received = `${inUnit(wire, byteScale(wire))}${where || ' per step'}`;
  return [
    `${receives} ${received}; ${share} of this is for ${words}`,
    `${receives} ${received}, ${share} for ${words}`,
    `A rank receives ${received}, ${share} for ${words}`,
  ];
}

/** Whether all ranks receive about equally many bytes in each of the last steps; in a pipeline they do not. */
export function isEven(run: RunView): boolean {
  return lastSteps(run).every((records) => {
    const received = records.map(({ collectives }) => sumOf(collectives, ({ wireBytes }) => wireBytes));
    return Math.min(...received) >= Math.max(...received) * 0.995;
  });
}

/** Says over how many steps the numbers are means, and how much of the transfers is hidden. */
export function commSubtitle(run: RunView, kinds: readonly Kind[]): string {
  const numSteps = counted(lastSteps(run).length, 'step');
  const where = `${run.strategy}, ${counted(run.world, 'rank')}: mean per rank and step, over ${numSteps}.`;
  const wire = sumOf(kinds, (kind) => kind.wire);
  const outside = sumOf(kinds, ({ outsideBytes = 0 }) => outsideBytes);
  const leaving =
    run.ranksPerNode === undefined ? '' : `<br>From other nodes: ${inUnit(outside, byteScale(outside))}.`;
  if (wire === 0) return `${where}${leaving}`;
  const hidden = percent(sumOf(kinds, (kind) => kind.overlapped) / wire);
  return `${where} Bytes travel for ${inUnit(wire, timeScale(wire))}, and ranks compute in ${hidden} of this time.${leaving}`;
}

/** Names the runs that receive least and most, with their ratio. If a prediction is wrong, says only by how much. */
export function comparedCommFinding(cases: Cases<CommCase>): Title {
  const missed = missedFinding(cases);
  if (missed !== undefined) return missed;
  const perToken = countsTokens(cases);
  const byNode = !perToken && cases.every(({ outside }) => outside !== null);
  const costOf = (commCase: CommCase): number =>
    (perToken ? commCase.perToken : byNode ? commCase.outside : commCase.total) ?? 0;
  const { least, most } = extremes(cases, costOf);
  const [low, high] = [costOf(least), costOf(most)];
  const exact = cases.some(({ residual }) => residual === 0) ? ', as predicted' : '';
  const unit = perToken ? 'per token' : byNode ? 'from other nodes' : 'per step';
  const [lowText, highText] = [low, high].map((cost) => inUnit(cost, byteScale(high)));
  if (high === 0) return byNode ? 'No bytes leave a node' : 'Nothing was received';
  if (high < low * 1.0005) return [`All runs receive the same: ${highText} ${unit}${exact}`];
  const [fewer, more] = [quoted(least.name), quoted(most.name)];
  if (low === 0) return [`${more} receives ${highText} ${unit}, ${fewer} receives nothing`];
  const times = `${timesText(high / low)} as much`;
  return [
    `${more} receives ${highText} ${unit}, ${times} as ${fewer} (${lowText})`,
    `${more} receives ${highText} ${unit}, ${times} as ${fewer}`,
    ...(byNode ? [`${more} receives ${times} as ${fewer} from other nodes`] : []),
    `Runs receive ${lowText} to ${highText} ${unit} (ratio ${timesText(high / low)})`,
  ];
}

/** Says what the numbers are, and whether a dry run predicted them. */
export function comparedCommSubtitle(runs: Runs, cases: Cases<CommCase>): string {
  const where = worldsText(runs);
  const exact = cases.every(({ residual }) => (residual ?? 0) === 0) ? ', residual 0 B' : '';
  const isPredicted = cases.some(({ predicted }) => predicted !== null);
  const said = isPredicted ? ` Predicted: parameters and gradients, by a dry run${exact}.` : '';
  return `Bytes per rank and step: means of the last steps, ${where}.${said}`;
}

/** Returns wordings of what a rank of a run receives, the longest first. */
export function receivedWordings(
  { total, outside, kinds, numCollectives, perToken, predicted, residual }: CommCase,
  cases: Cases<CommCase>,
): string[] {
  const text = (bytes: Bytes): string => inUnit(bytes, byteScale(bytes));
  const calls = `${text(total)} in ${counted(Number(numCollectives.toFixed(1)), 'call')}`;
  const tokens = countsTokens(cases) && perToken !== null ? `, ${text(perToken)} per token` : '';
  const expected = predicted === null ? '' : `, predicted ${text(predicted.param + predicted.grad)}`;
  const long = `${calls}${tokens}${residual === 0 ? ', as predicted' : expected}`;
  if (outside !== null) {
    const wire = sumOf(kinds, (kind) => kind.wire);
    const leaving = `${text(outside)} from other nodes`;
    const long = wire === 0 ? leaving : `${leaving}; ${inUnit(wire, timeScale(wire))} on the wire`;
    return [`${text(total)}, ${long}`, long, leaving, text(outside)];
  }
  return [long, `${calls}${tokens}`, `${text(total)}${tokens}`, text(total)];
}

/** Whether runs process different numbers of tokens per step, so that bytes per step are not comparable. */
function countsTokens(cases: readonly CommCase[]): boolean {
  const tokens = new Set(cases.map((commCase) => commCase.tokens));
  return tokens.size > 1 && !tokens.has(null);
}
