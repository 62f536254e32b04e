import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'hostile-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Files of other programs, with the end of the answer that `shardlab read` gives on stderr. */
const FILES: Readonly<Record<string, readonly [string, RegExp]>> = {
  'numbers.py': [
    `x = [${'1,'.repeat(150_000)}]\nfully_shard(model, mesh=mesh)\n`,
    /^$/, // it is read
  ],
  'brackets.py': [
    `x = ${'('.repeat(100_000)}1${')'.repeat(100_000)}\n`,
    /^shardlab: brackets\.py:1: more than 200 brackets within each other, .*\n$/,
  ],
  'calls.py': [`${'f('.repeat(20_000)}${')'.repeat(20_000)}\n`, /^shardlab: .*more than 200 brackets.*\n$/],
  'mixed.py': [`\nx = ${'{1:['.repeat(30_000)}`, /^shardlab: mixed\.py:2: more than 200 brackets.*\n$/],
  'signs.py': [`x = ${'-'.repeat(100_000)}1\n`, /^shardlab: signs\.py makes no call that is read: .*\n$/],
  'nested.toml': [`a = ${'['.repeat(20_000)}${']'.repeat(20_000)}\n`, /^shardlab: .*nested too deep; .*\n$/],
  'nested.json': [`${'['.repeat(200_000)}${']'.repeat(200_000)}`, /^shardlab: .*more than 64 levels; .*\n$/],
  'words.sh': [
    `torchrun train.py ${'--a b '.repeat(100_000)}\n`,
    /^shardlab: words\.sh:1: a command of 200001 words; at most 2000 are read\n$/,
  ],
};

for (const [name, [text, answer]] of Object.entries(FILES)) {
  test(`shardlab read answers ${name} by one line, at once`, async () => {
    writeFileSync(join(folder, name), text);
    const began = performance.now();
    const { status, stderr } = await shardlab(['read', name], { cwd: folder });
    assert.match(stderr, answer);
    assert.equal(status, stderr === '' ? 0 : 2);
    assert.ok(performance.now() - began < 20_000, 'within seconds, on a busy machine too');
  });
}

test('signs before a number of Python are counted', async () => {
  const text = 'TrainingArguments(learning_rate=- -0.5, max_steps=-+-3)\n';
  writeFileSync(join(folder, 'signs.py'), text);
  const { stdout } = await shardlab(['read', 'signs.py', '--json'], { cwd: folder });
  const { config } = JSON.parse(stdout) as { config: { steps: number; optimizer: { lr: number } } };
  assert.deepEqual([config.optimizer.lr, config.steps], [0.5, 3]);
});

test('an output folder that cannot be made is one line, for every command that writes', {
  skip: process.platform !== 'linux' && '/proc is a folder of Linux',
}, async () => {
  const data = join(folder, 'chats.jsonl');
  const messages = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
  ];
  writeFileSync(data, `${JSON.stringify({ messages })}\n`);
  for (const out of ['/proc/x', '/dev/null/x', '/dev/full', join(data, 'x'), '/proc']) {
    const args = ['sft', '--model', 'tiny', '--dataset', data, '--output_dir', out];
    const { status, stderr } = await shardlab(args, { cwd: folder });
    assert.equal(status, 1);
    assert.match(
      stderr,
      /^shardlab: sft: --output_dir \S+ cannot be written: .*; name a folder in which you may write\n$/,
    );
  }
});
