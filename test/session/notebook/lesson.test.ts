import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as sl from '../../../src';
import { DISPLAY } from '../../../src/core/display';
import { Guesses } from '../../../src/figures/guesses';
import { memoryTimeline } from '../../../src/figures/memory-timeline';
import { compareRuns } from '../../../src/figures/run-figures';
import { simulatedRun } from '../../figures/gallery-runs';

const run = simulatedRun({ strategy: 'FULL_SHARD', world: 4 });

test("the next figure on a guess's topic shows guess, truth and distance, once", () => {
  const guesses = new Guesses();
  guesses.guess('00.share', 40, 'paramShare');
  guesses.guess('00.other', 3, 'numCollectives');
  const first = guesses.reveal(memoryTimeline(run));
  assert.match(
    first.subtitle,
    /<br>You guessed 40%; parameters are 8\.5\d?% of the peak: 31\.\d percentage points too high\.$/,
  );
  assert.ok(!guesses.reveal(memoryTimeline(run)).subtitle.includes('You guessed'));
  assert.equal(guesses.all().rows.length, 2);
  assert.match(guesses.list()[0]?.off ?? '', /^31\.\d percentage points too high$/);
});

test('without a guess a figure asks for one, once, and does not show the answer', () => {
  const guesses = new Guesses();
  guesses.guess('00.share', Number.NaN, 'paramShare');
  guesses.guess('00.free');
  const { subtitle } = guesses.reveal(memoryTimeline(run));
  assert.match(
    subtitle,
    /<br>Guess first: sl\.guess\('00\.share', …\) with a number, or sl\.solution\('00\.share'\), shows the answer\.$/,
  );
  assert.ok(!subtitle.includes('parameters are'));
  assert.ok(!guesses.reveal(memoryTimeline(run)).subtitle.includes('Guess first'));
  assert.deepEqual(
    guesses.all().rows.map(({ guess }) => guess),
    [null, null],
  );
});

test('a guess after the figure is answered at once, and a guess that is given up too', () => {
  const guesses = new Guesses();
  guesses.guess('00.share', Number.NaN, 'paramShare');
  guesses.reveal(memoryTimeline(run));
  assert.match(
    guesses.guess('00.share', 9, 'paramShare').answer ?? '',
    /of the peak: close, 0\.\d+ percentage points too high\.$/,
  );
  assert.equal(
    guesses.guess('00.share', 8, 'paramShare').answer,
    undefined,
    'a new guess waits for a figure',
  );
  guesses.guess('00.second', Number.NaN, 'paramShare');
  guesses.reveal(memoryTimeline(run));
  assert.match(guesses.giveUp('00.second') ?? '', /^Answer: parameters are 8\.5\d?% of the peak\.$/);
  assert.equal(guesses.giveUp('00.later', 'paramShare'), undefined);
  assert.match(guesses.reveal(memoryTimeline(run)).subtitle, /<br>Answer: parameters are 8\.5/);
});

test('a ratio is off by a factor, and an exact guess is right', () => {
  const quantity = (value: number, unit: string) => ({
    value,
    unit,
    says: (said: string) => `it is ${said}`,
  });
  const figure = { ...memoryTimeline(run), quantities: { mb: quantity(1.5, 'MB'), count: quantity(16, '') } };
  const answerTo = (value: number, of: string): string => {
    const guesses = new Guesses();
    guesses.guess('a', Number.NaN, of);
    guesses.reveal(figure);
    return guesses.guess('a', value, of).answer ?? '';
  };
  assert.equal(answerTo(3, 'mb'), 'You guessed 3 MB; it is 1.5 MB: too high by a factor of 2.');
  assert.equal(answerTo(1, 'mb'), 'You guessed 1 MB; it is 1.5 MB: 33.3% too low.');
  assert.equal(answerTo(16, 'count'), 'You guessed 16; it is 16: right.');
  assert.equal(answerTo(-1, 'count'), 'You guessed -1; it is 16: 17 too low.');
});

