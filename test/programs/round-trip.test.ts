import assert from 'node:assert/strict';
import { basename, dirname } from 'node:path';
import { test } from 'node:test';
import { modelShape } from '../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { targetNamed } from '../../src/programs/bundle/bundle';
import type { BundleModel } from '../../src/programs/export/target';
import { readConfig } from '../../src/programs/read';
import { folderOf } from './read-files';

/** Writes a bundle's text files, and returns their folder. */
function bundleOf(input: TrainConfigInput, to: string, machines = 1, gpusPerMachine = 4): string {
  const config = parseTrainConfig({ model: 'tiny', ...input });
  const shape = modelShape(config) as BundleModel; // tiny is a gpt
  const files = targetNamed(to).files({
    config,
    shape,
    machines,
    gpusPerMachine,
    firstStep: 0,
    hasWeights: false,
    lines: [],
  });
  return folderOf(Object.fromEntries(files.map(({ path, text }) => [path, text])));
}

const HALF = { paramDtype: 'bf16', reduceDtype: 'bf16' } as const;

test('an exported YAML of Accelerate is read back with the same world, machines, strategy and precision', () => {
  const strategies = ['NO_SHARD', 'ZERO_1', 'ZERO_2', 'SHARD_GRAD_OP', 'FULL_SHARD'] as const;
  for (const strategy of strategies) {
    const cwd = bundleOf(
      { parallel: { strategy }, mixedPrecision: HALF, batch: 2, accumulation: 3 },
      'accelerate',
      2,
    );
    const { world, machines, config, lines } = readConfig('accelerate_1.yaml', { cwd });
    assert.deepEqual([world, machines], [8, 2], strategy);
    const parsed = parseTrainConfig(config);
    assert.equal(parsed.parallel.strategy, strategy);
    assert.equal(parsed.mixedPrecision?.paramDtype, 'bfloat16', strategy);
    assert.deepEqual(
      lines.filter(({ effect }) => effect === 'error'),
      [],
      strategy,
    );
    if (strategy === 'ZERO_1' || strategy === 'ZERO_2')
      assert.deepEqual(
        [parsed.batch, parsed.accumulation],
        [2, 3],
        `${strategy}: rows are in ds_config.json`,
      );
  }
});

test('a file that another file names is looked for beside it too', () => {
  const folder = bundleOf({ parallel: { strategy: 'ZERO_2' }, batch: 2 }, 'accelerate');
  const { config, lines } = readConfig(`${basename(folder)}/accelerate_0.yaml`, { cwd: dirname(folder) });
  assert.equal(config.batch, 2);
  assert.ok(lines.some(({ file }) => file === `${basename(folder)}/ds_config.json`));
});

test('a hybrid strategy of Accelerate is read back with its mesh', () => {
  const mesh = { dpReplicate: 2, dpShard: 4 };
  const cwd = bundleOf({ parallel: { strategy: 'HYBRID_SHARD', mesh } }, 'accelerate', 2);
  const { parallel } = parseTrainConfig(readConfig('accelerate_0.yaml', { cwd }).config);
  assert.equal(parallel.strategy, 'HYBRID_SHARD');
  assert.deepEqual(parallel.mesh, mesh);
});

test('an exported JSON of DeepSpeed is read back with the same strategy, rows, clipping, precision, offload and optimizer', () => {
  const given = {
    parallel: { strategy: 'FULL_SHARD' },
    mixedPrecision: HALF,
    batch: 2,
    accumulation: 3,
    clipNorm: 0.5,
    offload: { parameters: true },
    optimizer: { kind: 'adam', lr: 2e-4, betas: [0.8, 0.9], weightDecay: 0.1 },
  } as const satisfies TrainConfigInput;
  const cwd = bundleOf({ ...given, optimizer: { ...given.optimizer, betas: [0.8, 0.9] } }, 'deepspeed');
  const parsed = parseTrainConfig(readConfig('ds_config.json', { cwd }).config);
  assert.equal(parsed.parallel.strategy, 'FULL_SHARD');
  assert.deepEqual([parsed.batch, parsed.accumulation, parsed.clipNorm], [2, 3, 0.5]);
  assert.equal(parsed.mixedPrecision?.paramDtype, 'bfloat16');
  assert.equal(parsed.offload.parameters, true);
  assert.deepEqual(
    [parsed.optimizer.lr, parsed.optimizer.betas, parsed.optimizer.weightDecay],
    [2e-4, [0.8, 0.9], 0.1],
  );
  assert.equal(readConfig('launch.sh', { cwd }).world, 4);
});

test('launch scripts of exported bundles are read: torchrun, Slurm, a hostfile, Megatron-LM', () => {
  const torch = readConfig('launch.sh', { cwd: bundleOf({}, 'torchrun', 2) });
  assert.deepEqual([torch.world, torch.machines], [8, 2]);
  const slurm = readConfig('job.sbatch', { cwd: bundleOf({}, 'slurm', 2) });
  assert.deepEqual([slurm.world, slurm.machines], [8, 2]);
  const hosts = readConfig('launch.sh', { cwd: bundleOf({}, 'deepspeed', 2) });
  assert.deepEqual([hosts.world, hosts.machines], [8, 2]);
  const megatron = bundleOf(
    {
      parallel: { strategy: 'ZERO_1', tp: 2 },
      mixedPrecision: HALF,
      batch: 2,
      accumulation: 2,
      steps: 7,
      seed: 3,
    },
    'megatron',
  );
  const read = readConfig('launch.sh', { cwd: megatron });
  const parsed = parseTrainConfig(read.config);
  assert.deepEqual(
    read.lines.filter(({ effect }) => effect === 'error'),
    [],
  );
  assert.equal(read.world, 4);
  assert.deepEqual([parsed.parallel.strategy, parsed.parallel.tp], ['ZERO_1', 2]);
  assert.deepEqual([parsed.batch, parsed.accumulation, parsed.steps, parsed.seed], [2, 2, 7, 3]);
  assert.equal(parsed.mixedPrecision?.paramDtype, 'bfloat16');
  const shape = modelShape(parsed);
  assert.ok(shape.kind === 'gpt' && shape.layers === 4 && shape.dim === 128 && shape.seq === 64);
});
