import assert from 'node:assert/strict';
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { shownAsText, withShown } from '../../../src/core/display';
import { type LogRow, openJsonLines } from '../../../src/session/run/log-file';
import { RunLogs } from '../../../src/session/run/run-logs';
import { temporaryFolder } from '../job-fixture';

const RESULT = { loss: 1, gradNorm: 1, lr: 1e-3, skipped: false, tokens: 8, seconds: 1 };
const SPANS = { data: 0, forward: 0, backward: 0, loss: 0, optimizer: 0 };

/** A run's log of JSON lines, and what steps do to it. */
function logged(path: string) {
  const logs = new RunLogs((message) => assert.fail(message));
  const steps = (...numbers: number[]): void => {
    for (const step of numbers) logs.step({ step, ...RESULT, spans: SPANS }, []);
  };
  return { logs, steps, log: () => logs.add('jsonl', path) };
}

const rowsOf = (path: string): LogRow[] =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as LogRow);
const stepsOf = (path: string): number[] => rowsOf(path).map(({ step }) => step);

test('a log of JSON lines', async (context) => {
  const { path: folder } = temporaryFolder(context);

  await context.test('has each step once after a crash and a resume, also if a row is cut off', () => {
    const path = join(folder, 'crash.jsonl');
    const crashed = logged(path);
    crashed.log();
    crashed.steps(1, 2, 3, 4, 5);
    crashed.logs.close();
    appendFileSync(path, '{"kind":"step","step":6,"lo');
    const resumed = logged(path);
    resumed.logs.resume(3);
    resumed.log();
    assert.deepEqual(stepsOf(path), [1, 2, 3]);
    resumed.steps(4, 5, 6);
    assert.deepEqual(stepsOf(path), [1, 2, 3, 4, 5, 6]);
    resumed.logs.resume(0);
    assert.equal(readFileSync(path, 'utf8'), '');
    resumed.logs.close();
  });

  await context.test(
    'is only appended to by a run that began from step 1, or that took steps after its load',
    () => {
      const path = join(folder, 'again.jsonl');
      const first = logged(path);
      first.log();
      first.steps(1, 2);
      first.logs.close();
      const second = logged(path);
      second.log();
      second.steps(1, 2);
      second.logs.close();
      const third = logged(path);
      third.logs.resume(0);
      third.steps(1);
      third.log();
      third.steps(2);
      third.logs.close();
      assert.deepEqual(stepsOf(path), [1, 2, 1, 2, 2]);
    },
  );

  await context.test('has the metrics of an evaluation, if there are any', () => {
    const path = join(folder, 'metrics.jsonl');
    const { logs, log } = logged(path);
    log();
    const evaluation = { step: 3, loss: 2, perplexity: null, rows: 8, seconds: 0.5 };
    for (const metrics of [{}, { accuracy: 0.75 }]) {
      logs.evaluated(withShown({ ...evaluation, metrics }, shownAsText('')));
    }
    logs.close();
    const row = { kind: 'evaluation', step: 3, evalLoss: 2, evalSeconds: 0.5 };
    assert.deepEqual(rowsOf(path), [row, { ...row, metrics: { accuracy: 0.75 } }]);
  });

  await context.test("keeps the user's own lines", () => {
    const path = join(folder, 'own.jsonl');
    const text = 'a note\n{"step":9}\n\n7\nnull\n{"kind":"step","step":3}\n';
    appendFileSync(path, `${text}{"kind":"evaluation","step":4}\n`);
    const file = openJsonLines(path);
    file.resume(3);
    assert.equal(readFileSync(path, 'utf8'), text);
    file.resume(2);
    file.resume(1);
    assert.equal(readFileSync(path, 'utf8'), text.slice(0, text.indexOf('{"kind"')));
    file.close();
  });
});

test('a log that cannot be written is closed with one warning', {
  skip: process.platform !== 'linux' && 'only Linux has /dev/full',
}, () => {
  const warnings: string[] = [];
  const logs = new RunLogs((message) => warnings.push(message));
  logs.add('jsonl', '/dev/full');
  for (const step of [1, 2]) logs.step({ step, ...RESULT, spans: SPANS }, []);
  assert.equal(warnings.length, 1);
  assert.match(
    warnings[0] ?? '',
    /^run\.log: \/dev\/full cannot be written and gets no more rows: ENOSPC.*The training continues$/,
  );
});