test('answers to guesses are in Chinese if the guess was', () => {
  const quantity = (value: number, unit: string) => ({
    value,
    unit,
    says: (said: string) => `it is ${said}`,
  });
  const quantities = { mb: quantity(1.5, 'MB'), share: quantity(16.25, '%') };
  const figure = { ...memoryTimeline(run), quantities };
  const guesses = new Guesses();
  guesses.guess('a', Number.NaN, 'mb', 'zh');
  assert.match(guesses.reveal(figure).subtitle, /<br>请先猜：写 sl\.guess\('a', …\)/);
  const answerTo = (value: number, of: string): string => {
    guesses.guess(of, Number.NaN, of, 'zh');
    guesses.reveal(figure);
    return guesses.guess(of, value, of, 'zh').answer ?? '';
  };
  assert.equal(answerTo(3, 'mb'), '你猜的是 3 MB，答案是 1.5 MB：太高，是答案的 2 倍。');
  assert.equal(answerTo(0.5, 'mb'), '你猜的是 0.5 MB，答案是 1.5 MB：太低，答案是它的 3 倍。');
  assert.equal(answerTo(1, 'mb'), '你猜的是 1 MB，答案是 1.5 MB：低了 33.3%。');
  assert.equal(answerTo(1.6, 'mb'), '你猜的是 1.6 MB，答案是 1.5 MB：很接近，高了 6.67%。');
  assert.equal(answerTo(140, 'share'), '你猜的是 140%，答案是 16.3%：高了 124 个百分点。');
  assert.equal(answerTo(16.25, 'share'), '你猜的是 16.3%，答案是 16.3%：正确。');
  guesses.guess('b', Number.NaN, 'share', 'zh');
  guesses.reveal(figure);
  assert.equal(guesses.giveUp('b'), '答案：16.3%。');
});

test('sl.guess takes a number with the unit of its quantity, and refuses other units', () => {
  const guess = (id: string, value: string): readonly [number, string] => {
    const made = sl.guess(id, value as unknown as number);
    return [made.value, String(made[DISPLAY]()['text/plain'])];
  };
  assert.equal(guess('01.zero1', '10.6 MB')[0], 10.6);
  assert.equal(guess('01.zero1', '1.06e7 B')[0], 10.6);
  assert.equal(guess('05.peak', '500MB')[0], 0.5);
  assert.equal(guess('00.params', '25%')[0], 25);
  assert.equal(guess('00.ratio', '4×')[0], 4);
  assert.equal(guess('02.count', '28 collectives')[0], 28);
  assert.match(guess('01.zero1', '10.6 MB')[1], /^your guess: 10\.6 MB; /);
  for (const [id, value] of [
    ['01.zero1', '12 ms'],
    ['01.zero1', '25%'],
    ['00.params', '10.6 MB'],
    ['02.count', '3 s'],
  ] as const) {
    const [number, text] = guess(id, value);
    assert.ok(Number.isNaN(number), `${id} ${value}`);
    assert.match(text, /is not in the unit of this quantity; write your guess as a number/);
  }
});

test('sl.guess asks its question without a value, and is never an error', () => {
  const texts = (value?: unknown, id = '00.params'): string =>
    String(sl.guess(id, value as number)[DISPLAY]()['text/plain']);
  assert.match(
    texts(),
    /^What percentage of rank 0's memory .* sl\.guess\('00\.params', 40, 'paramShare'\) \(in %\)/,
  );
  assert.match(texts(Number.NaN), /^no guess yet: replace NaN by a number/);
  assert.match(texts('many'), /^"many" is no number/);
  assert.match(texts(Number.NaN, 'mine'), /^no guess yet/);
});

test('the error of a comparison by an unknown quantity names the possible ones', () => {
  assert.throws(() => compareRuns({ run }, 'shape' as 'memory'), {
    code: 'CONFIG',
    message: /cannot compare "shape"; choose one of 'memory', .*'timeline', .*'loss'/,
  });
});
