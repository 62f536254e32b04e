import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { shardlab } from './run-command';

/** A folder with these files. */
function folderOf(context: TestContext, files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-grade-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

/** Lines of a record: each entry is [exercise, value], or [exercise, undefined, kind]. */
function record(
  user: string,
  hour: number,
  ...entries: readonly (readonly [string, unknown, string?])[]
): string {
  return entries
    .map(([exercise, value, kind = 'try'], i) => {
      const time = new Date(Date.UTC(2026, 10, 30, hour, 0, i)).toISOString();
      return `${JSON.stringify({ shardlab: 1, time, user, exercise, kind, value, outcome: 'right', points: 1 })}\n`;
    })
    .join('');
}

function executed(text: string): string {
  const entries = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const data = { 'text/plain': '', 'application/vnd.shardlab.answer+json': { shardlab: 1, entries } };
  const source = ["await sl.check('01.world', 10)"];
  const cells = [
    { cell_type: 'code', source, outputs: [{ output_type: 'execute_result', data }] },
    3,
    { outputs: 'x' },
  ];
  return JSON.stringify({ nbformat: 4, cells });
}

interface Graded {
  readonly students: readonly {
    readonly student: string;
    readonly points: number;
    readonly exercises: Readonly<Record<string, { readonly points: number; readonly tries: number }>>;
  }[];
  readonly exercises: readonly string[];
  readonly notes: readonly string[];
}

async function graded(folder: string): Promise<Graded> {
  const { stdout, status } = await shardlab(['grade', folder, '--json']);
  assert.equal(status, 0, stdout);
  return JSON.parse(stdout);
}

test("all students' files are collected from nbgrader's folders, and values are judged again", async (context) => {
  const folder = folderOf(context, {
    'submitted/ada/ps1/shardlab-answers.jsonl': record(
      'ada',
      1,
      ['01.world', 9],
      ['01.world', '10 GPUs'],
      ['01.halved', 0.74],
    ),
    'submitted/bob/ps1/shardlab-answers.jsonl': record('bob', 2, ['01.world', 12]), // the file says: right, 1 point
    'submitted/carol/ps1/01-zero-memory.ipynb': executed(
      record('carol', 3, ['01.world', undefined, 'solution'], ['01.world', 10]),
    ),
    'submitted/dan/ps1/01-zero-memory.ipynb': JSON.stringify({
      nbformat: 4,
      cells: [{ source: "sl.check('01.world', NaN)" }],
    }),
    'source/ps1/shardlab-answers.jsonl': record('teacher', 4, ['01.world', 10]),
    'submitted/ada/ps1/.ipynb_checkpoints/a.jsonl': record('ada', 5, ['06.cards', 4]),
    'submitted/ada/ps1/chats.jsonl': '{"text":"a"}\n',
  });
  const { students, exercises, notes } = await graded(folder);
  assert.deepEqual(exercises, ['01.world', '01.halved']);
  assert.deepEqual(
    students.map(({ student, points }) => [student, points]),
    [
      ['ada', 2],
      ['bob', 0],
      ['carol', 0],
      ['dan', 0],
    ],
  );
  assert.equal(students[0]?.exercises['01.world']?.tries, 2);
  assert.deepEqual(notes, []);
  const { stdout } = await shardlab(['grade', folder, '--csv']);
  assert.deepEqual(stdout.trim().split(/\r?\n/), [
    'student,01.world,01.halved,guesses,points,of',
    'ada,1,1,0,2,2',
    'bob,0,,0,0,2',
    'carol,0,,0,0,2',
    'dan,,,0,0,2',
  ]);
});

test('files side by side belong to the user that recorded them, and an entry in a file and a notebook counts once', async (context) => {
  const ada = record('ada', 1, ['06.cards', 8], ['06.cards', 4], ['06.percents', 7, 'guess']);
  const folder = folderOf(context, {
    'ada.jsonl': ada,
    'ada.ipynb': executed(ada),
    'bob-shardlab-answers.jsonl': `noise\n${record('bob', 2, ['06.cards', 6])}{"shardlab":1\n`,
  });
  const { stdout, stderr, status } = await shardlab(['grade', folder]);
  assert.equal(status, 0);
  assert.match(stdout, /^2 students, 3 exercises/);
  assert.match(stdout, /\n *ada +1 +— +— +1 +1 +3\n *bob +0 +— +— +0 +0 +3/);
  assert.match(stderr, /bob-shardlab-answers\.jsonl: 2 lines are no answers, and were skipped/);
  assert.equal((await graded(folder)).students[0]?.exercises['06.cards']?.tries, 2);
});

test('a copied file and a file of two users are noted', async (context) => {
  const ada = record('ada', 1, ['06.cards', 8], ['06.cards', 4]);
  const folder = folderOf(context, {
    'ada/shardlab-answers.jsonl': ada,
    'bob/shardlab-answers.jsonl': `${ada}${record('bob', 2, ['06.samples', 61])}`,
  });
  const { notes, students } = await graded(folder);
  assert.deepEqual(notes, [
    'bob: the answers were recorded by 2 users: ada, bob',
    'ada and bob have 2 entries in common, with the same time',
  ]);
  assert.deepEqual(
    students.map(({ points }) => points),
    [1, 2],
  );
});

test('nothing found exits with 1, and bad usage with 2', async (context) => {
  const folder = folderOf(context, { 'a/b.txt': 'x', 'c.jsonl': '{"text":1}\n', 'd.ipynb': '{"cells":[]}' });
  symlinkSync(folder, join(folder, 'loop'));
  const empty = await shardlab(['grade', folder]);
  assert.equal(empty.status, 1);
  assert.match(
    empty.stderr,
    /no answers below .*: no shardlab-answers\.jsonl, and no notebook with sl\.check/,
  );
  assert.equal((await shardlab(['grade', join(folder, 'none')])).status, 1);
  for (const argv of [
    ['grade'],
    ['grade', ''],
    ['grade', folder, '--csv', '--json'],
    ['grade', folder, '--nope'],
  ])
    assert.equal((await shardlab(argv)).status, 2, argv.join(' '));
});

test('damaged files, deep nesting and unknown exercises do not end the collection', async (context) => {
  const folder = folderOf(context, {
    'ada/shardlab-answers.jsonl': record('ada', 1, ['06.cards', 4], ['__proto__', 1], ['99.none', 1]),
    'bob/a.ipynb': 'sl.check( no JSON',
    'carol/shardlab-answers.jsonl': `${'['.repeat(200_000)}\n${record('carol', 2, ['06.cards', { deep: [[[1]]] }])}`,
    'dan/shardlab-answers.jsonl': '\u0000\ufffd\n',
  });
  const { notes, students } = await graded(folder);
  assert.deepEqual(
    students.map(({ student, points }) => [student, points]),
    [
      ['ada', 1],
      ['carol', 0],
      ['dan', 0],
    ],
  );
  assert.ok(
    notes.some((note) => /bob\/a\.ipynb cannot be read/.test(note)),
    notes.join('\n'),
  );
  assert.ok(
    notes.includes('not counted, because there is no such exercise: __proto__, 99.none'),
    notes.join('\n'),
  );
});

test('shardlab assignment writes notebooks for nbgrader, and overwrites none', async (context) => {
  const cells = [
    { cell_type: 'code', id: 'a', metadata: {}, source: "await sl.check('01.world', NaN)", outputs: [] },
  ];
  const folder = folderOf(context, {
    'one.ipynb': JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells }),
  });
  const argv = ['assignment', 'one.ipynb', '--out', 'source/ps1', '--points', '3'];
  const first = await shardlab(argv, { cwd: folder });
  assert.equal(first.status, 0, first.stderr);
  assert.match(first.stdout, /source\/ps1\/one\.ipynb: 01\.world/);
  const made = JSON.parse(readFileSync(join(folder, 'source/ps1/one.ipynb'), 'utf8'));
  assert.equal(made.cells[1].metadata.nbgrader.points, 3);
  assert.match((await shardlab(argv, { cwd: folder })).stderr, /exists; name another folder with --out/);
  for (const wrong of [
    ['assignment', 'one.ipynb'],
    ['assignment', 'none.ipynb', '--out', 'b'],
    [...argv.slice(0, 4), '--points', '-1'],
  ])
    assert.equal((await shardlab(wrong, { cwd: folder })).status, 2, wrong.join(' '));
});
