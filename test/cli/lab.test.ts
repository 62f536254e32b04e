import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { writeKernelspec } from '../../src/cli/install/kernelspec-folder';
import { copiedText, copyNotebooks } from '../../src/cli/lab/copy-notebooks';
import { repositoryRoot } from '../support/paths';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-lab-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const ours = join(folder, 'ours');
mkdirSync(ours);
for (const name of ['00-a.ipynb', '01-b.ipynb', '02-c.ipynb'])
  writeFileSync(join(ours, name), `{"of": "${name}"}`);
writeFileSync(join(ours, 'other.txt'), '');
mkdirSync(join(ours, 'texts'));
writeFileSync(join(ours, 'texts', 'a.md'), 'a');

test('lab copies the notebooks, and never overwrites one that is there', () => {
  const theirs = join(folder, 'theirs');
  assert.deepEqual(copyNotebooks(ours, theirs), {
    copied: ['00-a.ipynb', '01-b.ipynb', '02-c.ipynb'],
    same: [],
    kept: [],
  });
  writeFileSync(join(theirs, '01-b.ipynb'), 'mine');
  writeFileSync(join(theirs, 'texts', 'a.md'), 'mine');
  rmSync(join(theirs, '02-c.ipynb'));
  const again = copyNotebooks(ours, theirs);
  assert.deepEqual(again, { copied: ['02-c.ipynb'], same: ['00-a.ipynb'], kept: ['01-b.ipynb'] });
  assert.equal(readFileSync(join(theirs, '01-b.ipynb'), 'utf8'), 'mine');
  assert.equal(readFileSync(join(theirs, 'texts', 'a.md'), 'utf8'), 'mine');
  assert.equal(
    copiedText(again, theirs),
    `notebooks in ${theirs}: 1 copied; 1 were there; ` +
      '1 were there and differ, so they stay (delete one to get it anew): 01-b.ipynb',
  );
});

test('the error of a folder that cannot be written names another one', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  assert.throws(() => copyNotebooks(ours, join(file, 'deep')), /cannot be written[\s\S]*shardlab lab FOLDER/);
});

