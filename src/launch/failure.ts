import { type ErrorCode, rankNames, ShardlabError } from '../core';
import type { AbortReason } from '../wire';
import type { RankError, RankOutcome } from './control/messages';
import { codeOfExit, describeExit, explainExit, type RankExit } from './rank-process';

/** Why a call failed. The first reason counts; later failures are its consequences. */
export type Failure =
  | { readonly kind: 'thrown'; readonly rank: number }
  | {
      readonly kind: 'died';
      readonly rank: number;
      readonly exit: RankExit;
      readonly waiting: string;
      readonly said: string;
      /** Whether job.heal() can start the rank again. */
      readonly canHeal: boolean;
    }
  | { readonly kind: 'missing'; readonly text: string; readonly idle: readonly number[] }
  | { readonly kind: 'interrupted'; readonly waiting: string }
  | { readonly kind: 'closed' };

/** Describes a failed call. */
export interface FailedCall {
  /** "cell 8" or "job.on().run". */
  readonly title: string;
  readonly outcomes: ReadonlyMap<number, RankOutcome>;
}

/** Codes of errors that a rank throws because another rank failed or did not call a collective, or because of an interrupt. */
const CONSEQUENCES: readonly ErrorCode[] = ['ABORTED', 'INTERRUPTED', 'RANK_DIED', 'COLLECTIVE_MISSING'];

/** What to do after a rank's process has ended, if ranks can be started again one by one, and if not. */
const REMEDIES = {
  heal: 'await job.heal() to start the rank again',
  launch: 'the job cannot continue: await job.shutdown(), then launch again',
} as const;

/** Returns the error of work for a job in which a rank's process has ended. */
export function deathError(rank: number, exit: RankExit, canHeal: boolean): ShardlabError {
  return new ShardlabError(
    codeOfExit(exit),
    `rank ${rank}'s process ended (${describeExit(exit)})${explainExit(exit)}; ${REMEDIES[canHeal ? 'heal' : 'launch']}`,
    { rank, details: { rank, exit } },
  );
}

/** Returns the one error that a failed call throws; every rank's own error is in details.errors. */
export function failureError(failure: Failure, call: FailedCall, numRanks: number): ShardlabError {
  const errors = errorsByRank(call.outcomes);
  const details = { call: call.title, errors };
  switch (failure.kind) {
    case 'thrown':
      return thrownError(failure.rank, call, numRanks, errors);
    case 'died': {
      const { rank, exit, said, canHeal } = failure;
      const waiting = failure.waiting === '' ? '' : `; ${failure.waiting}`;
      return new ShardlabError(
        codeOfExit(exit),
        `rank ${rank}'s process ended (${describeExit(exit)}) while ${call.title} ran` +
          `${explainExit(exit)}${waiting}${said}; ${REMEDIES[canHeal ? 'heal' : 'launch']}`,
        { details: { ...details, rank, exit }, rank },
      );
    }
    case 'missing':
      return new ShardlabError('COLLECTIVE_MISSING', failure.text, {
        details: { ...details, idle: failure.idle },
      });
    case 'interrupted': {
      const where = failure.waiting === '' ? '' : `; at that moment ${failure.waiting}`;
      return new ShardlabError('INTERRUPTED', `${call.title} was interrupted${where}`, { details });
    }
    case 'closed':
      return new ShardlabError('CLOSED', `the job was shut down while ${call.title} ran`, { details });
    default:
      failure satisfies never;
      throw new Error('unreachable');
  }
}

/** Returns the reason that waiting ranks get when the failure cancels their collectives. */
export function abortReason(failure: Failure): AbortReason {
  switch (failure.kind) {
    case 'thrown':
      return { code: 'ABORTED', rank: failure.rank, text: `rank ${failure.rank} failed` };
    case 'died': {
      const text = `rank ${failure.rank}'s process ended (${describeExit(failure.exit)})`;
      return { code: 'RANK_DIED', rank: failure.rank, text };
    }
    case 'missing':
      return { code: 'COLLECTIVE_MISSING', rank: failure.idle[0], text: failure.text };
    case 'interrupted':
      return { code: 'INTERRUPTED', text: 'the work was interrupted' };
    case 'closed':
      return { code: 'ABORTED', text: 'the job was shut down' };
  }
}

function thrownError(
  first: number,
  call: FailedCall,
  numRanks: number,
  errors: Record<number, RankError>,
): ShardlabError {
  const own = Object.entries(errors).filter(([, error]) => !CONSEQUENCES.includes(error.code));
  const root = errors[Number(own[0]?.[0] ?? first)];
  if (root === undefined) throw new Error(`rank ${first} failed without an error`);
  const same = own.filter(([, error]) => sameError(error, root)).map(([rank]) => Number(rank));
  const ranks = same.length > 0 ? same : [first];
  const who = ranks.length === 1 ? `[rank ${ranks[0]}/${numRanks}]` : `[${rankNames(ranks)} of ${numRanks}]`;
  const details = { ...root.details, call: call.title, ranks, line: root.line, column: root.column, errors };
  const sameLine = ranks.every((rank) => errors[rank]?.line === root.line);
  const text = saying(root);
  // If a rank reports the error of another rank, the text already begins with the name of that other rank.
  const head = /^\[rank \d+\] /.test(text) ? text : `${who} ${text}`;
  const message = `${head} (${sameLine ? place(call.title, root) : call.title})`;
  const error = new ShardlabError(root.code, message, { details, rank: ranks[0] });
  error.stack = [`${error.name}: ${error.message}`, ...withoutMessage(root)].join('\n');
  return error;
}

/** Returns an error's text without the rank, which the message already names. Adds the class's name if it is not shardlab's. */
function saying({ code, ename, evalue }: RankError): string {
  const text = withoutRank(evalue);
  return code === 'RANK_FAILED' && !ename.startsWith('ShardlabError') ? `${ename}: ${text}` : text;
}

/**
 * Returns an error's traceback. Leaves out the first entry if this entry is the error's message, because the caller
 * writes the message.
 */
function withoutMessage({ ename, traceback }: RankError): readonly string[] {
  return traceback[0]?.startsWith(`${ename}: `) === true ? traceback.slice(1) : traceback;
}

function withoutRank(text: string): string {
  return text.replace(/^\[rank \d+\/\d+\] /, '');
}

function place(title: string, error: RankError): string {
  return error.line === undefined ? title : `${title}, line ${error.line}`;
}

function errorsByRank(outcomes: ReadonlyMap<number, RankOutcome>): Record<number, RankError> {
  const errors: Record<number, RankError> = {};
  for (const [rank, outcome] of [...outcomes].sort(([a], [b]) => a - b)) {
    if (!outcome.ok) errors[rank] = outcome.error;
  }
  return errors;
}

/** Whether two errors are the same. An error that is not shardlab's must also be at the same line. */
function sameError(a: RankError, b: RankError): boolean {
  const samePlace = a.line === b.line || a.code !== 'RANK_FAILED';
  return samePlace && a.ename === b.ename && withoutRank(a.evalue) === withoutRank(b.evalue);
}
