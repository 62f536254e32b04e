import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RankError, RankOutcome } from '../../src/launch/control/messages';
import { type Failure, failureError } from '../../src/launch/failure';
import { lastWords } from '../../src/launch/rank-process';

const BOO: RankError = {
  code: 'RANK_FAILED',
  ename: 'TypeError',
  evalue: 'boo',
  traceback: ['TypeError: boo'],
  line: 2,
};

function failed(error: RankError): RankOutcome {
  return { ok: false, error };
}

function errorOf(failure: Failure, outcomes: readonly RankOutcome[]) {
  return failureError(failure, { title: 'cell 8', outcomes: new Map(outcomes.entries()) }, 3);
}

test("a rank's last words are without those of Node's debugger", () => {
  const debuggers = 'Debugger attached.\nWaiting for the debugger to disconnect...';
  assert.equal(lastWords({ stderrTail: debuggers }), '');
  assert.equal(lastWords({ stderrTail: `boo\n${debuggers}\n` }), '; its last words: boo');
});

test('the error names the rank that threw first, not the ranks that were cancelled because of it', () => {
  const aborted: RankError = { ...BOO, code: 'ABORTED', evalue: 'gave up' };
  const error = errorOf({ kind: 'thrown', rank: 0 }, [failed(aborted), failed(BOO), { ok: true, value: 1 }]);
  assert.equal(error.code, 'RANK_FAILED');
  assert.equal(error.message, '[rank 1/3] TypeError: boo (cell 8, line 2)');
  assert.equal(error.rank, 1);
});

test("an error of shardlab's own with the code RANK_FAILED is shown without its class name", () => {
  const own = { ...BOO, ename: 'ShardlabError[RANK_FAILED]', evalue: 'x is not defined in this rank' };
  const error = errorOf({ kind: 'thrown', rank: 0 }, [failed(own)]);
  assert.equal(error.message, '[rank 0/3] x is not defined in this rank (cell 8, line 2)');
});

test('errors that differ only in their rank are folded into one', () => {
  const mismatch = (rank: number): RankOutcome =>
    failed({
      ...BOO,
      code: 'COLLECTIVE_MISMATCH',
      ename: 'ShardlabError',
      evalue: `[rank ${rank}/3] they differ`,
    });
  const error = errorOf({ kind: 'thrown', rank: 2 }, [mismatch(0), mismatch(1), mismatch(2)]);
  assert.equal(error.code, 'COLLECTIVE_MISMATCH');
  assert.equal(error.message, '[ranks 0-2 of 3] they differ (cell 8, line 2)');
});

test('an error that all ranks report about one rank names only that rank', () => {
  const told: RankError = {
    ...BOO,
    code: 'IO',
    ename: 'ShardlabError[IO]',
    evalue: '[rank 1] cannot write x',
  };
  const error = errorOf({ kind: 'thrown', rank: 0 }, [failed(told), failed(told), failed(told)]);
  assert.equal(error.message, '[rank 1] cannot write x (cell 8, line 2)');
});

test('the error of a dead rank says how the process ended, who waited, its last words and what to do', () => {
  const exit = { code: null, signal: 'SIGABRT' };
  const failure = {
    kind: 'died',
    rank: 1,
    exit,
    waiting: 'rank 0 waits',
    said: '; its last words: abort()',
    canHeal: true,
  } as const;
  assert.equal(
    errorOf(failure, []).message,
    "rank 1's process ended (SIGABRT) while cell 8 ran; rank 0 waits; its last words: abort(); " +
      'await job.heal() to start the rank again',
  );
});
