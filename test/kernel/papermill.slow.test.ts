import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ROOT } from '../project/sources';

/** The program of papermill: `pip install papermill` puts it beside its Python. */
const PAPERMILL = process.env.SHARDLAB_PAPERMILL ?? 'papermill';
const COMMAND = join(ROOT, 'build', 'src', 'cli', 'main.js');
const WHEEL = join(ROOT, 'scripts', 'python', 'wheel');

const SOURCES = [
  'let alpha = 0.1; // the rate\nlet name: string = "none";\nlet sizes = [1];',
  'const shown: [number, string, number] = [alpha, name, sizes.length];\nshown',
];

interface Notebook {
  readonly cells: readonly {
    readonly source: string | readonly string[];
    readonly metadata: { readonly tags?: readonly string[] };
    readonly outputs: readonly { readonly data?: { readonly 'text/plain'?: string | readonly string[] } }[];
  }[];
}

/** Runs papermill with the kernel and, if `isInstalled`, with the Python package of the wheel. */
function run(context: TestContext, isInstalled: boolean, ...args: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-papermill-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const call = (program: string, ...words: readonly string[]) =>
    spawnSync(program, words, {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, JUPYTER_PATH: join(folder, 'share', 'jupyter'), PYTHONPATH: folder },
    });
  if (isInstalled) {
    cpSync(WHEEL, join(folder, 'shardlab'), { recursive: true });
    mkdirSync(join(folder, 'shardlab-0.1.0.dist-info'));
    writeFileSync(join(folder, 'shardlab-0.1.0.dist-info', 'METADATA'), 'Name: shardlab\nVersion: 0.1.0\n');
    cpSync(join(WHEEL, 'entry_points.txt'), join(folder, 'shardlab-0.1.0.dist-info', 'entry_points.txt'));
  }
  writeFileSync(join(folder, 'in.ipynb'), JSON.stringify(notebookOf(SOURCES)));
  call(process.execPath, COMMAND, 'install', '--prefix', folder);
  const { status, stdout, stderr } = call(PAPERMILL, ...args);
  assert.equal(status, 0, stdout + stderr);
  const read = (): Notebook => JSON.parse(readFileSync(join(folder, 'out.ipynb'), 'utf8'));
  return { stdout, read };
}

const skip =
  spawnSync(PAPERMILL, ['--version']).error === undefined
    ? false
    : 'papermill is not installed; SHARDLAB_PAPERMILL names its program';

test('papermill -p adds a cell of typed variables after the cell with the tag parameters', {
  skip,
}, (context) => {
  const values = [
    '-p',
    'alpha',
    '0.6',
    '-p',
    'name',
    'say "hi" 你好',
    '-y',
    'sizes: [1, 2.5, true]\nmore: {a-b: null}',
  ];
  const { cells } = run(context, true, 'in.ipynb', 'out.ipynb', ...values).read();
  const injected = cells.find(({ metadata }) => metadata.tags?.includes('injected-parameters'));
  assert.equal(
    [injected?.source].flat().join(''),
    [
      '// Parameters',
      'let sizes = [1, 2.5, true];',
      'let more = { "a-b": null };',
      'let alpha = 0.6;',
      'let name = "say \\"hi\\" 你好";\n',
    ].join('\n'),
  );
  const [output] = cells.at(-1)?.outputs ?? [];
  assert.match([output?.data?.['text/plain']].flat().join(''), /^\[ 0\.6, 'say "hi" 你好', 3 \]$/);
});

test('papermill --help-notebook lists the parameters', { skip }, (context) => {
  const { stdout } = run(context, true, '--help-notebook', 'in.ipynb');
  assert.match(stdout, /alpha: Unknown type \(default 0\.1\)\s+the rate\s+name: string \(default "none"\)/);
});

test('without the Python package, the language .net-csharp gives the same cells for simple values', {
  skip,
}, (context) => {
  const args = ['--language', '.net-csharp', '-p', 'alpha', '0.6', '-p', 'name', 'two'];
  const { cells } = run(context, false, 'in.ipynb', 'out.ipynb', ...args).read();
  const [output] = cells.at(-1)?.outputs ?? [];
  assert.match([output?.data?.['text/plain']].flat().join(''), /^\[ 0\.6, 'two', 1 \]$/);
});

function notebookOf(sources: readonly string[]): object {
  return {
    ...{ nbformat: 4, nbformat_minor: 5 },
    metadata: {
      kernelspec: { name: 'shardlab', display_name: 'TypeScript (shardlab)', language: 'typescript' },
    },
    cells: sources.map((source, i) => ({
      ...{ cell_type: 'code', id: `c${i}`, execution_count: null, outputs: [] },
      metadata: i === 0 ? { tags: ['parameters'] } : {},
      source,
    })),
  };
}
