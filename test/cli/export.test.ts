import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-export-command-'));
after(() => rmSync(folder, { recursive: true, force: true }));

test('the command writes a bundle of own data, and answers with its report', async () => {
  writeFileSync(join(folder, 'my.txt'), 'abc '.repeat(500));
  const argv = [
    'export',
    'tiny',
    '--to',
    'slurm',
    '--out',
    'bundle',
    '--machines',
    '2',
    '--gpus-per-machine',
    '2',
  ];
  const settings = ['--set', 'data=./my.txt', '--set', 'steps=2', '--json'];
  const { status, stdout } = await shardlab([...argv, ...settings], { cwd: folder });
  assert.equal(status, 0);
  const report = JSON.parse(stdout);
  assert.equal(report.world, 4);
  assert.deepEqual(
    report.files,
    readdirSync(join(folder, 'bundle'), { recursive: true })
      .map(String)
      .filter((name) => name !== 'data')
      .sort(),
  );
  assert.ok(report.files.includes('job.sbatch'));
});

test('an unknown target, a missing folder and settings that cannot be said are bad usage, and write nothing', async () => {
  for (const [argv, said] of [
    [['--to', 'ray', '--out', 'a'], /Allowed choices are torchrun, accelerate/],
    [['--to', 'torchrun'], /--out/],
    [
      ['--to', 'torchrun', '--out', 'a', '--set', 'parallel.cp=2'],
      /parallel\.cp: this target does not have it.*export to 'megatron', 'swift'/,
    ],
    [['--to', 'torchrun', '--out', 'a', '--machines', '0'], /integer of at least 1/],
  ] as const) {
    const { status, stderr } = await shardlab(['export', 'tiny', ...argv], { cwd: folder });
    assert.equal(status, 2, argv.join(' '));
    assert.match(stderr, said);
  }
  assert.equal(existsSync(join(folder, 'a')), false);
});

test('a command after -- is exported too, and several configs are not', async () => {
  const command =
    'swift sft --model meta-llama/Meta-Llama-3-8B --tuner_type full --bf16 true --torch_dtype float32';
  const { status, stderr } = await shardlab(
    ['export', '--to', 'swift', '--out', 'of-command', '--', ...command.split(' ')],
    { cwd: folder },
  );
  assert.equal(status, 0, stderr);
  assert.match(
    readFileSync(join(folder, 'of-command', 'launch.sh'), 'utf8'),
    /--model meta-llama\/Meta-Llama-3-8B /,
  );
  const two = await shardlab(['export', 'tiny', 'bench', '--to', 'torchrun', '--out', 'two'], {
    cwd: folder,
  });
  assert.equal(two.status, 2);
  assert.match(two.stderr, /export takes one config, not tiny bench/);
});
