import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/programs/read';
import { effects, folderOf, readText, whyOf } from '../programs/read-files';

test("arguments of TRL's scripts are no arguments of LLaMA-Factory", () => {
  const reading = readConfig(
    'accelerate launch --num_processes 2 trl/scripts/sft.py --model_name_or_path gpt2 --dataset_name trl-lib/Capybara --packing --use_peft --lora_r 32 --lora_alpha 16 --eos_token x --per_device_train_batch_size 2',
  );
  assert.deepEqual(
    reading.lines.filter(({ effect }) => effect === 'error'),
    [],
  );
});

test("adapters of TRL train with --use_peft, with TRL's defaults", () => {
  const command = (rest: string) =>
    readConfig(
      `accelerate launch --num_processes 2 examples/scripts/sft.py --model_name_or_path Qwen/Qwen2.5-0.5B --max_length 1024 --lora_r 32 ${rest}`,
    );
  const reading = command('--use_peft --lora_target_modules q_proj v_proj --lora_alpha 16 --my_own 1');
  assert.deepEqual(reading.config.lora, { r: 32, alpha: 16, dropout: 0.05, targets: ['q_proj', 'v_proj'] });
  assert.deepEqual(reading.config.model, { like: 'qwen2.5-0.5b', seq: 1024 });
  assert.equal(reading.config.optimizer?.lr, 2e-5);
  assert.equal(reading.config.activationCheckpointing, 'full');
  assert.deepEqual(reading.config.mixedPrecision, { paramDtype: 'bfloat16', reduceDtype: 'float32' });
  assert.equal(effects(reading)['--my_own'], 'none', 'is the own argument of a script');
  const full = command('--dataset_text_field text --fp16 --gradient_checkpointing false');
  assert.equal(full.config.lora, undefined);
  assert.match(whyOf(full, '--lora_r'), /no effect without use_peft/);
  assert.deepEqual(full.config.mixedPrecision, { paramDtype: 'float16', reduceDtype: 'float32' });
  assert.equal(full.config.activationCheckpointing, null);
});

test('trl sft reads the YAML of --config, whose values its arguments replace', () => {
  const cwd = folderOf({
    'sft.yaml':
      'model_name_or_path: mistralai/Mistral-7B-v0.1\ndataset_name: ./chats.jsonl\nlearning_rate: 2.0e-4\nuse_peft: true\nlora_target_modules: all-linear\nper_device_train_batch_size: 8\nlr_scheduler_type: cosine\n',
  });
  const reading = readConfig('trl sft --config sft.yaml --per_device_train_batch_size 2', { cwd });
  const { model, batch, optimizer, schedule, lora } = reading.config;
  assert.deepEqual([model, batch, optimizer?.lr], ['mistral-7b-v0.1', 2, 2e-4]);
  assert.equal(schedule?.kind, 'cosine');
  assert.equal(lora?.targets, 'all-linear');
  assert.deepEqual(readConfig('sft.yaml', { cwd }).config.lora, lora);
  const typed = readConfig('trl sft --model_name_or_path gpt2 --lora_rr 2');
  assert.match(whyOf(typed, '--lora_rr'), /TRL has no such key; did you mean "lora_r"/);
});

test('preferences of TRL are refused, by command and by script', () => {
  for (const command of [
    'trl kto --model_name_or_path gpt2',
    'trl grpo --config grpo.yaml',
    'accelerate launch trl/scripts/dpo.py --model_name_or_path gpt2 --use_peft',
    'python examples/scripts/reward_modeling.py --model_name_or_path gpt2 --use_peft',
  ]) {
    const reading = readConfig(command);
    const refused = reading.lines.filter(({ effect }) => effect === 'refused');
    assert.equal(refused.length, 1, command);
    assert.match(refused[0]?.why ?? '', /only DPO is built here/);
  }
  assert.equal(readText('run.sh', 'python dpo.py --learning_rate 1e-4\n').config.optimizer?.lr, 1e-4);
});

test('an implementation of attention is named for a published model', () => {
  const command = 'trl sft --model_name_or_path Qwen/Qwen2.5-7B --attn_implementation eager';
  assert.deepEqual(readConfig(command.split(' ')).config.model, { like: 'qwen2.5-7b', attention: 'eager' });
});

test("TRL's SFTConfig has TRL's defaults, and a regular expression of targets is refused", () => {
  const reading = readText(
    'sft.py',
    `from trl import SFTConfig
from peft import LoraConfig
config = SFTConfig(output_dir="out", max_length=2048, packing=True)
lora = LoraConfig(target_modules=r".*(q|v)_proj")
`,
  );
  assert.equal(reading.config.optimizer?.lr, 2e-5);
  assert.equal(reading.config.activationCheckpointing, 'full');
  assert.deepEqual(reading.config.mixedPrecision, { paramDtype: 'bfloat16', reduceDtype: 'float32' });
  assert.deepEqual(reading.config.lora, { r: 8, alpha: 8, dropout: 0, targets: ['q_proj', 'v_proj'] });
  assert.equal(effects(reading)['LoraConfig.target_modules'], 'refused');
});
