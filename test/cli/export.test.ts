import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readConfig } from '../../src/programs/read';
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

test('settings of each program become those of each other one, with a report: TorchTitan → swift → LLaMA-Factory → TorchTitan', async () => {
  const cwd = mkdtempSync(join(folder, 'each-'));
  writeFileSync(
    join(cwd, 'titan.toml'),
    '[model]\nflavor = "8B"\n[training]\nlocal_batch_size = 2\nglobal_batch_size = 96\nsteps = 500\n[parallelism]\ndata_parallel_shard_degree = 16\n' +
      '[optimizer]\nlr = 2e-5\n[lr_scheduler]\nwarmup_steps = 10\ndecay_type = "cosine"\n[activation_checkpoint]\nmode = "full"\n',
  );
  const exported = async (to: string, ...from: readonly string[]) => {
    const { status, stdout, stderr } = await shardlab(
      ['export', '--to', to, '--out', to, '--json', '--machines', '2', ...from],
      { cwd },
    );
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout);
  };
  const swift = await exported('swift', 'titan.toml');
  assert.equal(swift.world, 16);
  assert.ok(
    swift.settings.some(
      ({ setting, effect }: { setting: string; effect: string }) =>
        setting === 'mixedPrecision.reduceDtype' && effect === 'other',
    ),
    'FSDP of the Trainer reduces in bfloat16, and the report says so',
  );
  await exported('llamafactory', 'swift/launch.sh');
  await exported('torchtitan', 'llamafactory/launch_1.sh');
  const { world, config } = readConfig('torchtitan/launch.sh', { cwd });
  assert.equal(world, 16);
  assert.equal(config.model, 'llama3-8b');
  assert.deepEqual([config.batch, config.accumulation, config.steps], [2, 3, 500]);
  assert.equal(config.parallel?.strategy, 'FULL_SHARD');
  assert.equal(config.activationCheckpointing, 'full');
  assert.equal(config.optimizer?.lr, 2e-5);
  assert.deepEqual(config.schedule, { kind: 'cosine', warmupSteps: 10, etaMin: 0 });
});

test('a command after -- is exported too, and several configs are not', async () => {
  const command =
    'swift sft --model meta-llama/Meta-Llama-3-8B --tuner_type full --bf16 true --torch_dtype float32';
  const { status, stderr } = await shardlab(
    ['export', '--to', 'torchtitan', '--out', 'of-command', '--', ...command.split(' ')],
    { cwd: folder },
  );
  assert.equal(status, 0, stderr);
  assert.match(readFileSync(join(folder, 'of-command', 'train.toml'), 'utf8'), /flavor = "8B"/);
  const two = await shardlab(['export', 'tiny', 'bench', '--to', 'torchrun', '--out', 'two'], {
    cwd: folder,
  });
  assert.equal(two.status, 2);
  assert.match(two.stderr, /export takes one config, not tiny bench/);
});
