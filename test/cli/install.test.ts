import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-install-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const kernelJson = (data: string): string => join(data, 'kernels', 'shardlab', 'kernel.json');

test('install --prefix writes the kernelspec into that folder, and uninstall removes it', async () => {
  const place = ['--prefix', 'there'];
  const data = join(folder, 'there', 'share', 'jupyter');
  assert.equal((await shardlab(['install', ...place], { cwd: folder })).status, 0);
  const spec = JSON.parse(readFileSync(kernelJson(data), 'utf8'));
  assert.equal(spec.display_name, 'TypeScript (shardlab)');
  assert.equal(spec.language, 'typescript');
  assert.ok(
    spec.argv.slice(0, 2).every((path: string) => existsSync(path)),
    spec.argv.join(' '),
  );
  const removed = await shardlab(['uninstall', ...place, '--json'], { cwd: folder });
  assert.equal(JSON.parse(removed.stdout).removed, true);
  assert.ok(!existsSync(kernelJson(data)));
});

test("install writes into the user's Jupyter folder: the one of JUPYTER_DATA_DIR, else below HOME", async () => {
  await shardlab(['install'], { env: { JUPYTER_DATA_DIR: join(folder, 'data') } });
  assert.ok(existsSync(kernelJson(join(folder, 'data'))));
  await shardlab(['install', '--user'], { env: { HOME: join(folder, 'home') } });
  const user = process.platform === 'darwin' ? 'Library/Jupyter' : '.local/share/jupyter';
  assert.ok(existsSync(kernelJson(join(folder, 'home', user))));
});

test('uninstall says that nothing is installed, and succeeds', async () => {
  const { status, stdout } = await shardlab(['uninstall', '--prefix', join(folder, 'empty')]);
  assert.equal(status, 0);
  assert.match(stdout, /nothing was installed/);
});

test('two target folders at once are bad input', async () => {
  const { status, stderr } = await shardlab(['install', '--user', '--prefix', folder]);
  assert.equal(status, 2);
  assert.match(stderr, /exclude each other/);
});

test('the error of a folder that cannot be written names another option', async () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  for (const prefix of [file, '/proc/nope/deep']) {
    const { status, stderr } = await shardlab(['install', '--prefix', prefix]);
    assert.equal(status, 1);
    assert.match(stderr, /cannot be written[\s\S]*--prefix DIR/);
  }
});
