import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../session/job-fixture';
import { repositoryRoot } from '../support/paths';

const PYTHON = process.env.SHARDLAB_TORCH_PYTHON ?? process.env.SHARDLAB_PYTHON ?? 'python3';
const SOURCE =
  'import os, sys; from shardlab_torch import compiler_cache as c; c.choose(sys.argv[1]); print(os.environ[c.VARIABLE])';
const skip = spawnSync(PYTHON, ['-c', '1']).status === 0 ? false : 'there is no Python here';

/** Returns the folder that a rank gives to torch's compiler. */
function chosen(job: string, variables: Readonly<Record<string, string>>): string {
  const { TORCHINDUCTOR_CACHE_DIR: _, ...env } = process.env;
  const PYTHONPATH = join(repositoryRoot(), 'src', 'python');
  const { stdout } = spawnSync(PYTHON, ['-B', '-c', SOURCE, job], {
    env: { ...env, PYTHONPATH, ...variables },
    encoding: 'utf8',
  });
  return stdout.trim();
}

test("torch's compiler stores its programs in a folder that no other user can fill", { skip }, (context) => {
  const { path } = temporaryFolder(context);
  const job = join(path, 'job');
  const own = join(path, 'cache', 'shardlab', 'inductor');
  const variables = { XDG_CACHE_HOME: join(path, 'cache') };
  assert.equal(chosen(job, variables), own);
  assert.equal(statSync(own).mode & 0o777, 0o700);
  const given = join(path, 'given');
  assert.equal(chosen(job, { ...variables, TORCHINDUCTOR_CACHE_DIR: given }), given);

  chmodSync(own, 0o777);
  assert.equal(chosen(job, variables), join(job, 'inductor'), 'others can write to it');
  const linked = join(path, 'linked', 'shardlab');
  mkdirSync(linked, { recursive: true });
  symlinkSync(given, join(linked, 'inductor'));
  assert.equal(chosen(job, { XDG_CACHE_HOME: join(path, 'linked') }), join(job, 'inductor'), 'it is a link');
  assert.equal(chosen(job, { XDG_CACHE_HOME: '/proc/none' }), join(job, 'inductor'), 'it cannot be made');
});
