import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { jsonLines, shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-plan-batch-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const GPT = {
  id: 'r1',
  model: { kind: 'gpt', layers: 24, dim: 1024, heads: 16, seq: 1024, vocab: 51_200 },
  hardware: 'A100-80G',
  gpus: 8,
  gpus_per_node: 8,
  nic_gbit_s: 200,
  parallel: { dp: 2, tp: 2, pp: 2, cp: 1, ep: 1, sequence_parallel: false, strategy: 'NO_SHARD' },
  batch: { global: 32, micro: 4 },
  precision: 'bf16',
  recompute: 'full',
  schedule: '1F1B',
  virtual_stages: 1,
  attention: 'flash',
  compile: false,
};

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return name;
}

test('a line of the batch format is answered by a line with the documented keys', async () => {
  const batch = file('one.jsonl', `${JSON.stringify(GPT)}\n`);
  const { status, stdout, stderr } = await shardlab(['plan', '--batch', batch], { cwd: folder });
  assert.equal(status, 0, stderr);
  const [answer = {}] = jsonLines(stdout);
  assert.equal(answer.id, 'r1');
  assert.deepEqual(Object.keys(answer).slice(0, 9), [
    'id',
    'iteration_ms',
    'tokens_per_s_per_gpu',
    'model_tflops_per_gpu',
    'mfu',
    'memory_gib',
    'time_ms',
    'comm_gb_per_gpu',
    'fits',
  ]);
  const {
    memory_gib: memory,
    time_ms: time,
    interval,
  } = answer as {
    memory_gib: Record<string, number>;
    time_ms: Record<string, number>;
    interval: { iteration_ms: { low: number; high: number }; peak_gib: { low: number; high: number } };
  };
  const { peak = 0, ...parts } = memory;
  assert.deepEqual(Object.keys(parts), ['params', 'grads', 'optimizer', 'activations', 'temporary']);
  const sum = (values: Record<string, number>): number => Object.values(values).reduce((a, b) => a + b, 0);
  assert.ok(Math.abs(sum(parts) / peak - 1) < 1e-4);
  assert.deepEqual(Object.keys(time), ['compute', 'exposed_comm', 'bubble']);
  const iteration = Number(answer.iteration_ms);
  assert.ok(Math.abs(sum(time) / iteration - 1) < 0.01);
  assert.ok(interval.iteration_ms.low < iteration && iteration < interval.iteration_ms.high);
  assert.ok(interval.peak_gib.low <= peak && peak <= interval.peak_gib.high);
  assert.equal(typeof answer.largest_assumption, 'string');
  const tokens = (32 * 1024) / (iteration / 1e3) / 8;
  assert.ok(Math.abs(Number(answer.tokens_per_s_per_gpu) / tokens - 1) < 1e-4);
});

test('lines are answered in order; a line that cannot be planned gets an error, and the batch continues', async () => {
  const input = [
    JSON.stringify({ ...GPT, id: 1 }),
    JSON.stringify({ id: 2, model: 'llama3-8' }),
    'no json',
    JSON.stringify({ ...GPT, id: 'odd', parallel: { dp: 3, tp: 2, pp: 2 } }),
    '[1]',
    JSON.stringify({ id: 'unknown', model: 'gpt2', gpu: 8 }),
    JSON.stringify({ id: 'last', model: 'gpt2' }),
  ].join('\r\n');
  const { status, stdout, stderr } = await shardlab(['plan', '--batch', '-'], { stdin: input });
  assert.equal(status, 1);
  assert.match(stderr, /5 of 7 lines could not be planned/);
  const answers = jsonLines(stdout);
  assert.deepEqual(
    answers.map(({ id }) => id),
    [1, 2, null, 'odd', null, 'unknown', 'last'],
  );
  const errors = answers.map(({ error }) => error);
  assert.equal(errors[0], undefined);
  assert.equal(errors[6], undefined);
  assert.match(String(errors[1]), /line 2: .*'llama3-8' is not known; did you mean 'llama3-8b'/);
  assert.match(String(errors[2]), /line 3: is not JSON/);
  assert.match(String(errors[3]), /dp\(3\) x tp\(2\) x pp\(2\) .* = 12, but gpus is 8/);
  assert.match(String(errors[4]), /line 5: is not a JSON object/);
  assert.match(String(errors[5]), /gpu: unknown key; did you mean "gpus"/);
  assert.deepEqual(Object.keys(answers[1] ?? {}), ['id', 'error']);
});

test('a batch of 500 lines is answered line by line, in order', async () => {
  const many = Array.from({ length: 500 }, (_, i) => JSON.stringify({ ...GPT, id: i })).join('\n');
  const { status, stdout } = await shardlab(['plan', '--batch', '-'], { stdin: many });
  assert.equal(status, 0);
  assert.deepEqual(
    jsonLines(stdout).map(({ id }) => id),
    Array.from({ length: 500 }, (_, i) => i),
  );
});

