import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bestChange,
  explained,
  fittingLines,
  iterationWords,
  nearestFitting,
} from '../../src/planner/explain';
import { predict } from '../../src/planner/predict';
import { quietPlan as plan } from '../../src/session/plans/plan';
import { layoutOfLine } from '../support/batch-lines';

function planned(request: object) {
  const layout = layoutOfLine(request);
  return { layout, prediction: predict(layout) };
}

const FITS = planned({
  model: 'llama3-8b',
  ...{ hardware: 'H100-80G', gpus: 16, recompute: 'full' },
  batch: { global: 256, micro: 1 },
});
const TOO_LARGE = planned({
  model: 'llama3-8b',
  ...{ hardware: 'A100-80G', gpus: 8 },
  parallel: { strategy: 'NO_SHARD', stack: 'fsdp2' },
  batch: { global: 64, micro: 1 },
});

test('a plan is explained in five sentences: work, time, memory, the change that helps most, the weakest assumption', () => {
  const [work, time, memory, change, assumption, ...more] = explained(FITS);
  assert.deepEqual(more, []);
  assert.match(
    work ?? '',
    /16 x H100-80G trains on 256 sequences of 8,192 tokens, 2,097,152 in all, and takes/,
  );
  assert.match(time ?? '', /^The time goes to matmuls \(\d+%\), .* and .*\.$/);
  assert.match(memory ?? '', /^The peak in the .* takes .*: .*\(\d+%\)/);
  assert.match(
    change ?? '',
    /^The single change that helps most is (selective|no) recompute: .* USD per million tokens, 1\.\d\dx as fast\.$/,
  );
  assert.match(assumption ?? '', /^The weakest assumption for time is that /);
  assert.equal(plan({ model: 'llama3-8b', hardware: 'H100-80G', gpus: 16 }).explain().split('\n').length, 5);
});

test('the change that helps most differs in one setting, fits, and is the fastest of those', () => {
  const best = bestChange(FITS);
  assert.equal(best?.distance, 1);
  assert.equal(best?.layout.globalBatch, 256);
  assert.ok(best?.prediction.fits);
  assert.ok(best.prediction.seconds.value * 1.02 < FITS.prediction.seconds.value);
});

test('a plan that does not fit lists three nearest changes that fit, in its own framework first', () => {
  assert.equal(TOO_LARGE.prediction.fits, false);
  const changes = nearestFitting(TOO_LARGE);
  assert.equal(changes.length, 3);
  for (const { prediction, layout, distance } of changes) {
    assert.ok(prediction.fits && distance >= 1);
    assert.equal(layout.stack, 'fsdp2');
    assert.equal(layout.globalBatch, 64);
  }
  const distances = changes.map(({ distance }) => distance);
  assert.deepEqual(
    distances,
    distances.toSorted((a, b) => a - b),
  );
  const lines = fittingLines(TOO_LARGE);
  assert.equal(lines.length, 3);
  assert.match(lines[0] ?? '', /^fits with .*: .* per iteration, [\d.]+ GB, [\d.]+ USD per million tokens$/);
  assert.match(
    explained(TOO_LARGE)[3] ?? '',
    /^The plan does not fit; the nearest changes that fit are .*; .*; /,
  );
  assert.deepEqual(fittingLines(FITS), []);
});

test("a plan's header and the header of a search say the sequences and tokens of an iteration", () => {
  const words = iterationWords(FITS.layout);
  assert.equal(words, '256 sequences of 8,192 tokens, 2,097,152 in all');
  const text = plan({ model: 'llama3-8b', hardware: 'H100-80G', gpus: 16, accumulation: 16 }).toText();
  assert.ok(text.split('\n')[0]?.includes(`per iteration of ${words}`), text);
});
