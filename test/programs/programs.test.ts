import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { effects, readText, whyOf } from './read-files';

const MEGATRON = [
  ...['torchrun', '--nproc_per_node', '8', 'pretrain_gpt.py', '--num-layers', '8', '--hidden-size', '512'],
  ...['--num-attention-heads', '8', '--seq-length', '2048', '--micro-batch-size', '1'],
];
const megatron = (...more: readonly string[]) =>
  readConfig([...MEGATRON, '--max-position-embeddings', '2048', ...more]);

const FSDP = 'fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_offload_params: true\n';

describe('sections of Accelerate that its kind of training does not read', () => {
  const cases = [
    ['MULTI_GPU', FSDP, 'fsdp_config.fsdp_sharding_strategy', 'NO_SHARD'],
    ["'NO'", FSDP, 'fsdp_config.fsdp_sharding_strategy', 'NO_SHARD'],
    [
      'DEEPSPEED',
      `deepspeed_config:\n  zero_stage: 2\n${FSDP}`,
      'fsdp_config.fsdp_sharding_strategy',
      'ZERO_2',
    ],
    ['MULTI_GPU', 'deepspeed_config:\n  zero_stage: 3\n', 'deepspeed_config.zero_stage', 'NO_SHARD'],
    [
      'MULTI_GPU',
      'megatron_lm_config:\n  megatron_lm_tp_degree: 4\n',
      'megatron_lm_config.megatron_lm_tp_degree',
      'NO_SHARD',
    ],
  ] as const;
  for (const [type, section, key, strategy] of cases) {
    test(`${type}: ${key}`, () => {
      const reading = readText('a.yaml', `distributed_type: ${type}\nnum_processes: 4\n${section}`);
      assert.deepEqual(reading.config.parallel, { strategy });
      assert.equal(effects(reading)[key], 'warning');
      assert.match(whyOf(reading, key), /Accelerate reads it only with distributed_type/);
    });
  }

  test('the switches of accelerate launch decide in the same way', () => {
    const launch = (...kind: readonly string[]) =>
      readConfig(['accelerate', 'launch', ...kind, '--fsdp_sharding_strategy', 'SHARD_GRAD_OP', 'train.py']);
    assert.equal(launch('--multi_gpu').config.parallel?.strategy, 'NO_SHARD');
    assert.equal(launch('--use_fsdp').config.parallel?.strategy, 'SHARD_GRAD_OP');
    // Without a switch, the default file decides, and it may say FSDP.
    assert.equal(launch().config.parallel?.strategy, 'SHARD_GRAD_OP');
  });
});

test('a reading names the program that trains', () => {
  const stackOf = (file: string, text: string) => readText(file, text).place.stack;
  assert.equal(megatron().place.stack, 'megatron');
  assert.equal(megatron('--use-torch-fsdp2').place.stack, 'fsdp2');
  assert.equal(stackOf('ds.json', '{ "zero_optimization": { "stage": 3 } }'), 'deepspeed');
  assert.equal(stackOf('a.yaml', `distributed_type: FSDP\n${FSDP}`), 'fsdp2');
  assert.equal(stackOf('a.yaml', 'distributed_type: MULTI_GPU\n'), undefined);
  assert.equal(stackOf('a.yaml', 'distributed_type: DEEPSPEED\n'), 'deepspeed');
});

describe('the implementation of attention', () => {
  test('Megatron-LM stores scores only with its own local layers, or if an argument says so', () => {
    const attentionOf = (...more: readonly string[]) =>
      (megatron(...more).config.model as { attention?: string }).attention;
    assert.equal(attentionOf(), 'flash');
    assert.equal(attentionOf('--transformer-impl', 'local'), 'eager');
    assert.equal(attentionOf('--transformer-impl', 'local', '--use-flash-attn'), 'flash');
    for (const name of ['flash', 'fused', 'auto'])
      assert.equal(attentionOf('--attention-backend', name), 'flash');
    assert.equal(attentionOf('--attention-backend', 'unfused'), 'eager');
  });

  test('swift names it for a published model', () => {
    const { config } = readConfig('swift sft --model Qwen/Qwen2.5-7B --attn_impl eager'.split(' '));
    assert.deepEqual(config.model, { like: 'qwen2.5-7b', attention: 'eager' });
  });

  test('a model that only plans know has it beside the config', () => {
    const { place, config } = readConfig('swift sft --model Qwen/Qwen3-8B --attn_impl eager'.split(' '));
    assert.equal(place.attention, 'eager');
    assert.equal(config.model, undefined);
  });
});

test('Megatron-LM stops at two half precisions, and at sequences beyond its positions', () => {
  const both = megatron('--bf16', '--fp16');
  assert.equal(effects(both)['--fp16'], 'error');
  const short = readConfig([...MEGATRON, '--max-position-embeddings', '1024']);
  assert.match(whyOf(short, '--max-position-embeddings'), /1024 positions are fewer than --seq-length 2048/);
});
