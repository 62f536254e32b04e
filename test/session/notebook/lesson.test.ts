import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Guesses } from '../../../src/figures/guesses';
import { memoryTimeline } from '../../../src/figures/memory-timeline';
import { compareRuns } from '../../../src/figures/run-figures';
import { checkExercise } from '../../../src/session/notebook/exercises';
import { simulatedRun } from '../../figures/gallery-runs';

const run = simulatedRun({ strategy: 'FULL_SHARD', world: 4 });

test("the next figure on a guess's topic shows guess and truth, once", () => {
  const guesses = new Guesses();
  guesses.guess('00.share', 40, 'paramShare');
  guesses.guess('00.other', 3, 'numCollectives');
  const first = guesses.reveal(memoryTimeline(run));
  assert.match(first.subtitle, /<br>You guessed 40%; parameters are 8\.5\d?% of the peak\.$/);
  assert.ok(!guesses.reveal(memoryTimeline(run)).subtitle.includes('You guessed'));
  assert.equal(guesses.all().rows.length, 2);
});

test('without a guess the figure shows the truth alone', () => {
  const guesses = new Guesses();
  guesses.guess('00.share', Number.NaN, 'paramShare');
  guesses.guess('00.free');
  assert.match(
    guesses.reveal(memoryTimeline(run)).subtitle,
    /<br>Answer: parameters are 8\.5\d?% of the peak\.$/,
  );
  assert.deepEqual(
    guesses.all().rows.map(({ guess }) => guess),
    [null, null],
  );
});

test('a check says right, wrong or skipped and never throws', () => {
  assert.equal(checkExercise('00.mean', 1.5).outcome, 'right');
  assert.equal(checkExercise('00.mean', [1.5, 1.5, 1.5, 1.5]).outcome, 'right');
  assert.equal(checkExercise('00.mean', [1.5, 0]).outcome, 'wrong');
  assert.equal(checkExercise('00.mean', []).outcome, 'wrong');
  assert.equal(checkExercise('00.cause', ' Activation').outcome, 'right');
  assert.equal(checkExercise('00.cause', 3).outcome, 'wrong');
  for (const nothing of [undefined, null, Number.NaN, '', [Number.NaN, Number.NaN]]) {
    assert.equal(checkExercise('00.mean', nothing).outcome, 'skipped');
  }
  assert.equal(checkExercise('constructor', 1).outcome, 'unknown');
  const circular: unknown[] = [];
  circular.push(circular, 1n);
  assert.equal(checkExercise('00.mean', circular).outcome, 'wrong');
});

test('the error of a comparison by an unknown quantity names the possible ones', () => {
  assert.throws(() => compareRuns({ run }, 'shape' as 'memory'), {
    code: 'CONFIG',
    message: /cannot compare "shape"; choose one of 'memory', .*'timeline', .*'loss'/,
  });
});
