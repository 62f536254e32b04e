import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { importScript } from './scripts';

interface Places {
  isWritable(folder: string): boolean;
  stateFolder(clone: string, env: NodeJS.ProcessEnv): string;
  homeVariables(state: string, env: NodeJS.ProcessEnv): Readonly<Record<string, string>>;
}

// Not even root writes into /proc/sys: it stands for a read-only clone or HOME.
const READ_ONLY = process.platform === 'linux' ? '/proc/sys' : '/System';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-places-'));
// Folders for temporary files are made in it, and deleted with it.
const { TMPDIR } = process.env;
// Not when this file is loaded: other files of the process make their folders then.
before(() => {
  process.env.TMPDIR = folder;
});
after(() => {
  if (TMPDIR === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = TMPDIR;
  rmSync(folder, { recursive: true, force: true });
});

test('a writable clone stores its own state', async () => {
  const { stateFolder } = await importScript<Places>('places');
  assert.equal(stateFolder(folder, { HOME: folder }), folder);
});

test("a read-only clone stores its state in the user's cache", async () => {
  const { stateFolder } = await importScript<Places>('places');
  const state = stateFolder(READ_ONLY, { HOME: folder, XDG_CACHE_HOME: join(folder, 'cache') });
  assert.ok(state.startsWith(join(folder, 'cache', 'shardlab')), state);
});

test('a read-only clone with a read-only HOME stores its state in its own temporary folder', async () => {
  const { stateFolder } = await importScript<Places>('places');
  const state = stateFolder(READ_ONLY, { HOME: READ_ONLY });
  assert.ok(state.startsWith(join(tmpdir(), 'shardlab-')), state);
  assert.equal(stateFolder(READ_ONLY, { HOME: READ_ONLY }), state);
});

test('a folder that others can write to, or a link in its place, stores no state', async () => {
  const { stateFolder } = await importScript<Places>('places');
  const cache = join(folder, 'shared');
  const env = { HOME: folder, XDG_CACHE_HOME: cache };
  const state = stateFolder(READ_ONLY, env);
  assert.ok(state.startsWith(cache), state);
  chmodSync(state, 0o777);
  assert.ok(stateFolder(READ_ONLY, env).startsWith(join(tmpdir(), 'shardlab-')));
  chmodSync(state, 0o700);
  assert.equal(stateFolder(READ_ONLY, env), state);
  renameSync(state, `${state}-moved`);
  symlinkSync(`${state}-moved`, state);
  assert.notEqual(stateFolder(READ_ONLY, env), state);
  renameSync(`${state}-moved`, `${state}-gone`);
  assert.notEqual(stateFolder(READ_ONLY, env), state, 'a link to nothing');
});

test("with a read-only HOME Jupyter, npm and pip write to other folders, and the user's settings stay", async () => {
  const { homeVariables } = await importScript<Places>('places');
  const variables = homeVariables(folder, { HOME: READ_ONLY, JUPYTER_CONFIG_DIR: '/mine' });
  assert.equal(variables.JUPYTER_CONFIG_DIR, undefined);
  assert.equal(variables.JUPYTER_RUNTIME_DIR, join(folder, 'home', 'jupyter-runtime'));
  assert.equal(variables.npm_config_cache, join(folder, 'home', 'npm-cache'));
});

test("with a writable HOME the user's own folders are used", async () => {
  const { homeVariables } = await importScript<Places>('places');
  assert.deepEqual(homeVariables(folder, { HOME: folder }), {});
});
