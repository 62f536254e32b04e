import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { shardlab } from '../cli/run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-export-extras-'));
after(() => rmSync(folder, { recursive: true, force: true }));

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
