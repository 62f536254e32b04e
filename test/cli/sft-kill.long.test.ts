import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { CHATS, LLAMA, TOKENIZER } from '../sft/instruction-data';
import { valuesHere } from '../support/cases';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-kill-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const TEMPORARY = join(folder, 'tmp');
mkdirSync(TEMPORARY);
/** All processes of a training have it in their environment. */
const MARK = randomUUID();
const STEPS = 4;
/** Ranks notice the end of their launcher within this time. */
const LAST_MS = 20_000;

/** The signals, and the file after whose appearance each is sent. */
const KILLS = [
  ['SIGKILL', /^checkpoint-3$/],
  ['SIGINT', /^checkpoint-2(\.saving-.*)?$/],
  ['SIGKILL', /^last/],
] as const;

const ARGS = [
  ...['--model', JSON.stringify(LLAMA), '--tokenizer', TOKENIZER, '--dataset', CHATS, '--val_dataset', CHATS],
  ...['--max_steps', `${STEPS}`, '--save_steps', '1', '--save_total_limit', '2', '--learning_rate', '1e-2'],
  ...['--gradient_accumulation_steps', '1', '--use_dora', 'true', '--merge_lora', 'true'],
];

function begin(output: string, args: readonly string[] = []) {
  const program = join(__dirname, '..', '..', 'src', 'cli', 'main.js');
  const child = spawn(process.execPath, [program, 'sft', ...ARGS, '--output_dir', output, ...args], {
    cwd: folder,
    env: { ...process.env, NPROC_PER_NODE: '2', SHARDLAB_TEST_MARK: MARK, TMPDIR: TEMPORARY },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let text = '';
  child.stderr.setEncoding('utf8').on('data', (more: string) => {
    text += more;
  });
  return { child, ended: once(child, 'exit') as Promise<[number | null, string | null]>, said: () => text };
}

async function trained(output: string, args: readonly string[] = []): Promise<string> {
  const { ended, said } = begin(output, args);
  const [status] = await ended;
  assert.equal(status, 0, said());
  return said();
}

/** The processes of all trainings that run. */
function running(): string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      const isZombie = /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
      return !isZombie && readFileSync(`/proc/${pid}/environ`, 'utf8').includes(MARK);
    } catch {
      return false; // it has ended
    }
  });
}

async function until(isTrue: () => boolean, child?: ChildProcess): Promise<void> {
  for (const end = Date.now() + 120_000; !isTrue(); await setTimeout(5)) {
    assert.ok(Date.now() < end && child?.exitCode == null, 'it did not happen');
  }
}

/** The bytes of all exported models, and the steps of the log. */
function resultOf(output: string) {
  const read = (...names: string[]): string =>
    readFileSync(join(folder, output, ...names)).toString('base64');
  const rows = readFileSync(join(folder, output, 'logging.jsonl'), 'utf8')
    .trim()
    .split('\n');
  return {
    adapters: ['last', 'best'].map((name) => read(name, 'adapter_model.safetensors')),
    models: ['last-merged', 'best-merged'].map((name) => read(name, 'model.safetensors')),
    steps: rows.map((row) => (JSON.parse(row) as { step: number }).step),
    names: readdirSync(join(folder, output)).sort(),
  };
}

test('a training that is killed leaves no process and no litter, and continues to the bit; a second training into its folder is refused', async () => {
  await trained('whole');
  const expected = resultOf('whole');
  assert.deepEqual(expected.names, [
    'best',
    'best-merged',
    'checkpoint-3',
    'checkpoint-4',
    'last',
    'last-merged',
    'logging.jsonl',
  ]);
  for (const [signal, moment] of valuesHere(KILLS, [0])) {
    const output = `killed-${signal}-${moment.source.length}`;
    const path = join(folder, output);
    const { child, ended } = begin(output);
    await until(() => existsSync(path) && readdirSync(path).some((name) => moment.test(name)), child);
    if (signal === 'SIGKILL' && moment.test('checkpoint-3')) {
      child.kill('SIGSTOP'); // It must not end before the second one looks.
      const second = begin(output);
      const [status] = await second.ended;
      assert.notEqual(status, 0);
      assert.match(second.said(), new RegExp(`process ${child.pid} writes its training into .*${output}`));
    }
    child.kill(signal);
    assert.deepEqual(await ended, [null, signal]);
    const killedAt = Date.now();
    await until(() => running().length === 0 || Date.now() - killedAt > LAST_MS);
    assert.deepEqual(running(), []);
    assert.deepEqual(readdirSync(TEMPORARY), []);
    assert.match(await trained(output, ['--resume_from_checkpoint', 'true']), /^step \d of 4 loaded from/m);
    assert.deepEqual(resultOf(output), expected, `${signal} at ${moment}`);
  }
});