test('without a Python with JupyterLab, lab copies nothing and says what to install', async () => {
  const fake = join(folder, 'python3');
  writeFileSync(fake, '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  const env = { PATH: '/nonexistent', HOME: folder, SHARDLAB_PYTHON: fake };
  const { status, stderr } = await shardlab(['lab', 'notebooks'], { env, cwd: folder });
  assert.equal(status, 1);
  assert.match(
    stderr,
    /python3 \(SHARDLAB_PYTHON\) does not run\.\n {2}→ \S+ -m pip install jupyterlab 'plotly>=6,<8'/,
  );
  assert.ok(!readdirSync(folder).includes('notebooks'));
});

/** A stand-in for a Python with JupyterLab, whose programs only write their arguments into a file. */
const standIn = join(folder, 'stand-in');
const argumentsFile = join(folder, 'arguments');
writeKernelspec(join(folder, 'prefix', 'share', 'jupyter'));
const packages = { jupyterlab: '4', plotly: '6', numpy: '2', nbconvert: '7' };
writeFileSync(
  standIn,
  `#!/bin/sh
if [ "$1" = -c ]; then echo '${JSON.stringify({ prefix: join(folder, 'prefix'), version: '3.11.0', packages })}'
else printf '%s\\n' "$@" > '${argumentsFile}'; fi
`,
  { mode: 0o755 },
);

/** Runs the command with the stand-in; returns also the arguments that its program got. */
async function labWithStandIn(...argv: readonly string[]) {
  rmSync(argumentsFile, { force: true });
  const env = { PATH: process.env.PATH, HOME: folder, SHARDLAB_PYTHON: standIn };
  const ran = await shardlab(['lab', ...argv], { env, cwd: folder });
  const programs = existsSync(argumentsFile) ? readFileSync(argumentsFile, 'utf8').trim().split('\n') : [];
  return { ...ran, programs };
}

test('lab FILE.ipynb opens this notebook in its folder, and copies none', async () => {
  const own = join(folder, 'own');
  mkdirSync(own);
  writeFileSync(join(own, 'my #1 %.ipynb'), '{}');
  const { status, programs, stderr } = await labWithStandIn(join('own', 'my #1 %.ipynb'));
  assert.equal(status, 0, stderr);
  assert.ok(programs.includes(`--ServerApp.root_dir=${own}`), programs.join(' '));
  assert.ok(programs.includes('--LabApp.default_url=/lab/tree/my%20%231%20%25.ipynb'), programs.join(' '));
  assert.deepEqual(
    readdirSync(own).filter((name) => name !== '.jupyter.log'),
    ['my #1 %.ipynb'],
  );
});

test('lab --execute FILE.ipynb executes this notebook, without sampling memory', async () => {
  writeFileSync(join(folder, 'mine.ipynb'), '{}');
  const { status, programs, stdout } = await labWithStandIn('mine.ipynb', '--execute', '--json');
  assert.equal(status, 0);
  assert.equal(programs.at(-1), join(folder, 'mine.ipynb'));
  assert.ok(!programs.includes('--measure'));
  assert.equal(JSON.parse(stdout).notebook, 'mine.ipynb');
});

test('a notebook that does not exist is refused, and no folder gets its name', async () => {
  for (const more of [[], ['--execute']]) {
    const { status, stderr, programs } = await labWithStandIn('absent.ipynb', ...more);
    assert.equal(status, 2);
    assert.match(stderr, /there is no notebook absent\.ipynb; name one that exists, or a folder/);
    assert.deepEqual(programs, []);
  }
  assert.ok(!existsSync(join(folder, 'absent.ipynb')));
});

test('a folder for results that cannot be one is refused before anything is copied or run', async () => {
  writeFileSync(join(folder, 'results'), '');
  for (const output of ['results', 'results/deep']) {
    const { status, stderr, programs } = await labWithStandIn('never', '--execute', '--output', output);
    assert.equal(status, 1);
    assert.match(stderr, /Results cannot be written into .*results(\/deep)? \(EEXIST.*\n +→ name a folder/);
    assert.deepEqual(programs, []);
  }
  const alone = await labWithStandIn('never', '--output', 'elsewhere');
  assert.deepEqual([alone.status, /--output belongs to --execute/.test(alone.stderr)], [2, true]);
  assert.ok(!existsSync(join(folder, 'never')) && !existsSync(join(folder, 'elsewhere')));
});

test('results never replace the notebook that is executed', async () => {
  const own = join(folder, 'kept');
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, 'mine.ipynb'), '{}');
  for (const name of ['kept/mine.ipynb', 'kept']) {
    const { status, stderr, programs } = await labWithStandIn(name, '--execute', '--output', 'kept');
    assert.equal(status, 2, name);
    assert.match(stderr, /--output kept is the folder of .*\.ipynb, which its result would overwrite/);
    assert.deepEqual(programs, []);
  }
  assert.equal(readFileSync(join(own, 'mine.ipynb'), 'utf8'), '{}');
  assert.deepEqual(readdirSync(own), ['mine.ipynb']);
});

test('the packed notebooks have code and no outputs, except those that need PyTorch', () => {
  const packed = join(repositoryRoot(), 'build', 'notebooks');
  const own = join(repositoryRoot(), 'notebooks');
  const isNotebook = (name: string): boolean => name.endsWith('.ipynb');
  const names = readdirSync(packed).filter(isNotebook);
  assert.deepEqual(names, readdirSync(own).filter(isNotebook));
  assert.deepEqual(readdirSync(join(packed, 'texts')), readdirSync(join(own, 'texts')));
  const withOutputs = names.filter((name) => {
    const { cells } = JSON.parse(readFileSync(join(packed, name), 'utf8'));
    return cells.some(({ outputs = [] }: { outputs?: readonly unknown[] }) => outputs.length > 0);
  });
  assert.deepEqual(withOutputs, ['10-accelerate-multinode.ipynb', '11-graduate.ipynb']);
  assert.ok(names.every((name) => !readFileSync(join(packed, name), 'utf8').includes('](../')));
});

test('the packages that lab advises are those that the wheel and npm start require, with the same bounds if it names any', () => {
  const required = readFileSync(join(repositoryRoot(), 'scripts', 'python', 'requirements.txt'), 'utf8');
  const source = readFileSync(join(repositoryRoot(), 'src', 'cli', 'install', 'python.ts'), 'utf8');
  const [, advised = ''] = /JUPYTER_PACKAGES = "([^"]+)"/.exec(source) ?? [];
  const lines = required.split('\n');
  const isRequired = (name: string): boolean =>
    lines.some((line) => line === name || line.startsWith(`${name}>=`));
  const names = advised.replaceAll("'", '').split(' ');
  assert.ok(names.length >= 4, advised);
  assert.deepEqual(
    names.filter((name) => !isRequired(name)),
    [],
  );
});
