import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readAll, readConfig } from '../../src/programs/read';
import { modelFile } from '../../src/programs/videos/diffsynth';
import { DOCUMENTS, effects, folderOf, readText, whyOf } from './read-files';

const LAUNCHES = readFileSync(join(DOCUMENTS, 'launches.txt'), 'utf8').trim().split('\n');

test('the launch line of the Wan2.2 document is read as it stands, as words and in its file', () => {
  const [line = ''] = LAUNCHES;
  const reading = readConfig(line.split(' '));
  assert.equal(reading.world, 8);
  assert.deepEqual(reading.config, {
    data: 'synthetic',
    model: 'wan2.2-s2v-14b',
    parallel: { strategy: 'FULL_SHARD', cp: 8, cpKind: 'ulysses' },
    textEncoder: { model: 'umt5-xxl-encoder', fsdp: true },
    batch: 32,
    accumulation: 8,
    optimizer: { lr: 2.5e-5, weightDecay: 0.01 },
    steps: 150_000,
    schedule: { warmupSteps: 10_000 },
  });
  assert.equal(
    effects(reading)['--task'],
    'warning',
    'a published model is only planned, and this one in part',
  );
  assert.match(
    whyOf(reading, '--task'),
    /the reference image, the poses, the motion frames, .* are left out/,
  );
  assert.deepEqual(readConfig('launches.txt:1', { cwd: DOCUMENTS }).config, reading.config);
});

test("swift's --parallel_method, which swift does not have, is a warning with today's arguments", () => {
  const [, megatron = '', fsdp = ''] = LAUNCHES;
  const first = readConfig(megatron);
  assert.equal(first.config.model, 'qwen-7b');
  assert.deepEqual(first.config.parallel, { strategy: 'NO_SHARD', tp: 4, pp: 2 });
  assert.equal(effects(first)['--parallel_method'], 'warning');
  assert.match(whyOf(first, '--parallel_method'), /no such argument; swift has the command megatron sft/);
  const second = readConfig(fsdp);
  assert.equal(second.config.model, 'llama3-8b');
  assert.equal(second.config.parallel?.strategy, 'FULL_SHARD');
  assert.deepEqual(second.config.mixedPrecision, { paramDtype: 'float16' });
  assert.deepEqual(effects(second)['--sharding_strategy'], 'warning');
  assert.equal(typeof second.config.lora, 'object', 'swift trains adapters unless told otherwise');
});

test('a file with several launches has a reading per launch, and asks for one of them', () => {
  assert.equal(readAll('launches.txt', { cwd: DOCUMENTS }).length, 3);
  assert.throws(
    () => readConfig('launches.txt', { cwd: DOCUMENTS }),
    /launches 3 trainings; name one of them: launches\.txt:1, launches\.txt:2/,
  );
  assert.throws(
    () => readConfig('launches.txt:9', { cwd: DOCUMENTS }),
    /no training is launched on this line.*1, 2, 3/,
  );
});

test('exports of NCCL are read, and a misspelled one is named', () => {
  const reading = readConfig('nccl.env', { cwd: DOCUMENTS });
  assert.equal(reading.lines.length, 5);
  assert.ok(reading.lines.every(({ effect }) => effect === 'exported'));
  assert.match(whyOf(reading, 'NCCL_SOCKET_IFNAME'), /interface/);
  const wrong = readText('a.env', 'export NCCL_SOCKET_IFNAM=eth0\nexport MY_OWN=1\n');
  assert.match(whyOf(wrong, 'NCCL_SOCKET_IFNAM'), /did you mean NCCL_SOCKET_IFNAME/);
  assert.equal(effects(wrong).MY_OWN, 'none');
});

