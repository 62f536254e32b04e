import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Language, languages } from '../../../src/core';
import { DISPLAY } from '../../../src/core/display';
import { AnswerRecord } from '../../../src/session/exercises/answer-record';
import { ANSWER_MIME, ANSWERS_FILE } from '../../../src/session/exercises/entries';
import { guessFirst } from '../../../src/session/exercises/guess-first';
import { scoreTable } from '../../../src/session/exercises/score';
import { Tutor } from '../../../src/session/exercises/tutor';

interface Room {
  readonly folder: string;
  readonly file: string;
  /** Returns the record and the tutor of a new kernel in the folder. */
  kernel(
    user?: string,
    more?: NodeJS.ProcessEnv,
    language?: Language,
  ): { record: AnswerRecord; tutor: Tutor };
}

/** A folder whose kernels share a clock that moves by a second per entry. */
function room(context: TestContext): Room {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-exercises-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  let seconds = 0;
  const now = (): Date => new Date(Date.UTC(2026, 10, 30) + 1e3 * seconds++);
  return {
    folder,
    file: join(folder, ANSWERS_FILE),
    kernel(user = 'ada', more = {}, language = 'en') {
      const record = new AnswerRecord({ folder, env: { JUPYTERHUB_USER: user, ...more }, now });
      return { record, tutor: new Tutor(record, language) };
    },
  };
}

test('a wrong answer gets its reason and a hint, after two the solution is offered, and it is then worth half a point', (context) => {
  const { tutor, record } = room(context).kernel();
  assert.deepEqual(tutor.check('01.world', 9).text.split('\n'), [
    '9 is not right. 9 is right for 24 GiB (25.8 GB). Here 24 GB are 24 · 10⁹ bytes: 14 + 98 / 9 = 24.9 GB.',
    'Hint 1 of 3: Which of the three states does ZeRO-2 shard, and which does each GPU hold whole?',
  ]);
  const second = tutor.check('01.world', '30 GPUs').text;
  assert.match(
    second,
    /^"30 GPUs" is not right\. It is more than twice too high\.\nHint 2 of 3: .*\nsl\.solution\('01\.world'\) shows/,
  );
  assert.match(
    tutor.solution('01.world').text,
    /^Solution: 2 Ψ .*\nA right answer is now worth half a point\.$/,
  );
  assert.ok(!tutor.check('01.world', 7).text.includes('sl.solution'));
  const right = tutor.check('01.world', 10);
  assert.equal(right.outcome, 'right');
  assert.match(right.text, /^right\. 2 Ψ .*\nPoints: 0\.5 of 1, after 4 tries\.$/);
  const row = scoreTable(record, 'en').rows.find(({ exercise }) => exercise === '01.world');
  assert.deepEqual(
    [row?.tries, row?.hints, row?.result, row?.points],
    [4, 3, 'right, after the solution', 0.5],
  );
});

test('a right answer at once is worth a point, also after hints; the solution before two wrong answers costs it', (context) => {
  const { tutor, record } = room(context).kernel();
  assert.match(tutor.hint('00.mean').text, /^Hint 1 of 3/);
  assert.match(tutor.check('00.mean', 6).text, /Hint 2 of 3/);
  assert.match(tutor.hint('00.mean').text, /^Hint 3 of 3/);
  assert.match(tutor.hint('00.mean').text, /^Hint 1 of 3.*\nHint 2 of 3.*\nHint 3 of 3/);
  assert.match(tutor.check('00.mean', [1.5, 1.5]).text, /Points: 1 of 1, after 2 tries\.$/);
  assert.equal(tutor.solution('00.mean').text.split('\n').length, 1, 'after the answer it costs nothing');
  assert.match(
    tutor.solution('00.cause').text,
    /before two wrong answers, so a right answer is now worth no point/,
  );
  assert.match(tutor.check('00.cause', 'activations').text, /Points: 0 of 1, after 1 try\.$/);
  assert.equal(scoreTable(record, 'en').title, '1 of 2 points');
});

test('a second run of the same cell is no further try, and neither is a missing or unclear answer', (context) => {
  const { file, kernel } = room(context);
  const { tutor } = kernel();
  for (const nothing of [Number.NaN, '', undefined])
    assert.equal(tutor.check('06.cards', nothing).outcome, 'skipped');
  assert.match(
    tutor.check('06.cards', 'many').text,
    /^"many" does not count as a try: give a number of GPUs\.$/,
  );
  assert.throws(() => readFileSync(file), { code: 'ENOENT' });
  const texts = [8, 8, 8].map((value) => tutor.check('06.cards', value).text);
  assert.equal(new Set(texts).size, 1);
  assert.equal(readFileSync(file, 'utf8').trim().split('\n').length, 1);
});

