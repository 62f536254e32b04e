import { type Bytes, type CommCause, mean, sumOf } from '../core';
import { byWaitKind, type CommunicationRow, communication } from '../ledger';
import type { RunView } from './run-view';
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
export type CommCase = ReturnType<typeof commCaseOf>;

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
