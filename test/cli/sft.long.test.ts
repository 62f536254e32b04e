import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CHATS, LLAMA, TOKENIZER } from '../sft/instruction-data';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-sft-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const TRAINING = [
  ...['sft', '--json', '--model', JSON.stringify(LLAMA), '--tokenizer', TOKENIZER, '--dataset', CHATS],
  ...['--val_dataset', CHATS, '--num_train_epochs', '4', '--per_device_train_batch_size', '1'],
  ...['--gradient_accumulation_steps', '2', '--learning_rate', '1e-2', '--warmup_ratio', '0.2'],
];

async function trained(args: readonly string[], env: NodeJS.ProcessEnv = { NPROC_PER_NODE: '2' }) {
  const { status, stdout, stderr } = await shardlab([...TRAINING, ...args], { cwd: folder, env });
  assert.equal(status, 0, stderr);
  return { report: JSON.parse(stdout), stderr };
}

/** The bytes of a folder's weights. */
function weights(path: string): string {
  return readFileSync(join(path, 'adapter_model.safetensors')).toString('base64');
}

test('sft trains adapters on ranks, evaluates, saves, keeps the best, and continues from a checkpoint to the bit', async () => {
  const { report, stderr } = await trained([
    ...['--save_steps', '2', '--save_total_limit', '2', '--output_dir', 'whole', '--merge_lora', 'true'],
  ]);
  assert.match(stderr, /^6 examples in 6 rows, 6 rows for validation: 6 steps$/m);
  assert.deepEqual([report.world, report.steps, report.losses.length], [2, 6, 6]);
  const steps = report.evaluations.map(({ step }: { step: number }) => step);
  assert.deepEqual(steps, [2, 4, 6]);
  const least = Math.min(...report.evaluations.map(({ loss }: { loss: number }) => loss));
  assert.equal(report.best.loss, least);
  const checkpoints = readdirSync(join(folder, 'whole')).filter((name) => name.startsWith('checkpoint-'));
  assert.deepEqual(checkpoints.sort(), ['checkpoint-4', 'checkpoint-6']);
  assert.deepEqual(Object.keys(report.folders), ['last', 'last-merged', 'best', 'best-merged']);
  const config = JSON.parse(readFileSync(join(folder, 'whole', 'last', 'adapter_config.json'), 'utf8'));
  assert.deepEqual([config.r, config.lora_alpha, config.lora_dropout], [8, 32, 0.05]);
  assert.ok(existsSync(join(folder, 'whole', 'last-merged', 'tokenizer.json')));
  assert.ok(readFileSync(join(folder, 'whole', 'logging.jsonl'), 'utf8').split('\n').length > 6);

  const args = ['--save_steps', '2', '--output_dir', 'parts', '--max_steps', '6'];
  const from = join(folder, 'whole', 'checkpoint-4');
  const { report: rest, stderr: said } = await trained([...args, '--resume_from_checkpoint', from]);
  assert.match(said, /^step 4 of 6 loaded from .*checkpoint-4$/m);
  assert.deepEqual(rest.losses, report.losses.slice(4));
  assert.equal(weights(rest.folders.last), weights(report.folders.last));
  const { report: nothing } = await trained([...args, '--resume_from_checkpoint', 'true']);
  assert.deepEqual(nothing.losses, []);
  assert.equal(weights(nothing.folders.last), weights(report.folders.last));
});

test('sft trains whole models on packed rows, shards them, and takes a saved folder as its model', async () => {
  const args = ['--train_type', 'full', '--packing', 'true', '--deepspeed', 'zero3', '--max_steps', '3'];
  const { report } = await trained([...args, '--output_dir', 'full', '--split_dataset_ratio', '0']);
  assert.equal(report.strategy, 'FULL_SHARD');
  assert.ok(report.rows < report.examples);
  assert.ok(report.losses[2] < report.losses[0]);
  const model = ['--model', join(folder, 'full', 'last'), '--max_length', '64'];
  const again = await shardlab(
    ['sft', '--json', ...model, '--dataset', CHATS, '--max_steps', '1', '--output_dir', 'again'],
    { cwd: folder, env: {} },
  );
  assert.equal(again.status, 0, again.stderr);
  const { losses, world, folders } = JSON.parse(again.stdout);
  assert.equal(world, 1);
  assert.ok(losses[0] < report.losses[0] - 0.1, `${losses}`);
  assert.ok(existsSync(join(folders.last, 'adapter_model.safetensors')));
});
