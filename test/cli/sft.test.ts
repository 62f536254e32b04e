import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configOf } from '../../src/cli/sft/command';
import { readFlags } from '../../src/cli/sft/flags';
import { readConfig } from '../../src/programs/read';
import { CHATS } from '../sft/instruction-data';
import { shardlab } from './run-command';

const TRAINING = ['sft', '--model', 'tiny', '--dataset', CHATS];

async function refused(args: readonly string[], message: RegExp, env: NodeJS.ProcessEnv = {}): Promise<void> {
  const { status, stdout, stderr } = await shardlab([...args], { env });
  assert.match(stderr, message);
  assert.equal(status, 2, stderr);
  assert.equal(stdout, '');
}

test('sft --help lists the arguments of swift sft with its defaults', async () => {
  const { status, stdout } = await shardlab(['sft', '--help']);
  assert.equal(status, 0);
  for (const line of [
    /--nproc <n>/,
    /--lora_rank <n> +default 8/,
    /--packing <true\|false>/,
    /--resume_from_checkpoint <folder>/,
    /--learning_rate <rate> +default 1e-4 for LoRA, 1e-5 for full/,
  ])
    assert.match(stdout, line);
});

test('shardlab read of swift sft has the data of shardlab sft: conversations, packing, truncation and validation', () => {
  const cwd = process.cwd();
  for (const more of [
    '',
    '--packing true --truncation_strategy right --system Hello',
    '--split_dataset_ratio 0.25 --template chatml',
    `--val_dataset ${CHATS} --split_dataset_ratio 0.25`,
  ]) {
    const words = `--model tiny --dataset ${CHATS} ${more}`.trim().split(' ');
    const own = configOf({ ...readFlags(words, cwd), ranks: 1, cwd, note: () => undefined }).data;
    const read = readConfig(['swift', 'sft', ...words]).config.data;
    const defaults = { packing: false, truncation: 'delete', validation: null };
    const plain = (data: unknown) =>
      JSON.parse(JSON.stringify({ ...defaults, ...(data as object), instructions: [CHATS] }));
    assert.equal((read as { instructions?: unknown }).instructions, CHATS, more);
    assert.deepEqual(plain(read), plain(own), more);
  }
  const texts = readConfig(`swift pt --model tiny --dataset ${CHATS} --packing true`);
  assert.deepEqual(texts.config.data, { path: CHATS });
  const plainTexts = readConfig(`swift sft --model tiny --dataset ${CHATS} --use_chat_template false`);
  assert.deepEqual(plainTexts.config.data, { path: CHATS });
  const divided = readConfig(
    `swift sft --model llama3-8b --dataset ${CHATS} --packing true --sequence_parallel_size 2`,
  );
  assert.deepEqual(divided.config.data, { instructions: CHATS });
  assert.match(
    divided.lines.find(({ key }) => key === '--packing')?.why ?? '',
    /sequence_parallel_size divides them/,
  );
});

test('an unknown argument names the nearest one, and wrong values name what is expected', async () => {
  await refused(
    [...TRAINING, '--lora_rnk', '4'],
    /there is no argument --lora_rnk; did you mean --lora_rank\?/,
  );
  await refused([...TRAINING, '--save_step', '4'], /did you mean --save_steps\?/);
  await refused(
    [...TRAINING, '--max_length', 'long'],
    /--max_length: expected an integer of at least 1, got "long"/,
  );
  await refused([...TRAINING, '--learning_rate', 'fast'], /--learning_rate: expected a number, got "fast"/);
  await refused([...TRAINING, '--truncation_strategy', 'split'], /expected delete, left, right/);
  await refused([...TRAINING, '--tuner_type', 'vera'], /no adapters of kind vera here; choose lora or full/);
  await refused(['sft', '--dataset', CHATS], /--model is missing; give a model's folder/);
  await refused(['sft', '--model', 'tiny'], /--dataset is missing; name a file with conversations/);
  await refused(TRAINING, /NPROC_PER_NODE is two; give an integer/, { NPROC_PER_NODE: 'two' });
});

test('each way of training, serving or loading that is not built here has one line that says what to use', async () => {
  const hub = ['sft', '--dataset', CHATS, '--model', 'Qwen/Qwen2.5-7B-Instruct'];
  await refused(
    hub,
    /nothing is downloaded; fetch it by huggingface-cli download or modelscope download and give its folder/,
  );
  await refused(
    ['sft', '--model', 'tiny', '--dataset', 'AI-ModelScope/alpaca-gpt4-data-en#500'],
    /names a part of a hub.s data set; download the data set/,
  );
  for (const [args, message] of [
    [
      '--rlhf_type kto',
      /kto is not trained here, only dpo; swift rlhf or TRL's trainers continue from the exported folder last/,
    ],
    ['--rlhf_type dpo --loss_type ipo', /--loss_type: the loss is DPO's own \(sigmoid\) here/],
    [
      '--rlhf_type dpo --ref_model other',
      /--ref_model: the reference model has the first weights .*leave it out/,
    ],
    ['--rlhf_type dpo --ref_adapters other', /--ref_adapters: the reference model has the first weights/],
    ['--rlhf_type dpo --ld_alpha 0.5', /--ld_alpha: all tokens of an answer count alike here/],
    ['--ref_model tiny', /--ref_model is for pairs of answers; add --rlhf_type dpo/],
    ['--rlhf_type dpo --sync_ref_model true', /--sync_ref_model: the reference model never changes here/],
    ['--reward_model x', /reward models are not trained here/],
    ['--use_vllm true', /vllm serve output\/last-merged loads the exported folder/],
    ['--infer_backend lmdeploy', /lmdeploy serve api_server output\/last-merged/],
    ['--eval_use_evalscope true', /evalscope eval --model output\/last-merged loads the exported folder/],
    ['--push_to_hub true', /nothing is sent to a hub/],
    ['--use_hf true', /nothing is downloaded/],
    ['--quant_bits 4', /weights are not quantized here/],
  ] as const)
    await refused([...TRAINING, ...args.split(' ')], message);
});