test('nested model paths name the model and its text encoder; pickles have the line that converts them', () => {
  const reading = readConfig('model_paths.json', { cwd: DOCUMENTS });
  assert.equal(reading.config.model, 'wan2.2-i2v-a14b');
  assert.deepEqual(
    reading.lines.map(({ line, effect }) => [line, effect]),
    [
      [2, 'planned'],
      [10, 'used'],
      [11, 'refused'],
    ],
  );
  assert.deepEqual(reading.config.textEncoder, { model: 'umt5-xxl-encoder', fsdp: false });
  assert.match(whyOf(reading, '[1]'), /save_file.*models_t5_umt5-xxl-enc-bf16\.safetensors/);
});

test('a shard that a list of model paths lacks is named, and files that are here are said to be', () => {
  const shards = [1, 2].map(
    (k) => `Wan2.2-T2V-A14B/high_noise_model/diffusion_pytorch_model-0000${k}-of-00002.safetensors`,
  );
  const folder = folderOf(Object.fromEntries(shards.map((name) => [name, ''])));
  const said = (files: readonly string[]): string =>
    modelFile(files.map((name) => join(folder, name))).why ?? '';
  assert.match(
    said(shards.slice(0, 1)),
    /diffusion_pytorch_model-00002-of-00002\.safetensors is not in the list/,
  );
  assert.match(
    said(shards),
    /only the high-noise expert .*; the files are here: model: \{ from: '.*high_noise_model', latent \}/,
  );
  writeFileSync(join(folder, shards[1] ?? ''), 'version https://git-lfs.github.com/spec/v1\n');
  assert.match(said(shards), /00002-of-00002\.safetensors is a Git-LFS pointer/);
});

test("DiffSynth-Studio's launch: the YAML of a machine, nested paths, and identifiers beside them", () => {
  const paths = readFileSync(join(DOCUMENTS, 'model_paths.json'), 'utf8');
  const cwd = folderOf({
    'a.yaml': readFileSync(join(DOCUMENTS, 'accelerate_4x8.yaml'), 'utf8'),
    'train.sh': `#!/bin/bash
export NCCL_DEBUG=INFO
accelerate launch --config_file a.yaml examples/wanvideo/model_training/train.py \\
  --dataset_base_path data/example_video_dataset \\
  --height 480 --width 832 \\
  --model_paths '${paths}' \\
  --model_id_with_origin_paths "Wan-AI/Wan2.2-T2V-A14B:high_noise_model/*.safetensors" \\
  --learning_rate 1e-5 \\
  --trainable_models "dit" \\
  --use_gradient_checkpointing_offload
`,
  });
  const reading = readConfig('train.sh', { cwd });
  assert.equal(reading.world, 32);
  assert.deepEqual(reading.config.model, { like: 'wan2.2-i2v-a14b', latent: [21, 60, 104] });
  assert.equal(reading.config.parallel?.strategy, 'ZERO_2');
  assert.equal(reading.config.optimizer?.lr, 1e-5);
  assert.deepEqual(reading.config.offload, { optimizer: true, activations: true });
  assert.equal(effects(reading)['--model_id_with_origin_paths'], 'refused');
  const at = (key: string): unknown => reading.lines.find((line) => line.key === key)?.line;
  assert.equal(at('--dataset_base_path'), 4);
  assert.equal(at('NCCL_DEBUG'), 2);
  assert.equal(reading.lines.filter(({ file }) => file === 'a.yaml').length, 30);
});

test('arguments of accelerate launch replace the values of its file', () => {
  const cwd = folderOf({
    'a.yaml':
      'distributed_type: FSDP\nnum_processes: 8\nmixed_precision: fp16\nfsdp_config:\n  fsdp_version: 2\n',
  });
  const reading = readConfig(
    'accelerate launch --num_processes 4 --config_file a.yaml --mixed_precision=bf16 train.py',
    { cwd },
  );
  assert.equal(reading.world, 4);
  assert.deepEqual(reading.config.mixedPrecision, { paramDtype: 'bfloat16', reduceDtype: 'bfloat16' });
  assert.match(whyOf(reading, 'mixed_precision'), /is replaced by --mixed_precision/);
});

