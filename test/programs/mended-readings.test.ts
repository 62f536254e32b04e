import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plannedInput } from '../../src/planner/plan-input';
import { readConfig } from '../../src/programs/read';
import { effects, folderOf, readText, whyOf } from './read-files';

const MEGATRON = [
  ...['torchrun', '--nproc_per_node', '8', 'pretrain_gpt.py', '--num-layers', '24', '--hidden-size', '1024'],
  ...['--num-attention-heads', '16', '--seq-length', '1024', '--max-position-embeddings', '1024'],
  ...['--micro-batch-size', '1'],
];

function megatron(...more: readonly string[]) {
  return readConfig([...MEGATRON, ...more]);
}

test('Megatron-LM stops if stages have no equal numbers of layers; the error has the numbers of the command', () => {
  const uneven = megatron('--pipeline-model-parallel-size', '5');
  assert.equal(effects(uneven)['--num-layers'], 'error');
  assert.match(
    whyOf(uneven, '--num-layers'),
    /24 layers should be divisible by --pipeline-model-parallel-size 5/,
  );
  const allowed = megatron('--pipeline-model-parallel-size', '5', '--decoder-first-pipeline-num-layers', '4');
  assert.notEqual(effects(allowed)['--num-layers'], 'error');
  const virtual = megatron(
    '--pipeline-model-parallel-size',
    '8',
    '--num-layers-per-virtual-pipeline-stage',
    '2',
  );
  assert.match(
    whyOf(virtual, '--num-layers-per-virtual-pipeline-stage'),
    /24 layers \/ 8 ranks of the pipeline are 3 layers per rank, which are no multiple of 2 layers/,
  );
});

test("Megatron-DeepSpeed's stage and recompute are read", () => {
  const { config } = megatron('--zero-stage', '2', '--deepspeed-activation-checkpointing');
  assert.equal(config.parallel?.strategy, 'ZERO_2');
  assert.equal(config.activationCheckpointing, 'full');
});

