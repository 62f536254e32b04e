import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { effects, folderOf, readText, whyOf } from '../programs/read-files';

const axolotl = (rest: string) =>
  readText(
    'axolotl.yaml',
    `base_model: meta-llama/Meta-Llama-3-8B\nmicro_batch_size: 2\nsequence_len: 1024\nlearning_rate: 1e-5\nbf16: auto\n${rest}`,
  );

test("Axolotl's fsdp_config is read with and without the prefix of its keys", () => {
  const keys = ['offload_params: true', 'auto_wrap_policy: NO_WRAP', 'reshard_after_forward: false'];
  const textOf = (prefix: string): string =>
    `fsdp_version: 2\nfsdp_config:\n${keys.map((key) => `  ${prefix}${key}\n`).join('')}`;
  const { config } = axolotl(textOf(''));
  assert.deepEqual(config.parallel, { strategy: 'SHARD_GRAD_OP', wrap: 'root' });
  assert.deepEqual(config.offload, { parameters: true });
  assert.deepEqual(config.mixedPrecision, { paramDtype: 'bfloat16' }, 'FSDP reduces in bfloat16 too');
  assert.deepEqual(axolotl(textOf('fsdp_')).config, config);
});

test("without FSDP or DeepSpeed, Axolotl's ranks have replicas and add gradients in float32", () => {
  const { config } = axolotl('');
  assert.equal(config.parallel?.strategy, 'NO_SHARD');
  assert.deepEqual(config.mixedPrecision, { paramDtype: 'bfloat16', reduceDtype: 'float32' });
  assert.equal(config.batch, 2);
  assert.equal(config.schedule?.kind, 'cosine', "Axolotl's default");
});

test('adapters and empty keys are read, and settings that nothing here has are refused', () => {
  const reading = axolotl(
    'adapter: qlora\nload_in_4bit: true\nlora_r: 4\nlora_alpha: 8\npeft_use_dora: true\nlora_target_modules:\n  - q_proj\nlora_target_linear:\ndeepspeed:\nrl: dpo\nwarmup_steps:\n',
  );
  assert.deepEqual(reading.config.lora, { targets: ['q_proj'], r: 4, alpha: 8, useDora: true });
  const by = effects(reading);
  assert.equal(by.adapter, 'warning');
  assert.equal(by.load_in_4bit, 'refused');
  assert.equal(by.rl, 'refused');
  for (const key of ['lora_target_linear', 'deepspeed', 'warmup_steps']) assert.equal(by[key], 'none', key);
  assert.equal(effects(axolotl('lora_r: 4\n')).lora_r, 'none');
  assert.match(whyOf(axolotl('lora_r: 4\n'), 'lora_r'), /no effect without adapter: lora/);
});

test('sizes of the mesh and degrees multiply to the number of ranks', () => {
  const reading = axolotl(
    'fsdp_version: 2\ndp_shard_size: 4\ndp_replicate_size: 2\ncontext_parallel_size: 2\nfsdp_config:\n  reshard_after_forward: true\n',
  );
  assert.equal(reading.world, 16);
  assert.deepEqual(reading.config.parallel, {
    strategy: 'HYBRID_SHARD',
    mesh: { dpReplicate: 2, dpShard: 4 },
    cp: 2,
    cpKind: 'ring',
  });
  assert.equal(axolotl('context_parallel_size: 2\n').world, null);
});

test('Axolotl ignores keys that it does not know; those that look misspelled are errors', () => {
  const reading = axolotl('my_note: 1\ngradient_acumulation_steps: 2\n');
  assert.equal(effects(reading).my_note, 'warning');
  assert.match(whyOf(reading, 'my_note'), /Axolotl ignores it/);
  assert.equal(effects(reading).gradient_acumulation_steps, 'error');
});

test('a warm-up without a number of steps is left out with a warning, and is used with one', () => {
  const long = axolotl('warmup_steps: 100\n');
  assert.equal(effects(long).warmup_steps, 'warning');
  assert.match(whyOf(long, 'warmup_steps'), /100 steps is left out.*write steps/);
  assert.deepEqual(long.config.schedule, { kind: 'cosine' });
  const known = axolotl('warmup_steps: 100\nmax_steps: 1000\n');
  assert.deepEqual(known.config.schedule, { kind: 'cosine', warmupSteps: 100 });
  const short = axolotl('warmup_steps: 100\nmax_steps: 50\n');
  assert.equal(effects(short).warmup_steps, 'warning', 'more than the steps that a line has');
  assert.deepEqual(short.config.schedule, { kind: 'constant', warmupSteps: 100 });
});

