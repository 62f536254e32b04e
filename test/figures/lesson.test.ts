import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ANSWERS } from '../../src/figures/answers';
import { compareRuns } from '../../src/figures/compare';
import { createLesson } from '../../src/figures/lesson';
import { memoryTimeline } from '../../src/figures/memory-timeline';
import { simulatedRun } from './gallery';

const run = simulatedRun({ strategy: 'FULL_SHARD', world: 4 });

test('the next figure about it tells a guess beside the truth, once', () => {
  const lesson = createLesson(ANSWERS);
  lesson.guess('00.share', 40, 'paramShare');
  lesson.guess('00.other', 3, 'numCollectives');
  const first = lesson.reveal(memoryTimeline(run));
  assert.match(first.subtitle, /<br>You guessed 40%; parameters are 8\.5\d?% of the peak\.$/);
  assert.ok(!lesson.reveal(memoryTimeline(run)).subtitle.includes('You guessed'));
  assert.equal(lesson.guesses().rows.length, 2);
});

test('no guess never blocks: the figure tells the truth alone', () => {
  const lesson = createLesson(ANSWERS);
  lesson.guess('00.share', Number.NaN, 'paramShare');
  lesson.guess('00.free');
  assert.match(
    lesson.reveal(memoryTimeline(run)).subtitle,
    /<br>Answer: parameters are 8\.5\d?% of the peak\.$/,
  );
  assert.deepEqual(
    lesson.guesses().rows.map(({ guess }) => guess),
    [null, null],
  );
});

test('a check says right, wrong or skipped and never throws', () => {
  const lesson = createLesson(ANSWERS);
  assert.equal(lesson.check('00.mean', 1.5).outcome, 'right');
  assert.equal(lesson.check('00.mean', [1.5, 1.5, 1.5, 1.5]).outcome, 'right');
  assert.equal(lesson.check('00.mean', [1.5, 0]).outcome, 'wrong');
  assert.equal(lesson.check('00.mean', []).outcome, 'wrong');
  assert.equal(lesson.check('00.cause', ' Activation').outcome, 'right');
  assert.equal(lesson.check('00.cause', 3).outcome, 'wrong');
  for (const nothing of [undefined, null, Number.NaN, '', [Number.NaN, Number.NaN]]) {
    assert.equal(lesson.check('00.mean', nothing).outcome, 'skipped');
  }
  assert.equal(lesson.check('constructor', 1).outcome, 'unknown');
  const circular: unknown[] = [];
  circular.push(circular, 1n);
  assert.equal(lesson.check('00.mean', circular).outcome, 'wrong');
});

test('what cannot be compared is refused with what can', () => {
  assert.throws(() => compareRuns({ run }, 'shape' as 'memory'), {
    code: 'CONFIG',
    message: /cannot compare 'shape'; what can be compared: 'memory', .*'timeline', .*'loss'/,
  });
});
