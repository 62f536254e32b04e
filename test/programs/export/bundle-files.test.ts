import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { targetNamed } from '../../../src/programs/bundle/bundle';
import { targetNames } from '../../../src/programs/registry/registry';
import { createBatches } from '../../../src/training/data/batches';
import { bundleOf, GPT, LLAMA } from './export-fixture';

test('a bundle has a script without an import of ours, under 150 lines, and a README of ten lines', (context) => {
  const everything: TrainConfigInput = {
    model: LLAMA,
    accumulation: 2,
    frozen: ['model.layers.0'],
    activationCheckpointing: { everyNth: 2 },
    schedule: { kind: 'wsd', warmupSteps: 1, maxSteps: 9, decayType: '1-sqrt' },
  };
  for (const to of targetNames().filter((name) => targetNamed(name).data === 'batches')) {
    const { text, report } = bundleOf(context, everything, { to });
    const script = text('train.py');
    const { length } = script.trimEnd().split('\n');
    assert.ok(length < 150, `${to}: ${length} lines`);
    assert.doesNotMatch(script, /shardlab|undefined|null|\[object/, to);
    assert.ok(text('README.md').trimEnd().split('\n').length <= 10, to);
    assert.match(text('requirements.txt'), /^torch==\d+\.\d+\.\d+\nnumpy==/);
    for (const file of report.files) assert.ok(text(file).length > 0, file);
    assert.equal(text('REPORT.md'), report.toString());
  }
  const withTp = bundleOf(
    context,
    { model: LLAMA, parallel: { tp: 2 }, accumulation: 2 },
    { to: 'torchrun' },
  );
  assert.ok(withTp.text('train.py').split('\n').length < 170);
});

test('a bundle for texts of the user has settings without holes, the model, one package, and a README of ten lines', (context) => {
  const input: TrainConfigInput = {
    model: LLAMA,
    schedule: { kind: 'wsd', warmupSteps: 1, decayType: '1-sqrt' },
    optimizer: { lr: 1e-7 },
  };
  for (const to of targetNames().filter((name) => targetNamed(name).data === 'own')) {
    const { text, report } = bundleOf(context, input, { to, machines: 2 });
    for (const file of report.files.filter((name) => !name.startsWith('model') && name !== 'REPORT.md'))
      assert.doesNotMatch(text(file), /undefined|NaN|\[object/, `${to}: ${file}`);
    assert.ok(report.files.includes('model/model.safetensors'), to);
    assert.match(text('requirements.txt'), /^[\w-]+==[\d.]+\n$/);
    assert.ok(text('README.md').trimEnd().split('\n').length <= 10, to);
    assert.equal(text('REPORT.md'), report.toString());
  }
});

test('numbers that Python must read as floats have a point in every bundle', (context) => {
  const input: TrainConfigInput = {
    model: LLAMA,
    optimizer: { lr: 1, betas: [0, 0.9], eps: 1, weightDecay: 0 },
    clipNorm: 2,
  };
  const found = (to: string, file: string): string => bundleOf(context, input, { to }).text(file);
  for (const to of ['torchrun', 'accelerate'] as const) {
    assert.match(found(to, 'train.py'), /lr=1\.0, betas=\(0\.0, 0\.9\), eps=1\.0, weight_decay=0\.0/, to);
  }
  const config = found('deepspeed', 'ds_config.json');
  assert.match(config, /"betas": \[\s*0\.0,\s*0\.9\s*\],\s*"eps": 1\.0,\s*"weight_decay": 0\.0/);
  assert.equal((JSON.parse(config) as { gradient_clipping: number }).gradient_clipping, 2);
});

test('a bundle of a small vocabulary and tokens is written', (context) => {
  const input = { model: { ...GPT, vocab: 61 }, data: 'synthetic' } as const;
  assert.match(bundleOf(context, input, { to: 'torchrun' }).text('train.py'), /VOCAB\b.*61|61\b/);
});

test('the stored tokens are those of the ranks of a run here, as a NumPy array', (context) => {
  const input = { model: GPT, batch: 2, steps: 3, accumulation: 2, data: 'synthetic' } as const;
  const { bytes } = bundleOf(context, input, { to: 'torchrun', machines: 2 });
  const file = bytes('data/tokens.npy');
  const headerBytes = 10 + file.readUInt16LE(8);
  assert.equal(headerBytes % 64, 0);
  assert.equal(file.toString('latin1', 0, 8), '\x93NUMPY\x01\x00');
  assert.match(file.toString('latin1', 8, headerBytes), /'<u2'.*\(4, 6, 2, 17\)/);
  const source = createBatches(parseTrainConfig(input), { world: 4 });
  const size = 2 * 17;
  const values = new Uint16Array(
    file.buffer.slice(file.byteOffset + headerBytes, file.byteOffset + file.length),
  );
  assert.equal(values.length, 4 * 6 * size);
  for (const [rank, index] of [
    [0, 0],
    [1, 5],
    [3, 2],
  ] as const) {
    const start = (rank * 6 + index) * size;
    assert.deepEqual([...values.subarray(start, start + size)], [...source.batch(rank, index).tokens]);
  }
});

test("Megatron-LM's data set has a document per row", (context) => {
  const { bytes } = bundleOf(
    context,
    { data: 'synthetic', parallel: { strategy: 'ZERO_1' } },
    { to: 'megatron' },
  );
  const index = bytes('data/tokens.idx');
  const rows = 2 * 3 * 2;
  assert.equal(index.toString('latin1', 0, 9), 'MMIDIDX\x00\x00');
  assert.equal(index.readBigUInt64LE(9), 1n);
  assert.equal(index[17], 8, 'uint16');
  assert.equal(index.readBigUInt64LE(18), BigInt(rows));
  assert.equal(index.readBigUInt64LE(26), BigInt(rows + 1));
  assert.equal(index.readInt32LE(34), 17);
  assert.equal(
    index.readBigInt64LE(34 + 4 * rows + 8),
    BigInt(17 * 2),
    'the second row begins after 17 tokens',
  );
  assert.equal(index.length, 34 + rows * (4 + 8) + (rows + 1) * 8);
  assert.equal(bytes('data/tokens.bin').length, rows * 17 * 2);
});

test('the wrapping follows the strategy', (context) => {
  const script = (parallel: TrainConfigInput['parallel']): string =>
    bundleOf(context, { parallel }, { to: 'torchrun' }).text('train.py');
  assert.match(script({ strategy: 'NO_SHARD' }), /DistributedDataParallel\(model\.to\(device\)/);
  assert.match(
    script({ strategy: 'ZERO_1' }),
    /ZeroRedundancyOptimizer\(model\.parameters\(\), optimizer_class=torch\.optim\.AdamW/,
  );
  assert.match(
    script({ strategy: 'SHARD_GRAD_OP' }),
    /options = dict\(mesh=init_device_mesh\(.*\), reshard_after_forward=False\)/,
  );
  const full = script({ strategy: 'FULL_SHARD', wrap: 'root' });
  assert.doesNotMatch(full, /reshard_after_forward|for unit/);
  const hybrid = script({ strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 1 } });
  assert.match(hybrid, /\(2, 1\), mesh_dim_names=\("dp_replicate", "dp_shard"\)/);
  const split = script({ tp: 2 });
  assert.match(split, /^COLUMNS, ROWS = \("blocks\.\*\.qkv", "blocks\.\*\.fc1"\), /m);
  assert.match(split, /ColwiseParallel\(\) for name in COLUMNS/);
  assert.match(split, /mesh=mesh\["dp"\]/);
  const stages = { NO_SHARD: 0, ZERO_1: 1, ZERO_2: 2, FULL_SHARD: 3 } as const;
  for (const [strategy, stage] of Object.entries(stages)) {
    const parallel = { strategy: strategy as keyof typeof stages };
    const { text } = bundleOf(context, { parallel }, { to: 'deepspeed' });
    assert.equal(JSON.parse(text('ds_config.json')).zero_optimization.stage, stage);
  }
});

test('Accelerate gets one YAML per machine, which differ in machine_rank, and scripts that check the port', (context) => {
  const { text, report } = bundleOf(
    context,
    { mixedPrecision: 'bf16' },
    { to: 'accelerate', machines: 4, gpusPerMachine: 8 },
  );
  const documents = [0, 1, 2, 3].map((machine) =>
    parse(text(`accelerate_${machine}.yaml`), { version: '1.1' }),
  );
  assert.equal(documents[0].num_processes, 32);
  assert.equal(documents[0].mixed_precision, 'bf16');
  assert.equal(documents[0].fsdp_config.fsdp_transformer_layer_cls_to_wrap, 'Block');
  for (const [machine, document] of documents.entries())
    assert.deepEqual(document, { ...documents[0], machine_rank: machine });
  assert.match(text('launch_0.sh'), /is in use on this machine/);
  assert.match(text('launch_3.sh'), /does not answer/);
  for (const file of report.files.filter((name) => name.endsWith('.sh'))) {
    execFileSync('bash', ['-n', join(report.out, file)]);
    assert.equal(statSync(join(report.out, file)).mode & 0o111, 0o111, file);
  }
  const zero = bundleOf(context, { parallel: { strategy: 'ZERO_2' } }, { to: 'accelerate' });
  assert.equal(
    parse(zero.text('accelerate_0.yaml')).deepspeed_config.deepspeed_config_file,
    'ds_config.json',
  );
  assert.match(zero.text('requirements.txt'), /deepspeed==.*\ntransformers==/);
  assert.doesNotMatch(
    zero.text('accelerate_0.yaml'),
    /mixed_precision/,
    'Accelerate refuses it beside a JSON of DeepSpeed',
  );
  // PyYAML reads an unquoted no as false.
  assert.match(
    bundleOf(context, {}, { to: 'accelerate' }).text('accelerate_0.yaml'),
    /mixed_precision: "no"/,
  );
});

test('launch files of several machines have their numbers', (context) => {
  const place = { machines: 4, gpusPerMachine: 8 };
  const launch = bundleOf(context, {}, { to: 'torchrun', ...place }).text('launch.sh');
  assert.match(launch, /torchrun --nnodes=4 --node-rank="\$1" --nproc-per-node="\$\{GPUS:-8\}"/);
  // Of torchrun's rendezvous, only the static one reads --node-rank, and needs no hostname that all machines know.
  assert.match(launch, /--master-addr="\$MAIN" --master-port="\$\{PORT:-29500\}" train\.py/);
  assert.doesNotMatch(launch, /rdzv/);
  const batch = bundleOf(context, {}, { to: 'slurm', ...place }).text('job.sbatch');
  assert.match(batch, /#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8/);
  assert.match(batch, /srun torchrun --nnodes=4 --nproc-per-node=8/);
  const hosts = bundleOf(context, {}, { to: 'deepspeed', ...place }).text('hostfile');
  assert.equal(hosts.trimEnd().split('\n').length, 4);
});

test("Megatron-LM's flags have the names of the table of settings", (context) => {
  const { text } = bundleOf(
    context,
    {
      model: LLAMA,
      batch: 4,
      accumulation: 2,
      clipNorm: 0.5,
      parallel: { strategy: 'ZERO_1', tp: 2, pp: 2, microbatches: 4 },
    },
    { to: 'megatron', machines: 2, gpusPerMachine: 4 },
  );
  const launch = text('launch.sh');
  for (const flag of [
    '--tensor-model-parallel-size 2',
    '--pipeline-model-parallel-size 2',
    '--micro-batch-size 1',
    '--global-batch-size 16',
    '--clip-grad 0.5',
    '--use-distributed-optimizer',
    '--num-query-groups 2',
    '--swiglu',
    '--vocab-size 255',
  ])
    assert.ok(launch.includes(`  ${flag} \\\n`), flag);
  assert.doesNotMatch(launch, /false|undefined|train\.py/);
  // Megatron-LM refuses --save without it.
  assert.match(launch, /--save checkpoint --save-interval 3$/m);
});
