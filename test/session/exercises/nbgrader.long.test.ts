import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../../support/paths';

/** The program of nbgrader: `pip install nbgrader` puts it beside its Python. */
const NBGRADER = process.env.SHARDLAB_NBGRADER ?? 'nbgrader';
const COMMAND = join(repositoryRoot(), 'build', 'src', 'cli', 'main.js');

const CONFIG = `c = get_config()
c.ClearSolutions.code_stub = {"typescript": "// your answer"}
c.Execute.timeout = 300
`;
const SOURCES = [
  "import * as sl from 'shardlab';",
  "await sl.check('01.world', NaN) // GPUs",
  'const mean = NaN;',
  "await sl.check('00.mean', mean)",
  "await sl.check('07.twice', '')",
];

interface Submitted {
  readonly cells: { source: string | readonly string[] }[];
}

test('nbgrader hands an assignment out, and gives points for right answers only, also if a locked cell was changed', {
  timeout: 600_000,
}, (context) => {
  const { error } = spawnSync(NBGRADER, ['--version']);
  if (error !== undefined)
    return context.skip('nbgrader is not installed; SHARDLAB_NBGRADER names its program');
  const course = mkdtempSync(join(tmpdir(), 'shardlab-nbgrader-'));
  context.after(() => rmSync(course, { recursive: true, force: true }));
  // nbgrader starts alembic, which pip puts beside it.
  const PATH = [dirname(NBGRADER), process.env.PATH].join(delimiter);
  const env = { ...process.env, JUPYTER_PATH: join(course, 'share', 'jupyter'), HOME: course, PATH };
  const run = (program: string, ...args: readonly string[]): string => {
    const { status, stdout, stderr } = spawnSync(program, args, { cwd: course, env, encoding: 'utf8' });
    assert.equal(status, 0, `${args.join(' ')}\n${stdout}${stderr}`);
    return stdout + stderr;
  };
  const notebook = join(course, 'small.ipynb');
  writeFileSync(join(course, 'nbgrader_config.py'), CONFIG);
  writeFileSync(notebook, JSON.stringify(notebookOf(SOURCES)));
  run(process.execPath, COMMAND, 'install', '--prefix', course);
  run(process.execPath, COMMAND, 'assignment', 'small.ipynb', '--out', 'source/ps1');
  run(NBGRADER, 'generate_assignment', 'ps1', '--create');
  handIn(course, 'ada', {
    "const answer07Twice = ''": "const answer07Twice = 'More expensive'",
    'World = NaN': "World = '10 GPUs'",
  });
  handIn(course, 'bob', {
    "await display(await sl.check('00.mean', mean));": '1',
    'World = NaN': 'World = 9',
  });
  const log = run(NBGRADER, 'autograde', 'ps1', '--create');
  assert.ok(!log.includes('cannot be converted to'), log);
  run(NBGRADER, 'export');
  const grades = readFileSync(join(course, 'grades.csv'), 'utf8').trim().split(/\r?\n/);
  const [heading = [], ...rows] = grades.map((line) => line.split(','));
  const column = (name: string): readonly (string | undefined)[] =>
    rows.map((row) => row[heading.indexOf(name)]);
  assert.deepEqual(column('student_id'), ['ada', 'bob']);
  assert.deepEqual(column('score').map(Number), [2, 0]);
  assert.deepEqual(column('max_score').map(Number), [3, 3]);
});

function notebookOf(sources: readonly string[]): object {
  return {
    ...{ nbformat: 4, nbformat_minor: 5 },
    metadata: {
      kernelspec: { name: 'shardlab', display_name: 'TypeScript (shardlab)', language: 'typescript' },
    },
    cells: sources.map((source, i) => ({
      ...{ cell_type: 'code', id: `c${i}`, metadata: {}, execution_count: null, outputs: [] },
      source,
    })),
  };
}

/** Writes what a student hands in: the released notebook with other texts in its cells. */
function handIn(course: string, student: string, changes: Readonly<Record<string, string>>): void {
  // nbgrader wrote the file from the notebook above.
  const notebook = JSON.parse(
    readFileSync(join(course, 'release', 'ps1', 'small.ipynb'), 'utf8'),
  ) as Submitted;
  for (const cell of notebook.cells) {
    let text = [cell.source].flat().join('');
    for (const [from, to] of Object.entries(changes)) text = text.replace(from, to);
    cell.source = text;
  }
  const folder = join(course, 'submitted', student, 'ps1');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'small.ipynb'), JSON.stringify(notebook));
}
