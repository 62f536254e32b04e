import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { effects, readText } from '../programs/read-files';

test("LLaMA-Factory's YAML", () => {
  const reading = readText(
    'llama3_lora_sft.yaml',
    'model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\nstage: sft\ndo_train: true\nfinetuning_type: lora\nlora_target: all\nlora_rank: 16\nuse_dora: true\ndataset: identity\ntemplate: llama3\ncutoff_len: 2048\noutput_dir: saves\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nlearning_rate: 1.0e-4\nnum_train_epochs: 3.0\nlr_scheduler_type: cosine\nwarmup_ratio: 0.1\nbf16: true\nddp_timeout: 180000000\n',
  );
  assert.equal((reading.config.model as { like?: string }).like, 'llama3-8b');
  assert.deepEqual(
    reading.config.lora,
    { r: 16, alpha: 32, targets: 'all-linear', useDora: true },
    'alpha is twice the rank',
  );
  assert.equal(reading.config.accumulation, 8);
  assert.equal(effects(reading).warmup_ratio, 'warning');
  assert.deepEqual(
    reading.lines.filter(({ effect }) => effect === 'error'),
    [],
  );
});

test('alpha of adapters depends on their rank, and a switch chooses the implementation of attention', () => {
  const factory = readConfig('llamafactory-cli train --model_name_or_path Qwen/Qwen-7B --lora_rank 16');
  assert.deepEqual(
    factory.config.lora,
    { r: 16, alpha: 32, targets: 'all-linear' },
    'alpha is twice the rank',
  );
  const text = 'stage: sft\nmodel_name_or_path: Qwen/Qwen2.5-7B\nflash_attn: disabled\n';
  assert.deepEqual(readText('a.yaml', text).config.model, { like: 'qwen2.5-7b', attention: 'eager' });
});
