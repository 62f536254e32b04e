import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { shardlab } from './run-command';

test('recommend prints the best layouts, and why every other family is behind', async () => {
  const argv = ['recommend', '--model', 'llama3-8b', '--hardware', 'H100-80G', '--gpus', '16', '--top', '3'];
  const { status, stdout } = await shardlab(argv);
  assert.equal(status, 0);
  assert.match(
    stdout,
    /^Best by time: .* on 16 x H100-80G \([\d,]+ layouts, [\d,]+ of them fit\), in the order of 'up to'; an iteration is 512 sequences of 8,192 tokens, 4,194,304 in all$/m,
  );
  assert.match(stdout, /^1 .* best$/m);
  assert.match(stdout, /^ +DDP .* does not fit: needs 1\.\d+x the memory, \d+% of it for optimizer states$/m);
  assert.match(stdout, /x slower: more .* \(\d+% of this layout's time\)/);
  const answer = JSON.parse((await shardlab([...argv, '--json'])).stdout);
  assert.equal(answer.ranked.length, 3);
  assert.ok(answer.candidates > answer.fitting);
  assert.ok(
    answer.lost.every((loss: { why: string; family: string }) => loss.why !== '' && loss.family !== ''),
  );
  assert.ok(answer.ranked[0].usd_per_million_tokens > 0);
});

test('recommend is in the order of the column that its title names', async () => {
  for (const [by, column, key] of [
    ['time', 'up to', 'atMost'],
    ['memory', 'peak up to', 'peakAtMost'],
    ['cost', 'cost up to', 'usdAtMost'],
  ] as const) {
    const argv = ['recommend', '--model', 'llama3-8b', '--hardware', 'H100-80G', '--gpus', '8', '--by', by];
    const { stdout } = await shardlab(argv);
    assert.match(
      stdout,
      new RegExp(`^Best by ${by}: .*, in the order of '${column}'; .*\n.* ${column} .*\n`),
    );
    assert.match(stdout, new RegExp(`^the order is that of '${column}': nine in ten runs`, 'm'));
    const [head = '', ...lines] = (await shardlab([...argv, '--csv'])).stdout.trim().split('\n');
    const at = head.split(',').indexOf(key);
    const withoutQuotes = lines.map((line) => line.replaceAll(/"[^"]*"/g, ''));
    const values = withoutQuotes
      .filter((line) => /^\d/.test(line))
      .map((line) => Number(line.split(',')[at]));
    assert.equal(values.length, 5);
    assert.deepEqual(
      values,
      values.toSorted((a, b) => a - b),
    );
  }
});

test('recommend compares kinds of GPU by cost', async () => {
  const argv = [
    'recommend',
    '--model',
    '7e9',
    '--hardware',
    'A100-80G',
    'H100-80G',
    '--gpus',
    '16',
    '--by',
    'cost',
  ];
  const answer = JSON.parse((await shardlab([...argv, '--json'])).stdout);
  const costs = answer.ranked.map((one: { usd_per_million_tokens: number }) => one.usd_per_million_tokens);
  assert.deepEqual(
    costs,
    [...costs].sort((a: number, b: number) => a - b),
  );
});

test('if nothing fits, the nearest layout is named and the command fails', async () => {
  const argv = ['recommend', '--model', 'llama3-405b', '--gpus', '8', '--global-batch', '8'];
  const { status, stdout, stderr } = await shardlab(argv);
  assert.equal(status, 1);
  assert.match(stdout, /^No layout fits on 8 GPUs/);
  assert.match(stderr, /nothing fits; .* comes nearest: does not fit: /);
});

test('the error of bad input names the nearest valid value or what is missing', async () => {
  for (const [argv, said] of [
    [['--model', 'llama3-80b', '--gpus', '8'], /did you mean 'llama3-8b'/],
    [['--gpus', '8'], /--model/],
    [['--model', 'gpt2', '--gpus', '8', '--by', 'speed'], /time, memory, cost/],
    [
      ['--model', 'gpt2', '--gpus', '8', '--by', 'cost', '--hardware', 'H100-96G-grand-teton'],
      /needs a price for/,
    ],
  ] as const) {
    const { status, stderr } = await shardlab(['recommend', ...argv]);
    assert.equal(status, 2, argv.join(' '));
    assert.match(stderr, said);
  }
});

test("a plan request's sequence length, batch, precision and GPU are those of the search, options replace them", async () => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-recommend-'));
  try {
    const request = {
      model: 'gpt2',
      hardware: 'H100-80G',
      seq: 512,
      batch: { global: 64, micro: 2 },
      precision: 'fp16',
    };
    writeFileSync(join(folder, 'request.json'), JSON.stringify({ ...request, parallel: { tp: 2 } }));
    const best = async (...more: string[]) => {
      const argv = ['recommend', '--model', 'request.json', '--gpus', '8', '--top', '1', '--json', ...more];
      return JSON.parse((await shardlab(argv, { cwd: folder })).stdout).ranked[0];
    };
    const own = await best();
    assert.deepEqual(
      [own.layout.hardware, own.layout.precision, own.layout.batch.global],
      ['H100-80G', 'fp16', 64],
    );
    const long = await best('--seq', '1024', '--hardware', 'A100-80G');
    assert.equal(long.layout.hardware, 'A100-80G');
    assert.ok(long.iteration_ms > own.iteration_ms);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('--gpus fewest..most says on how few GPUs the model fits', async (context) => {
  const argv = ['recommend', '--model', 'Qwen3-8B', '--hardware', 'H20', '--gpus', '2..8', '--top', '1'];
  const { status, stdout } = await shardlab(argv);
  assert.equal(status, 0);
  assert.match(stdout, /^the fewest GPUs on which a layout fits: 2 x H20-96G, .* per iteration, [\d.]+ GB$/m);
  const folder = mkdtempSync(join(tmpdir(), 'hub-'));
  context.after(() => rmSync(folder, { recursive: true }));
  const config = { model_type: 'qwen3', hidden_size: 1024, num_hidden_layers: 4, num_attention_heads: 8 };
  writeFileSync(
    join(folder, 'config.json'),
    JSON.stringify({ ...config, intermediate_size: 3072, vocab_size: 1000 }),
  );
  const own = await shardlab([...argv.slice(0, 2), folder, ...argv.slice(3)]);
  assert.match(own.stdout, /^Best by time: .* on 8 x H20-96G/m);
  const wrong = await shardlab([...argv.slice(0, 5), '--gpus', '2..x']);
  assert.match(wrong.stderr, /integer of at least 1/);
  const reversed = await shardlab([...argv.slice(0, 5), '--gpus', '8..2']);
  assert.equal(reversed.status, 2);
  assert.match(
    reversed.stderr,
    /--gpus <n>' argument '8\.\.2' is invalid\. Give the smaller number first: 2\.\.8/,
  );
  const three = await shardlab([...argv.slice(0, 5), '--gpus', '2..4..8']);
  assert.match(three.stderr, /integer of at least 1/);
});