test("DeepSpeed's JSON: a warm-up without steps, and keys that DeepSpeed ignores", () => {
  const reading = readText(
    'ds_config.json',
    JSON.stringify({
      train_micro_batch_size_per_gpu: 1,
      zero3_init_flag: false,
      bf16: { enabled: true, loss_scale: 0 },
      scheduler: { type: 'WarmupCosineLR', params: { warmup_num_steps: 1000, warmup_type: 'linear' } },
    }),
  );
  const by = effects(reading);
  assert.equal(by['scheduler.params.warmup_num_steps'], 'warning');
  assert.deepEqual(reading.config.schedule, { kind: 'cosine' });
  assert.equal(by.zero3_init_flag, 'warning');
  assert.match(whyOf(reading, 'zero3_init_flag'), /DeepSpeed ignores it/);
  assert.equal(by['bf16.loss_scale'], 'error', 'DeepSpeed refuses unknown keys in this section');
  assert.match(whyOf(reading, 'bf16.loss_scale'), /another place: fp16\.loss_scale/);
});

test('axolotl train, llamafactory-cli train and their modules name a file of settings', () => {
  const cwd = folderOf({
    'a.yaml': 'base_model: meta-llama/Meta-Llama-3-8B\nmicro_batch_size: 3\nlearning_rate: 1e-5\n',
    'b.yaml':
      'model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\nfinetuning_type: full\nper_device_train_batch_size: 5\n',
  });
  const batchOf = (command: string): unknown => readConfig(command, { cwd }).config.batch;
  assert.equal(batchOf('axolotl train a.yaml'), 3);
  assert.equal(
    batchOf('axolotl train a.yaml --micro-batch-size 4'),
    4,
    'arguments replace the values of the file',
  );
  assert.equal(batchOf('llamafactory-cli train b.yaml'), 5);
  const launched = readConfig('accelerate launch --num_processes 4 -m axolotl.cli.train a.yaml', { cwd });
  assert.deepEqual([launched.world, launched.config.batch, launched.config.model], [4, 3, 'llama3-8b']);
});

test('a setting without an effect says so, also if another line is an error', () => {
  const keys = 'dp_replicate_size: 2\ndp_shard_size: 2\nfsdp: [no_shard]\n';
  const right = axolotl(keys);
  const wrong = axolotl(`${keys}adam_beta1: 2\n`);
  assert.equal(effects(wrong).adam_beta1, 'error');
  assert.match(whyOf(right, 'dp_shard_size'), /parallel\.mesh has no effect/);
  assert.equal(whyOf(wrong, 'dp_shard_size'), whyOf(right, 'dp_shard_size'));
});

test('adapters from which a training begins are refused in every program that has them', () => {
  for (const reading of [
    axolotl('adapter: lora\nlora_model_dir: ./adapter\n'),
    readConfig('swift sft --model gpt2 --adapters ./adapter'),
    readConfig('llamafactory-cli train --model_name_or_path gpt2 --adapter_name_or_path ./adapter'),
  ]) {
    const refused = reading.lines.find(({ effect }) => effect === 'refused');
    assert.match(refused?.why ?? '', /merge them into their model first/);
  }
});

test('the words after -- are for the launcher', () => {
  const cwd = folderOf({ 'train.yaml': 'base_model: gpt2\nmicro_batch_size: 2\n' });
  const command = 'axolotl train train.yaml --launcher torchrun -- --nnodes 2 --nproc_per_node=8';
  const reading = readConfig(command, { cwd });
  assert.deepEqual([reading.world, reading.machines, reading.config.batch], [16, 2, 2]);
});

test('a switch chooses the implementation of attention', () => {
  const text = 'base_model: Qwen/Qwen2.5-7B\neager_attention: true\n';
  assert.deepEqual(readText('a.yaml', text).config.model, { like: 'qwen2.5-7b', attention: 'eager' });
});
