import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { repositoryRoot } from '../support/paths';

const WHEEL_BYTES = 20e6;
const UNPACKED_BYTES = 68e6;

const ROOT = repositoryRoot();
const python = process.env.SHARDLAB_PYTHON;
const isHere = process.platform === 'linux' && process.arch === 'x64';
const skip =
  python === undefined
    ? 'there is no Python here (npm test --no-python)'
    : isHere
      ? false
      : 'the wheel is for Linux x64';

describe('the wheel, in an empty folder with an empty HOME', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-wheel-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  const home = join(folder, 'home');
  const empty = join(folder, 'empty');
  const venv = join(folder, 'venv');
  const dist = join(ROOT, 'build', 'dist');
  // The PATH has no compiler, no Node and no npm.
  const env: NodeJS.ProcessEnv = {
    PATH: join(folder, 'bin'),
    HOME: home,
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => /^(PIP_|HTTPS?_PROXY)/.test(name))),
  };
  let wheel = '';

  before(() => {
    for (const path of [home, empty, join(folder, 'bin')]) mkdirSync(path);
    wheel = buildWheel();
    execFileSync(python ?? '', ['-m', 'venv', venv]);
    run('pip', 'install', '--quiet', wheel);
  });

  function buildWheel(): string {
    execFileSync(process.execPath, [join(ROOT, 'scripts', 'wheel.mjs')], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const [name = ''] = readdirSync(dist).filter((file) => file.endsWith('.whl'));
    return join(dist, name);
  }

  function run(program: string, ...args: readonly string[]): string {
    return execFileSync(join(venv, 'bin', program), args, {
      cwd: empty,
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  }

  const sitePackages = (): string => {
    const lib = join(venv, 'lib');
    return join(lib, readdirSync(lib)[0] ?? '', 'site-packages');
  };

  test('it has at most 20 MB, and 68 MB when installed, and a second build gives the same bytes', () => {
    const bytes = readFileSync(wheel);
    assert.ok(bytes.length <= WHEEL_BYTES, `${bytes.length} bytes`);
    const sizes = recorded().map(({ path }) => statSync(join(sitePackages(), path)).size);
    const sum = sizes.reduce((total, size) => total + size, 0);
    assert.ok(sum <= UNPACKED_BYTES, `${sum} bytes`);
    assert.ok(bytes.equals(readFileSync(buildWheel())));
  });

  test('its RECORD has the hash of each file that pip has not compiled or moved', () => {
    const wrong = recorded()
      .filter(({ hash }) => hash !== '')
      .filter(({ path, hash }) => {
        const data = readFileSync(join(sitePackages(), path));
        return `sha256=${createHash('sha256').update(data).digest('base64url')}` !== hash;
      });
    assert.deepEqual(wrong, []);
  });

  test('shardlab lab --execute draws the figures of the quickstart, with the kernel in the list of Jupyter', () => {
    run('shardlab', 'lab', '--execute');
    const executed = join(empty, 'shardlab-notebooks', 'executed', '00-quickstart.ipynb');
    const { cells } = JSON.parse(readFileSync(executed, 'utf8'));
    const outputs = cells.flatMap(({ outputs = [] }: { outputs?: readonly { data?: object }[] }) => outputs);
    const figures = outputs.filter(
      ({ data }: { data?: object }) => data !== undefined && 'image/png' in data,
    );
    assert.ok(figures.length >= 3, `${figures.length} figures`);
    const { kernelspecs } = JSON.parse(run('jupyter', 'kernelspec', 'list', '--json'));
    const found = kernelspecs.shardlab;
    assert.equal(found.resource_dir, join(venv, 'share', 'jupyter', 'kernels', 'shardlab'));
    assert.deepEqual(readdirSync(found.resource_dir).sort(), [
      'kernel.json',
      'logo-32x32.png',
      'logo-64x64.png',
      'logo-svg.svg',
    ]);
  });

  test('pip uninstall leaves nothing of it in the environment', () => {
    assert.ok(existsSync(join(home, '.cache', 'shardlab')), 'compiled code is in the cache of the user');
    run('pip', 'uninstall', '--quiet', '--yes', 'shardlab');
    const left = [
      join(sitePackages(), 'shardlab'),
      join(venv, 'bin', 'shardlab'),
      join(venv, 'share', 'jupyter', 'kernels', 'shardlab'),
    ].filter((path) => existsSync(path));
    assert.deepEqual(left, []);
  });

  /** The rows of the installed RECORD. */
  function recorded(): readonly { readonly path: string; readonly hash: string }[] {
    const info = readdirSync(sitePackages()).find((name) => /^shardlab-.*\.dist-info$/.test(name)) ?? '';
    const lines = readFileSync(join(sitePackages(), info, 'RECORD'), 'utf8')
      .trim()
      .split('\n');
    // No path of ours has a comma or a quote.
    return lines.map((line) => {
      const [path = '', hash = ''] = line.trim().split(',');
      return { path, hash };
    });
  }
});
