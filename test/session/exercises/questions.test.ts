import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Text } from '../../../src/core';
import { EXERCISES, type Exercise, GUESSES } from '../../../src/session/exercises/exercise';
import { judge } from '../../../src/session/exercises/judge';
import { readNotebook } from '../../notebooks/executed';
import { ROOT } from '../../project/sources';
import { translationProblems } from '../../support/translation';

const exercises = Object.entries(EXERCISES);

/** All texts of an exercise. */
function textsOf({ title, expects, hints, wrong, solution }: Exercise): readonly Text[] {
  return [title, expects, solution, ...hints, ...wrong];
}

/** The right values of an exercise. */
function rightOf(exercise: Exercise): readonly unknown[] {
  if ('number' in exercise) return [exercise.number, ...(exercise.accepts ?? [])];
  if ('least' in exercise) return [exercise.least, exercise.most];
  if ('words' in exercise) return exercise.words;
  return [exercise.set, exercise.set.join(' and ')];
}

test('each exercise and guess of the notebooks has a row, and each row is one of a notebook', () => {
  const used = { check: new Set<string>(), guess: new Set<string>() };
  for (const name of readdirSync(join(ROOT, 'notebooks')).filter((file) => file.endsWith('.ipynb'))) {
    for (const { cell_type: type, source } of readNotebook(join(ROOT, 'notebooks', name)).cells) {
      const code = type === 'code' ? [source].flat().join('') : '';
      for (const [, call = '', id = ''] of code.matchAll(/\bsl\.(check|guess)\('([^']+)'/g)) {
        used[call as keyof typeof used].add(id); // the pattern has only these two
        const [, of] = code.match(/\bsl\.guess\('[^']+', NaN, '(\w+)'/) ?? [];
        if (of !== undefined) assert.equal(GUESSES[id]?.of, of, id);
      }
    }
  }
  assert.deepEqual([...used.check].sort(), Object.keys(EXERCISES).sort());
  assert.deepEqual([...used.guess].sort(), Object.keys(GUESSES).sort());
  assert.ok(used.check.size > 30);
  assert.deepEqual(
    [...used.check].filter((id) => used.guess.has(id)),
    [],
    'sl.solution takes both',
  );
});

test('each exercise has three hints, likely wrong answers with reasons, and a solution', () => {
  for (const [id, exercise] of exercises) {
    assert.equal(exercise.hints.length, 3, id);
    assert.ok(exercise.wrong.length > 0, id);
    assert.equal(new Set(exercise.hints.map(({ en }) => en)).size, 3, id);
    for (const { en } of textsOf(exercise)) assert.ok(en.length < 420, `${id}: ${en}`);
    const hasTolerance = 'least' in exercise || ('tolerance' in exercise && exercise.tolerance !== undefined);
    assert.ok(!hasTolerance || 'toleranceWhy' in exercise, `${id}: a tolerance has a reason`);
  }
});

test('the right answers are right, and each known wrong answer is wrong, and its own reason is shown', () => {
  for (const [id, exercise] of exercises) {
    for (const value of rightOf(exercise))
      assert.equal(judge(exercise, value).outcome, 'right', `${id}: ${value}`);
    for (const { value, en } of exercise.wrong) {
      const { outcome, reason } = judge(exercise, value);
      assert.deepEqual([outcome, reason?.en], ['wrong', en], `${id}: ${value}`);
    }
  }
});

test('no hint, no reason and no expectation of a number has the number itself', () => {
  for (const [id, exercise] of exercises) {
    if (!('number' in exercise) || MENTIONED.includes(id)) continue;
    for (const { en, zh } of [...exercise.hints, ...exercise.wrong, exercise.expects]) {
      for (const text of [en, zh]) {
        const numbers: readonly string[] = withoutPowers(text).match(/\d+(?:\.\d+)?/g) ?? [];
        assert.ok(!numbers.includes(`${exercise.number}`), `${id}: ${text}`);
      }
    }
  }
});

/** Exercises whose question has the number in another meaning: every 2nd layer (k = 2). */
const MENTIONED: readonly string[] = ['03.interval'];

/** Returns a text without separators of thousands and without powers of ten. */
function withoutPowers(text: string): string {
  return text.replaceAll(/(\d),(?=\d{3})/g, '$1').replaceAll(/10[⁰¹²³⁴-⁹]+/g, '');
}

test('the Chinese texts have the numbers and the code of the English ones', () => {
  for (const [id, exercise] of exercises) {
    for (const { en, zh } of textsOf(exercise))
      assert.deepEqual(translationProblems(en, zh), [], `${id}: ${en}`);
  }
  for (const { question } of Object.values(GUESSES)) {
    assert.deepEqual(translationProblems(question.en, question.zh), [], question.en);
  }
});