test('a check names a function that returned nothing', (context) => {
  const { tutor } = room(context).kernel();
  for (const nothing of [undefined, [undefined, undefined, [undefined]]]) {
    const { outcome, text } = tutor.check('00.mean', nothing);
    assert.equal(outcome, 'skipped');
    assert.match(text, /the function returned nothing: add return\. Give one number from every rank/);
  }
  assert.ok(!tutor.check('00.mean', [Number.NaN, Number.NaN]).text.includes('returned nothing'));
});

test('a mystery that an exercise asks for is its solution: it is recorded once, and costs what the solution costs', (context) => {
  const { record, tutor } = room(context).kernel();
  tutor.revealed(1);
  assert.equal(record.read().entries.length, 0, 'no exercise asks for this mystery');
  tutor.revealed(5);
  tutor.revealed(5);
  assert.deepEqual(
    record.read().entries.map(({ exercise, kind }) => [exercise, kind]),
    [['09.mystery', 'solution']],
  );
  assert.match(tutor.check('09.mystery', 1).text, /Points: 0 of 1, after 1 try\.$/);
});

test('what is between backticks is code on a page, and has no backticks in a plain text', (context) => {
  const { record, tutor } = room(context).kernel();
  tutor.hint('00.mean');
  const hint = tutor.hint('00.mean');
  const bundle = hint[DISPLAY]();
  assert.match(
    String(bundle['text/html']),
    /Put the number <code>rank<\/code> into a tensor: <code>const x = /,
  );
  for (const text of [hint.text, bundle['text/plain']])
    assert.match(String(text), /Put the number rank into a tensor: const x = tf\.tensor1d\(\[rank\]\);/);
  for (const table of [scoreTable(record, 'en'), scoreTable(record, 'zh')])
    assert.ok(!table.toText().includes('`'), table.toText());
});

test('the record survives the kernel, two kernels write at once, and other lines are skipped', (context) => {
  const { file, kernel } = room(context);
  const [first, second] = [kernel(), kernel()];
  first.tutor.check('06.cards', 8);
  second.tutor.check('06.cards', 6);
  assert.match(first.tutor.check('06.cards', 3).text, /Hint 3 of 3/);
  appendFileSync(file, 'noise\n{"shardlab":1}\n[]\n{"shardlab":1,"time":"cut off');
  assert.match(kernel().tutor.check('06.cards', 4).text, /Points: 1 of 1, after 4 tries\.$/);
  assert.match(
    scoreTable(kernel().record, 'en').title,
    /^1 of 3 points; 4 lines of the record cannot be read$/,
  );
  const lines = readFileSync(file, 'utf8').split('\n');
  const last = JSON.parse(lines.at(-2) ?? '');
  const { time, ...others } = last;
  assert.ok(Date.parse(time) > 0);
  assert.deepEqual(others, {
    ...{ shardlab: 1, user: 'ada', exercise: '06.cards', kind: 'try', outcome: 'right', points: 1, value: 4 },
  });
});

test('four processes that write at once lose no line and cut none', async (context) => {
  const { folder, kernel } = room(context);
  const script = `const { AnswerRecord } = require(${JSON.stringify(require.resolve('../../../src/session/exercises/answer-record'))});
    const place = { folder: ${JSON.stringify(folder)}, env: { JUPYTERHUB_USER: 'ada' }, now: () => new Date() };
    const record = new AnswerRecord(place);
    for (let i = 0; i < 100; i++) record.add({ exercise: '06.cards', kind: 'try', value: process.pid + i / 1000 });`;
  const writers = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ['-e', script], { stdio: 'inherit' }),
  );
  const exits = await Promise.all(writers.map((writer) => once(writer, 'exit')));
  assert.ok(exits.every(([status]) => status === 0));
  const { entries, numSkipped } = kernel().record.read();
  assert.deepEqual([entries.length, numSkipped], [400, 0]);
});

test('a user sees only the own answers in a file that others write too', (context) => {
  const { kernel } = room(context);
  kernel('ada').tutor.check('06.cards', 8);
  const { record, tutor } = kernel('bob');
  assert.match(tutor.check('06.cards', 6).text, /Hint 1 of 3/);
  assert.deepEqual(
    record.read().entries.map(({ user, value }) => [user, value]),
    [['bob', 6]],
  );
});

test('if the file cannot be written, one sentence says so, and tries count nevertheless', (context) => {
  const { folder, file, kernel } = room(context);
  mkdirSync(file);
  const { tutor } = kernel();
  assert.match(
    tutor.check('06.cards', 8).text,
    /\nNot recorded in a file \(.*\): save the notebook, whose output has the answer too\.$/,
  );
  const second = tutor.check('06.cards', 6).text;
  assert.ok(!second.includes('Not recorded'));
  assert.match(second, /Hint 2 of 3/);
  const bundle = tutor.check('06.cards', 4)[DISPLAY]();
  const { entries } = bundle[ANSWER_MIME] as { entries: readonly { value: unknown }[] };
  assert.deepEqual(
    entries.map(({ value }) => value),
    [8, 6, 4],
  );
  chmodSync(folder, 0o700);
});

