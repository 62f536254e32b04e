import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { repositoryRoot } from '../support/paths';

// The build without src/extras reads and exports all other programs.

const ROOT = repositoryRoot();
const folder = mkdtempSync(join(tmpdir(), 'shardlab-without-'));
after(() => rmSync(folder, { recursive: true, force: true }));

for (const part of ['package.json', 'build/src', 'src/python']) {
  mkdirSync(join(folder, part, '..'), { recursive: true });
  cpSync(join(ROOT, part), join(folder, part), {
    recursive: true,
    filter: (path) => !path.endsWith('.map') && path !== join(ROOT, 'build', 'src', 'extras'),
  });
}
symlinkSync(join(ROOT, 'build', 'claims'), join(folder, 'build', 'claims'));
symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));

test('settings of a program are read without extras, and those of an extra are not known', () => {
  writeFileSync(join(folder, 'accelerate.yaml'), 'distributed_type: FSDP\nnum_processes: 4\n');
  const { status, stdout } = run('read', 'accelerate.yaml', '--json');
  assert.equal(status, 0);
  const { world, config } = JSON.parse(stdout);
  assert.deepEqual([world, config.parallel.strategy], [4, 'FULL_SHARD']);
  writeFileSync(
    join(folder, 'train.toml'),
    '[metrics]\nlog_freq = 1\n[activation_checkpoint]\nmode = "full"\n',
  );
  const unknown = run('read', 'train.toml');
  assert.equal(unknown.status, 2);
  assert.match(
    unknown.stderr,
    /has no settings of this library, Accelerate, DeepSpeed, [^;]*fsdp_config, and/,
  );
  assert.match(
    run('read', '--help').stdout.replaceAll(/\s+/g, ' '),
    /a file of Accelerate or DeepSpeed, a Python/,
  );
});

test('a config is exported without extras, and targets of extras are not offered', () => {
  const { status, stderr } = run('export', 'tiny', '--to', 'torchrun', '--out', 'bundle');
  assert.equal(status, 0, stderr);
  assert.match(readFileSync(join(folder, 'bundle', 'REPORT.md'), 'utf8'), /^# Exported to torchrun/);
  assert.match(
    run('export', 'tiny', '--to', 'kubernetes', '--out', 'other').stderr,
    /Allowed choices are torchrun, accelerate, deepspeed, megatron, swift, slurm\./,
  );
});

/** Runs the command of the build without extras. */
function run(...args: readonly string[]) {
  const main = join(folder, 'build', 'src', 'cli', 'main.js');
  return spawnSync(process.execPath, [main, ...args], { cwd: folder, encoding: 'utf8' });
}