test('a batch that cannot be read to its end is bad input; earlier answers stay printed', async () => {
  const broken = Readable.from(
    (async function* () {
      yield `${JSON.stringify(GPT)}\n`;
      throw new Error('EIO: i/o error, read');
    })(),
  );
  const { status, stdout, stderr } = await shardlab(['plan', '--batch', '-'], { stdin: broken });
  assert.equal(status, 2);
  assert.equal(jsonLines(stdout).length, 1);
  assert.match(stderr, /--batch - cannot be read \(EIO: i\/o error, read\)/);
});

test('notes beside a line are ignored and named; a misspelled key is refused', async () => {
  const noted = { ...GPT, measured_ms: 240, source: 'table 1' };
  const slip = { ...GPT, recompte: 'none' };
  const { stdout, status } = await shardlab(['plan', '--batch', '-'], {
    stdin: `${JSON.stringify(noted)}\n${JSON.stringify(slip)}\n`,
  });
  assert.equal(status, 1);
  const [first = {}, second = {}] = jsonLines(stdout);
  assert.deepEqual(first.ignored, ['measured_ms', 'source']);
  assert.match(String(second.error), /recompte: unknown key; did you mean "recompute"/);
});

test("other programs' names of settings are understood", async () => {
  const asked = {
    ...GPT,
    model: {
      kind: 'gpt',
      num_layers: 24,
      hidden_size: 1024,
      num_attention_heads: 16,
      seq_len: 1024,
      vocab_size: 51_200,
    },
    parallel: { ...GPT.parallel, strategy: 'DDP' },
    precision: 'bfloat16',
    recompute: true,
    schedule: '1f1b',
    attention: 'flash_attention_2',
  };
  const { stdout } = await shardlab(['plan', '--batch', '-'], {
    stdin: `${JSON.stringify(asked)}\n${JSON.stringify(GPT)}\n`,
  });
  const [theirs, ours] = jsonLines(stdout);
  assert.deepEqual(theirs, ours);
});

test('options beside a batch replace the values of every line; options without effect on lines are refused', async () => {
  const batch = file('placed.jsonl', `${JSON.stringify({ model: 'gpt2', gpus: 8, gpus_per_node: 4 })}\n`);
  const bare = await shardlab(['plan', '--batch', batch], { cwd: folder });
  const placed = await shardlab(
    ['plan', '--batch', batch, '--hardware', 'H100-80G', '--gpus-per-node', '8'],
    {
      cwd: folder,
    },
  );
  const line = { model: 'gpt2', gpus: 8, gpus_per_node: 8, hardware: 'H100-80G' };
  const written = await shardlab(['plan', '--batch', file('written.jsonl', JSON.stringify(line))], {
    cwd: folder,
  });
  assert.equal(placed.stdout, written.stdout);
  assert.notEqual(placed.stdout, bare.stdout);
  for (const [option, value] of [
    ['--tokens', '1e9'],
    ['--prices', 'prices.json'],
  ] as const) {
    const { status, stderr } = await shardlab(['plan', '--batch', batch, option, value], { cwd: folder });
    assert.equal(status, 2);
    assert.match(stderr, new RegExp(`${option} and --batch`));
  }
});

test('a line of a batch names a setting that its layout does not have', async () => {
  const line = { ...GPT, virtual_stages: 2, parallel: { strategy: 'FULL_SHARD' } };
  const batch = file('no-effect.jsonl', `${JSON.stringify(line)}\n${JSON.stringify(GPT)}\n`);
  const [first = {}, second = {}] = jsonLines(
    (await shardlab(['plan', '--batch', batch], { cwd: folder })).stdout,
  );
  assert.deepEqual(first.assumed, [
    'parallel.schedule "interleaved" has no effect with parallel.pp 1: the model is not divided into stages',
    'parallel.virtualStages 2 has no effect with parallel.pp 1: the model is not divided into stages',
  ]);
  assert.ok(!('assumed' in second));
});

test("a published model's facts from which no number follows are named, and channels that are not planned", async () => {
  const model = { kind: 'dit', layers: 4, dim: 256, heads: 4, ffn: 512, seq: 64 };
  const facts = { qk_norm: true, frames: 81, in_channels: { t2v: 16, i2v: 36 }, out_channels: 16 };
  const { stdout } = await shardlab(['plan', '--batch', '-'], {
    stdin: `${JSON.stringify({ model: { ...model, ...facts }, precision: 'bf16' })}\n`,
  });
  const [answer] = jsonLines(stdout);
  assert.deepEqual(answer?.ignored, ['model.qk_norm', 'model.frames', 'model.in_channels.i2v']);
});