test('a huge file, a link to a device and a file of another kind do not stop a check', (context) => {
  const { file, kernel } = room(context);
  writeFileSync(file, Buffer.alloc(2 ** 24 + 1, 'x'));
  assert.equal(kernel().tutor.check('06.cards', 4).outcome, 'right');
  writeFileSync(file, Buffer.from([0xff, 0xfe, 0, 1]));
  assert.equal(kernel().tutor.check('06.cards', 4).outcome, 'right');
});

test('in a grader, a wrong or missing answer throws, a right one does not, and nothing is recorded', (context) => {
  const { file, kernel } = room(context);
  const { tutor } = kernel('ada', { NBGRADER_EXECUTION: 'autograde' });
  for (const value of [8, Number.NaN, 'many'])
    assert.throws(() => tutor.check('06.cards', value), { code: 'CHECK', message: /^06\.cards: the answer/ });
  assert.equal(tutor.check('06.cards', '4 GPUs').outcome, 'right');
  assert.throws(() => readFileSync(file), { code: 'ENOENT' });
});

test('an exercise that does not exist is named, and no text of a user is markup', (context) => {
  const { tutor } = room(context).kernel();
  assert.ok(String(tutor.check('x'.repeat(1e6), 1)[DISPLAY]()['text/plain']).length < 1000);
  for (const value of [4n, 4n]) assert.equal(tutor.check('06.cards', value).outcome, 'right');
  for (const id of ['constructor', '99.none', '<b>']) {
    const { outcome, text } = tutor.check(id, 1);
    assert.deepEqual([outcome, text.includes('there is no exercise')], ['unknown', true]);
  }
  const html = tutor.check('06.cards', '<img src=x>')[DISPLAY]()['text/html'];
  assert.ok(!String(html).includes('<img'), String(html));
});

test('texts are Chinese in a Chinese notebook or locale, unless SHARDLAB_LANG says otherwise', (context) => {
  const { tutor } = room(context).kernel('ada', {}, 'zh');
  assert.match(tutor.check('06.cards', 8).text, /^8 不对。8 张 GPU 时.*\n提示 1\/3：/);
  assert.match(tutor.check('06.cards', 4).text, /^正确。.*\n得分 1\/1，作答 2 次。$/);
  const notebook = { JPY_SESSION_NAME: '/home/a/00-quickstart.zh.ipynb' };
  assert.equal(languages.notebookLanguage(notebook), 'zh');
  assert.equal(languages.notebookLanguage({ ...notebook, SHARDLAB_LANG: 'en' }), 'en');
  assert.equal(languages.notebookLanguage({ LANG: 'zh_CN.UTF-8' }), 'zh');
  assert.equal(
    languages.notebookLanguage({ JPY_SESSION_NAME: '/home/a/00-quickstart.ipynb', LANG: 'C' }),
    'en',
  );
});

test('a guess of an unknown quantity, or of an exercise, is not stored and says what is allowed', (context) => {
  const { record, tutor } = room(context).kernel();
  const said = (id: string, of: unknown): string =>
    String(guessFirst(id, 40, of, { record, language: 'en' })[DISPLAY]()['text/plain']);
  for (const of of ['peek', '', 3])
    assert.match(said('05.peak', of), /the guess '05\.peak' is about 'predictedGB', not /);
  for (const of of ['', undefined])
    assert.match(said('mine', of), /nothing was stored: name the quantity of a figure.*paramShare/);
  assert.match(said('mine', 'peek'), /your guess: 40.*\nno guess of the notebooks is about 'peek'/);
  assert.match(said('01.world', 'paramShare'), /'01\.world' is an exercise, not a guess: sl\.check/);
  assert.equal(record.read().entries.length, 0);
  assert.match(
    tutor.check('05.peak', 3).text,
    /this is a guess, not an exercise: sl\.guess\('05\.peak', 40\)/,
  );
});

test('the score has the newest guess of an earlier session, and says its day', (context) => {
  const { kernel } = room(context);
  const { record } = kernel();
  for (const value of [30, 40]) record.add({ exercise: '05.peak', kind: 'guess', value });
  const rows = scoreTable(kernel().record, 'en').rows.filter(({ exercise }) => exercise === '05.peak');
  assert.deepEqual(
    rows.map(({ result }) => result),
    ['guessed 40 in an earlier session, 2026-11-30'],
  );
});
