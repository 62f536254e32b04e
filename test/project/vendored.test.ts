import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { repositoryRoot } from '../support/paths';

const VENDORED = join(repositoryRoot(), 'build', 'node_modules');
const folder = mkdtempSync(join(tmpdir(), 'shardlab-vendored-'));
after(() => rmSync(folder, { recursive: true, force: true }));

// An installation of the vendored zeromq in a project, as npm makes it, without its addons.
const modules = join(folder, 'node_modules');
const zeromq = join(modules, 'shardlab', 'build', 'node_modules', 'zeromq');
cpSync(join(VENDORED, 'zeromq'), zeromq, {
  recursive: true,
  filter: (path) => !path.endsWith('.node'),
});

/** Loads the vendored zeromq on a platform that it has no addon for. */
function loaded(): string {
  const program = `Object.defineProperty(process, 'platform', { value: 'win32' });
    try { console.log(require(${JSON.stringify(join(zeromq, 'lib', 'load-addon.js'))}).default.name); }
    catch (error) { console.log(error.message); }`;
  return spawnSync(process.execPath, ['-e', program], { encoding: 'utf8' }).stdout.trim();
}

test('on a platform without an addon, the error of zeromq says what to install', () => {
  assert.match(
    loaded(),
    /ZeroMQ for Linux \(glibc\) and macOS.*This is win32-.*npm install zeromq@\d+\.\d+\.\d+\. On Windows, use WSL 2/,
  );
});

test('there, the addon of the zeromq that the user has installed is used', () => {
  const theirs = join(modules, 'zeromq', 'lib');
  mkdirSync(theirs, { recursive: true });
  writeFileSync(join(modules, 'zeromq', 'package.json'), '{ "main": "lib/index.js" }');
  writeFileSync(join(theirs, 'index.js'), '');
  writeFileSync(join(theirs, 'load-addon.js'), "exports.default = { name: 'the addon of the user' };");
  assert.equal(loaded(), 'the addon of the user');
});

test('the vendored packages are tfjs, and zeromq with an addon per platform', () => {
  assert.deepEqual(readdirSync(VENDORED).sort(), ['@tensorflow', 'zeromq']);
  assert.deepEqual(readdirSync(join(VENDORED, 'zeromq', 'addons')).sort(), [
    'darwin-arm64.node',
    'darwin-x64.node',
    'linux-arm64.node',
    'linux-x64.node',
  ]);
});
