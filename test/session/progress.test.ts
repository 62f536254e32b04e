import assert from 'node:assert/strict';
import { test } from 'node:test';
import { registerDisplay } from '../../src/cell/display';
import { createProgress, createRunSummary } from '../../src/session/run/progress';
import type { StepResult } from '../../src/training';

/** Steps of 100 tokens, of which the first takes ten times as long. */
const results = [1, 0.1, 0.1, 0.11, 0.12, 0.09].map(
  (seconds, i) => ({ step: i + 1, loss: 5 - i, tokens: 100, seconds, skipped: false }) as StepResult,
);

test("a summary's tokens per second are those of its time per step", () => {
  const summary = createRunSummary(results);
  assert.equal(summary.stepSeconds.toFixed(6), '0.105000');
  assert.equal(summary.tokensPerSecond, 100 / summary.stepSeconds);
  assert.equal(String(summary), 'step 6: loss 5.0000 → 0.0000, 952 tokens/s, 105.0 ms per step');
});

test('in the line of running and of finished steps, the speed is that of the time beside it', () => {
  const texts: string[] = [];
  let line: string | undefined;
  const keep = ({ 'text/plain': text }: Readonly<Record<string, unknown>>): void =>
    void texts.push(String(text));
  const unregister = registerDisplay({
    display: (bundle) => keep(bundle),
    update: (_, bundle) => keep(bundle),
    clear: () => undefined,
  });
  try {
    for (const keepsCurve of [false, true]) {
      const progress = createProgress({
        numSteps: 6,
        name: 'FULL_SHARD',
        hasOwnLoss: false,
        keepsCurve,
        evaluations: () => [],
      });
      for (const result of results) progress.show(result);
      progress.finish();
      if (!keepsCurve) line = texts.at(-1);
    }
  } finally {
    unregister();
  }
  assert.match(texts[0] ?? '', /^step 1\/6 {2}loss 5\.0000 {2}100 tokens\/s {2}1000\.0 ms/);
  // Only a curve that is kept follows the line.
  assert.match(line ?? '', /^step 6\/6 {2}loss 0\.0000 {2}952 tokens\/s {2}105\.0 ms {2}FULL_SHARD$/);
  assert.match(
    texts.at(-1) ?? '',
    /^step 6\/6 {2}loss 0\.0000 {2}952 tokens\/s {2}105\.0 ms {2}FULL_SHARD\n/,
  );
});

test('a step that completes after its cell has ended shows no progress bar', () => {
  const bundles: Readonly<Record<string, unknown>>[] = [];
  const unregister = registerDisplay({
    display: (bundle) => void bundles.push(bundle),
    update: (_, bundle) => void bundles.push(bundle),
    clear: () => undefined,
  });
  try {
    const options = { numSteps: null, name: 'walked', hasOwnLoss: false, keepsCurve: false };
    const progress = createProgress({ ...options, evaluations: () => [] });
    const [first, second] = results;
    assert.ok(first !== undefined && second !== undefined);
    progress.show(first);
    progress.finish();
    progress.show(second);
  } finally {
    unregister();
  }
  assert.match(String(bundles[0]?.['text/html']), /<progress/);
  assert.deepEqual(Object.keys(bundles.at(-1) ?? {}), ['text/plain']);
  assert.match(String(bundles.at(-1)?.['text/plain']), /^step 2 {2}loss 4\.0000 /);
});