test('torchrun: nodes, processes, short options, placeholders, and an unknown option', () => {
  const reading = readConfig([
    'torchrun',
    '--nnodes=4',
    '--nproc-per-node',
    '8',
    '--node_rank',
    '$RANK',
    '--master_addr',
    '<ip>',
    '-m',
    'train',
    '--bf16',
  ]);
  assert.equal(reading.world, 32);
  assert.equal(reading.machines, 4);
  assert.equal(effects(reading)['--node_rank'], 'warning');
  assert.match(whyOf(reading, '--node_rank'), /variable/);
  assert.match(whyOf(reading, '--master_addr'), /placeholder address/);
  const wrong = readConfig('torchrun --nproc_per_noed=8 train.py');
  assert.match(whyOf(wrong, '--nproc_per_noed'), /did you mean "nproc_per_node"/);
});

test("transformers' arguments have transformers' defaults, and --deepspeed FILE is read", () => {
  const cwd = folderOf({
    'ds.json':
      '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto"}',
  });
  const reading = readConfig(
    'deepspeed --num_gpus 4 run_clm.py --model_name_or_path meta-llama/Meta-Llama-3-8B --deepspeed ds.json --bf16 --per_device_train_batch_size 2 --lr_scheduler_type cosine --warmup_ratio 0.1 --max_steps 200 --adam_beta2 0.95 --gradient_checkpointing true --output_dir out',
    { cwd },
  );
  assert.equal(reading.world, 4);
  assert.deepEqual(reading.config, {
    batch: 2,
    optimizer: { lr: 5e-5, weightDecay: 0, betas: [0.9, 0.95] },
    schedule: { kind: 'cosine', warmupSteps: 20 },
    seed: 42,
    parallel: { strategy: 'FULL_SHARD' },
    model: 'llama3-8b',
    mixedPrecision: { paramDtype: 'bfloat16' },
    steps: 200,
    activationCheckpointing: 'full',
  });
  assert.equal(effects(reading)['--output_dir'], 'none');
});

test("the file of transformers' --fsdp_config has keys with and without their beginning", () => {
  const cwd = folderOf({
    'fsdp.json':
      '{"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"], "backward_prefetch": "backward_post", "fsdp_forward_prefetch": false}',
  });
  const reading = readConfig(
    'torchrun --nproc_per_node 2 run.py --fsdp "full_shard auto_wrap" --fsdp_config fsdp.json',
    { cwd },
  );
  assert.deepEqual(reading.config.parallel, {
    strategy: 'FULL_SHARD',
    wrap: 'blocks',
    backwardPrefetch: 'BACKWARD_POST',
    forwardPrefetch: false,
  });
  assert.equal(reading.lines.filter(({ file }) => file === 'fsdp.json').length, 3);
});

test('a command that launches nothing is refused with the commands that do', () => {
  assert.throws(
    () => readConfig(['ls', '-l', '/tmp']),
    /no training is launched by: ls -l \/tmp; give a command of torchrun/,
  );
});

test('a command that comes before or after a training is read: the line says which folder of shardlab its program needs', () => {
  const cases = [
    ['swift infer --adapters out', /answers prompts, .*--model output\/last-merged/],
    ['CUDA_VISIBLE_DEVICES=0 swift deploy --model x', /serves a model; give it --model output\/last-merged/],
    ['swift eval --model x --eval_dataset gsm8k', /measures a model on benchmarks/],
    ['swift export --adapters out --merge_lora true', /merges adapters or quantizes weights/],
    ['/opt/bin/vllm serve x --port 8000', /serves a model; .*--enable-lora --lora-modules NAME=output\/last/],
    ['python3 -m vllm.entrypoints.openai.api_server --model x', /serves a model/],
    ['lmdeploy serve api_server x', /lmdeploy serve api_server output\/last-merged/],
    ['evalscope eval --model x --datasets gsm8k', /measures a model on benchmarks/],
    ['modelscope download --model a/b --local_dir m', /downloads a folder, .*shardlab sft --model FOLDER/],
    ['hf download a/b', /downloads a folder/],
  ] as const;
  for (const [command, why] of cases) {
    const { lines, config, world } = readConfig(command);
    const line = lines.at(-1);
    assert.match(line?.why ?? '', why, command);
    assert.equal(line?.effect, 'none', command);
    assert.deepEqual([config, world], [{}, null], command);
  }
});

