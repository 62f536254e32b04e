import assert from 'node:assert/strict';
import { test } from 'node:test';
import { registerDisplay } from '../../../src/cell/display';
import type { MimeBundle } from '../../../src/cell/mime';
import { skippedText } from '../../../src/session/run/progress';
import { shareJob } from '../../session/job-fixture';

const shared = shareJob({ ranks: 2 });

const MODEL = { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 256, seq: 8 } as const;

/** Trains in float16 with a first scale that overflows, and returns the summary's text and the last display. */
async function trained(initScale: number, numSteps: number) {
  const shown: MimeBundle[] = [];
  const unregister = registerDisplay({
    display: (bundle) => void shown.push(bundle),
    update: (_, bundle) => void shown.push(bundle),
    clear: () => {},
  });
  try {
    const run = await shared().train({
      model: MODEL,
      data: 'synthetic',
      mixedPrecision: 'fp16',
      gradScaler: { initScale },
    });
    const summary = await run.step(numSteps);
    await run.dispose();
    return { summary, text: String(summary), display: String(shown.at(-1)?.['text/plain']) };
  } finally {
    unregister();
  }
}

test('a run says how many of its updates the GradScaler skipped, and why', async () => {
  const all = await trained(2 ** 40, 4);
  const told =
    '4 of 4 updates skipped, because gradients overflowed; the GradScaler lowers its scale after each, so nothing was trained yet; ' +
    'lower gradScaler.initScale';
  assert.equal(all.summary.numSkipped, 4);
  assert.ok(all.text.endsWith(`; ${told}`), all.text);
  assert.ok(all.display.includes(told), all.display);
  const none = await trained(2 ** 8, 2);
  assert.equal(none.summary.numSkipped, 0);
  assert.doesNotMatch(none.text + none.display, /skipped/);
});

test('a sentence about skipped updates names both numbers', () => {
  assert.equal(skippedText(0, 3), null);
  assert.equal(
    skippedText(2, 3),
    '2 of 3 updates skipped, because gradients overflowed; the GradScaler lowers its scale after each',
  );
  assert.match(skippedText(1, 1) ?? '', /^1 of 1 update skipped/);
});
