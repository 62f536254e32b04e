import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import * as ts from 'typescript';
import { repositoryRoot } from '../support/paths';

const PACKED_BYTES = 18e6;
const TARBALL_BYTES = 6e6;
const INSTALLED_BYTES = 72e6;
const MOST_PACKAGES = 26;

const ROOT = repositoryRoot();
const python = process.env.SHARDLAB_PYTHON;
const skip = python === undefined ? 'there is no Python here (npm test --no-python)' : false;

const folder = mkdtempSync(join(tmpdir(), 'shardlab-package-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const env: NodeJS.ProcessEnv = {
  PATH: process.env.PATH,
  HOME: emptyFolder('home'),
  // The registry and the cache that `npm ci` of this clone uses.
  npm_config_userconfig: npmConfig('userconfig'),
  npm_config_cache: npmConfig('cache'),
};
const project = emptyFolder('project');

interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

test('the package holds the build, the Python package, the notebooks and the vendored packages, in at most 18 MB, and 6 MB packed', () => {
  // npm writes [{ … }] there.
  const [packed] = JSON.parse(npm(ROOT, 'pack', '--json', '--pack-destination', folder)) as [Packed];
  renameSync(join(folder, packed.filename), join(folder, 'shardlab.tgz'));
  assert.ok(packed.unpackedSize <= PACKED_BYTES, `${packed.unpackedSize} bytes`);
  assert.ok(packed.size <= TARBALL_BYTES, `${packed.size} bytes packed`);
  const stray = packed.files.filter(
    ({ path }) =>
      !/^(build\/(src|kernel|claims|node_modules|notebooks)\/|src\/python\/|README|LICENSE|package\.json)/.test(
        path,
      ) || /\.map$|snapshot\/|__pycache__|^build\/src\/python\//.test(path),
  );
  assert.deepEqual(stray, []);
  const inClone = readdirSync(join(ROOT, 'src', 'python'), { recursive: true, encoding: 'utf8' });
  const python = inClone.filter((name) => /\.(py|txt)$/.test(name)).map((name) => `src/python/${name}`);
  assert.ok(python.includes('src/python/requirements.txt'));
  const packedPaths = new Set(packed.files.map(({ path }) => path));
  assert.deepEqual(
    python.filter((path) => !packedPaths.has(path)),
    [],
  );
});

test('an installation has at most 26 packages and 72 MB, below the bound of 100 MB', () => {
  npm(project, 'install', '--prefer-offline', join(folder, 'shardlab.tgz'));
  const lock = JSON.parse(readFileSync(join(project, 'node_modules', '.package-lock.json'), 'utf8'));
  const packages = Object.keys(lock.packages);
  assert.ok(packages.length <= MOST_PACKAGES, packages.join(' '));
  const bytes = sizeOf(join(project, 'node_modules'));
  assert.ok(bytes <= INSTALLED_BYTES, `${bytes} bytes`);
});

test('the installed declarations compile without errors, also without the optional packages', () => {
  const file = join(project, 'use.mts');
  writeFileSync(
    file,
    `import * as sl from 'shardlab';
     import * as tf from 'shardlab/tf';
     export const sum: tf.Tensor = tf.ones([2]).add(1);
     export const frame = sl.createTable([{ a: 1 }]).frame();
     export const job: sl.Job = await sl.launch({ ranks: 2 });`,
  );
  const program = ts.createProgram([file], {
    module: ts.ModuleKind.Node20,
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts'],
    types: ['node'],
    typeRoots: [join(project, 'node_modules', '@types')],
    strict: true,
    noEmit: true,
  });
  const ours = program
    .getSourceFiles()
    .filter(({ fileName }) => /project\/(use|node_modules\/shardlab\/build\/src)/.test(fileName));
  assert.ok(ours.length > 10, `only ${ours.length} files of ours were read`);
  const complaints = ours.flatMap((source) => [
    ...program.getSyntacticDiagnostics(source),
    ...program.getSemanticDiagnostics(source),
  ]);
  const said = complaints.map(
    ({ file: where, messageText }) =>
      `${where?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
  );
  assert.deepEqual(said, []);
});

test('the error of a frame without danfojs-node says what to install', () => {
  const said = run(
    project,
    process.execPath,
    '-e',
    "require('shardlab').createTable([{ a: 1 }]).frame().catch(({ code, message }) => console.log(code, message))",
  );
  assert.match(said, /^IO a DataFrame needs the package danfojs-node[\s\S]*npm install danfojs-node@/);
});

test('shardlab lab copies the notebooks and runs the quickstart, also without a kernelspec', { skip }, () => {
  env.SHARDLAB_PYTHON = python;
  const said = JSON.parse(npx(project, 'lab', 'my-notebooks', '--execute', '--json'));
  assert.equal(
    said.copied.length,
    readdirSync(join(ROOT, 'notebooks')).filter((name) => /\.ipynb$/.test(name)).length,
  );
  const executed = join(project, 'my-notebooks', 'executed', '00-quickstart.ipynb');
  assert.match(readFileSync(executed, 'utf8'), /image\/png/);
  delete env.SHARDLAB_PYTHON;
});

test('the installed kernel runs the quickstart', { skip }, () => {
  npx(project, 'install', '--prefix', 'jupyter');
  runQuickstart(project);
});

test('the installation still runs the quickstart after it was moved, and doctor finds its kernelspec', {
  skip,
}, () => {
  const moved = join(folder, 'moved elsewhere');
  renameSync(project, moved);
  runQuickstart(moved);
  const doctor = JSON.parse(npx(moved, 'doctor', '--json'));
  const { status, found } = doctor.checks.find(({ name }: { name: string }) => name === 'kernelspec');
  assert.deepEqual(
    [status, found.split(', ')[0]],
    ['good', join(moved, 'jupyter', 'share', 'jupyter', 'kernels', 'shardlab')],
  );
});

function runQuickstart(place: string): void {
  env.JUPYTER_PATH = join(place, 'jupyter', 'share', 'jupyter');
  const script = join(ROOT, 'src', 'cli', 'lab', 'execute.py');
  const notebook = join(ROOT, 'notebooks', '00-quickstart.ipynb');
  const source = join(place, 'quickstart.ipynb');
  writeFileSync(source, readFileSync(notebook));
  const args = [script, '--kernel', 'shardlab', '--output', join(place, 'executed'), source];
  run(place, python ?? '', ...args);
  const executed = readFileSync(join(place, 'executed', 'quickstart.ipynb'), 'utf8');
  assert.match(executed, /image\/png/);
}

function npm(cwd: string, ...args: readonly string[]): string {
  return run(cwd, 'npm', ...args, '--no-audit', '--no-fund', '--loglevel=error');
}

function npx(cwd: string, ...args: readonly string[]): string {
  return run(cwd, 'npx', 'shardlab', ...args);
}

function run(cwd: string, program: string, ...args: readonly string[]): string {
  return execFileSync(program, args, {
    cwd,
    env,
    encoding: 'utf8',
    maxBuffer: 1e8,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

function npmConfig(name: string): string {
  return execFileSync('npm', ['config', 'get', name], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
}

function emptyFolder(name: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  return path;
}

function sizeOf(place: string): number {
  const files = readdirSync(place, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