test('such a command in a script is no launch of its own', () => {
  const cwd = folderOf({
    'run.sh':
      'modelscope download --model a/b --local_dir m\ntorchrun --nproc_per_node 4 train.py --bf16\nvllm serve out\n',
    'serve.sh': 'vllm serve out\n',
  });
  const reading = readConfig('run.sh', { cwd });
  assert.equal(reading.world, 4);
  assert.match(whyOf(reading, 'modelscope download'), /downloads a folder/);
  assert.match(whyOf(readConfig('serve.sh', { cwd }), 'vllm serve'), /serves a model/);
});

test('torchrun takes the beginning of a name, starts one process by default, and no other dash than a hyphen', () => {
  assert.equal(readConfig('torchrun --nnode 2 --nproc_per_nod=8 train.py').world, 16);
  assert.equal(readConfig('torchrun train.py --bf16').world, 1);
  const pasted = readConfig('torchrun \u2013nproc_per_node=8 train.py --bf16');
  assert.match(whyOf(pasted, '\u2013nproc_per_node=8'), /write --nproc_per_node=8/);
  assert.equal(effects(pasted)['\u2013nproc_per_node=8'], 'error');
});

test("the GPUs of DeepSpeed's --include are ranks", () => {
  const { world, machines } = readConfig('deepspeed --include worker-0:0,1@worker-1:0,2 train.py --bf16');
  assert.deepEqual([world, machines], [4, 2]);
  assert.equal(readConfig('deepspeed --include localhost train.py --bf16').world, null);
});

test("data settings of transformers' scripts are for data of a file, and the length of blocks is for plans", () => {
  const keys = '--text_column_name content --tokenizer_name gpt2 --validation_file v.txt --block_size 1024';
  const hub = readConfig(`torchrun run_clm.py --dataset_name wikitext ${keys} --max_steps 2`);
  assert.equal(hub.config.data, undefined);
  assert.equal(effects(hub)['--block_size'], 'planned');
  assert.match(whyOf(hub, '--text_column_name'), /is for data of a file, which no line names/);
  const own = readConfig(`torchrun run_clm.py --train_file a.csv ${keys} --model_name_or_path gpt2`);
  assert.deepEqual(own.config.data, { path: 'a.csv', text: 'content', validation: 'v.txt' });
  assert.match(whyOf(own, '--tokenizer_name'), /gpt2 is a tokenizer on a hub/);
  assert.deepEqual(
    [...hub.lines, ...own.lines].filter(({ effect }) => effect === 'error'),
    [],
  );
});

test('a file of settings that only its own script knows is a warning', () => {
  const cwd = folderOf({ 'own.yaml': 'hello: 1\n' });
  for (const file of ['own.yaml', 'absent.yaml']) {
    const reading = readConfig(`torchrun --nproc_per_node=4 train.py ${file}`, { cwd });
    assert.equal(effects(reading)[file], 'warning');
  }
});

test('names of hosts are no placeholders', () => {
  const effectOf = (host: string): unknown =>
    effects(readConfig(`torchrun --nnodes 2 --nproc_per_node 1 --master_addr ${host} train.py`))[
      '--master_addr'
    ];
  for (const host of ['ip-172-31-5-4.ec2.internal', 'node-1', 'zip', '10.0.0.1'])
    assert.equal(effectOf(host), 'exported', host);
  for (const host of ['MASTER_IP', '10.233.xx.xx', 'your-host', 'main_ip', '192.168.0.x'])
    assert.equal(effectOf(host), 'warning', host);
});