test('a file of settings that is no path is named as it stands', () => {
  const text =
    'distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: { path: ./ds.json }\n';
  const reading = readText('a.yaml', text);
  assert.match(
    whyOf(reading, 'deepspeed_config.deepspeed_config_file'),
    /expected the path of a file, got \{"path"/,
  );
  assert.ok(reading.lines.every(({ why }) => !why.includes('[object')));
});

test('a hostfile of another machine is no error if the number of machines is given', () => {
  const launch = (...nodes: readonly string[]) =>
    readConfig(['deepspeed', '--hostfile', '/etc/none-here', ...nodes, '--num_gpus', '8', 'train.py']);
  assert.equal(effects(launch('--num_nodes', '2'))['--hostfile'], 'exported');
  assert.equal(launch('--num_nodes', '2').world, 16);
  assert.equal(effects(launch())['--hostfile'], 'error');
});

test('swift with one visible GPU and no number of processes is one process', () => {
  const line = 'swift sft --model Qwen/Qwen2.5-7B-Instruct --dataset x.jsonl\n';
  assert.equal(readText('a.sh', `CUDA_VISIBLE_DEVICES=0 ${line}`).world, 1);
  assert.equal(readText('a.sh', `CUDA_VISIBLE_DEVICES=0,1 ${line}`).world, null);
  assert.equal(readText('a.sh', `NPROC_PER_NODE=2 CUDA_VISIBLE_DEVICES=0 ${line}`).world, 2);
  assert.equal(readText('a.sh', line).world, null);
});

test('a command whose lines were joined is read, and its rows are those of the ranks that share a model', () => {
  const text =
    'NPROC_PER_NODE=8 swift sft \\ --model_type qwen-14b-chat \\ --parallel_method megatron \\ --tensor_parallel_size 4 \\ --pipeline_parallel_size 2\n';
  const { config, lines } = readText('a.sh', text);
  assert.deepEqual([config.model, config.parallel?.tp, config.parallel?.pp], ['qwen-14b', 4, 2]);
  assert.equal(config.accumulation, 16, '16 rows per step, one replica');
  assert.ok(lines.some(({ key }) => key === '\\ --model_type'));
});

test('frames, rows and columns of DiffSynth-Studio are the latent of the planned model, and recompute is on', () => {
  const cwd = folderOf({
    'a.sh': `accelerate launch --num_processes 8 examples/wanvideo/model_training/train.py --height 480 --width 832 \\
  --num_frames 49 --model_id_with_origin_paths "Wan-AI/Wan2.2-I2V-A14B:high_noise_model/*.safetensors"\n`,
  });
  const reading = readConfig('a.sh', { cwd });
  assert.deepEqual(reading.config.model, { like: 'wan2.2-i2v-a14b', latent: [13, 60, 104] });
  const { layout } = plannedInput(reading, 'A100-80G');
  assert.equal(layout.model.seq, 13 * 30 * 52);
  assert.deepEqual([layout.recompute, layout.precision, layout.gpus], ['full', 'bf16', 8]);
});

test("a program's length of sequences is the model's in runs and plans", () => {
  const reading = readText('a.sh', 'NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --max_length 2048\n');
  assert.deepEqual(reading.config.model, { like: 'qwen2.5-7b', seq: 2048 });
  assert.equal(plannedInput(reading, 'A100-80G').layout.model.seq, 2048);
});

const FSDP_SCRIPT = `import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy, MixedPrecision
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
model = Net()
for i, block in enumerate(model.blocks):
    if i % 4 == 0:
        model.blocks[i] = checkpoint_wrapper(block)
for e in model.experts:
    e = FSDP(e, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)
model = FSDP(model, sharding_strategy=ShardingStrategy.FULL_SHARD, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))
optimizer = torch.optim.AdamW(model.parameters(), lr=2.5e-5, weight_decay=0.05)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100, eta_min=1e-6)
torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
`;

test("a script's FSDP calls with other strategies are unitStrategies; its optimizer, schedule, clipping and recompute are lines", () => {
  const reading = readText('train.py', FSDP_SCRIPT);
  const { parallel, optimizer, schedule, clipNorm, activationCheckpointing } = reading.config;
  assert.equal(parallel?.strategy, 'FULL_SHARD');
  assert.deepEqual(parallel?.unitStrategies, [{ modules: 'experts.*', strategy: 'SHARD_GRAD_OP' }]);
  assert.deepEqual(optimizer, { kind: 'adamW', lr: 2.5e-5, weightDecay: 0.05 });
  assert.deepEqual(schedule, { kind: 'cosine', maxSteps: 100, etaMin: 1e-6 });
  assert.deepEqual([clipNorm, activationCheckpointing], [0.5, 'full']);
  assert.equal(effects(reading).checkpoint_wrapper, 'warning');
  assert.match(whyOf(reading, 'checkpoint_wrapper'), /everyNth: 4/);
});

test("the norm of FSDP's own method, autocast and the scaler are read; one strategy for all stays one", () => {
  const text = `import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
for layer in model.layers:
    FSDP(layer)
model = FSDP(model)
scaler = torch.amp.GradScaler('cuda')
with torch.autocast(device_type='cuda', dtype=torch.float16):
    loss = model(x)
model.clip_grad_norm_(2.0)
`;
  const { config } = readText('loop.py', text);
  assert.equal(config.parallel?.unitStrategies, undefined);
  assert.deepEqual(config.mixedPrecision, { paramDtype: 'float16', reduceDtype: 'float32' });
  assert.deepEqual([config.gradScaler, config.clipNorm], [true, 2]);
});

test('autocast and a scaler that are off set no types', () => {
  const textOf = (enabled: string, dtype: string): string => `import torch
model = torch.nn.parallel.DistributedDataParallel(model)
scaler = torch.amp.GradScaler('cuda'${enabled})
with torch.autocast('cuda'${dtype}${enabled}):
    loss = model(x)
`;
  for (const dtype of ['', ', dtype=torch.float16']) {
    const { config } = readText('loop.py', textOf(', enabled=False', dtype));
    assert.deepEqual([config.mixedPrecision ?? null, config.gradScaler], [null, false], dtype);
    const on = readText('loop.py', textOf(', enabled=True', dtype)).config;
    assert.deepEqual(on.mixedPrecision, { paramDtype: 'float16', reduceDtype: 'float32' }, dtype);
    assert.equal(on.gradScaler, true);
  }
});
