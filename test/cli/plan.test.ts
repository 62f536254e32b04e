import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-plan-'));
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

function lines(text: string): Record<string, unknown>[] {
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return name;
}

test('a line of the batch format is answered by a line with the documented keys', async () => {
  const batch = file('one.jsonl', `${JSON.stringify(GPT)}\n`);
  const { status, stdout, stderr } = await shardlab(['plan', '--batch', batch], { cwd: folder });
  assert.equal(status, 0, stderr);
  const [answer = {}] = lines(stdout);
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
  const answers = lines(stdout);
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
    lines(stdout).map(({ id }) => id),
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
  assert.equal(lines(stdout).length, 1);
  assert.match(stderr, /--batch - cannot be read \(EIO: i\/o error, read\)/);
});

test('no config, a missing file, a folder, and a batch beside a config are bad usage', async () => {
  for (const [argv, said] of [
    [['plan'], /name a config, a preset or a model/],
    [['plan', '--batch', 'none.jsonl'], /none\.jsonl cannot be read .*ENOENT/],
    [['plan', '--batch', '.'], /is a directory, not a regular file/],
    [['plan', 'tiny', '--batch', '-'], /give only one of them/],
    [['plan', 'tinny'], /neither a preset, a model nor a file .*did you mean tiny/],
    [['plan', 'tiny', '--gpus', '0'], /integer of at least 1/],
    [['plan', 'tiny', '--nic', 'fast'], /number above 0/],
    [['plan', 'tiny', '--hardware', 'A100'], /'A100' is not known/],
  ] as const) {
    const { status, stdout, stderr } = await shardlab(argv, { cwd: folder });
    assert.equal(status, 2, argv.join(' '));
    assert.equal(stdout, '');
    assert.match(stderr, said);
  }
});

test("the error of a wrong key names file, line, column and the nearest key, also in the batch format's spelling", async () => {
  const name = file(
    'plan.yaml',
    'model: llama3-8b\nparalel: { tp: 2 }\nbatch:\n  micr: 1\nvirtual_stages: two\n',
  );
  const { status, stderr } = await shardlab(['plan', name], { cwd: folder });
  assert.equal(status, 2);
  assert.match(stderr, /plan\.yaml:2:1: paralel: unknown key; did you mean "parallel"/);
  assert.match(stderr, /plan\.yaml:4:3: batch\.micr: unknown key; did you mean "micro"/);
  assert.match(stderr, /plan\.yaml:5:1: virtualStages: expected number/);
  const train = file('train.yaml', 'model: tiny\noptimiser: {}\nsteps: 3\n');
  const trained = await shardlab(['plan', train], { cwd: folder });
  assert.match(trained.stderr, /train\.yaml:2:1: optimiser: unknown key; did you mean "optimizer"/);
});

test("a plan's text shows the breakdown by cause, the range, assumptions and the cost of a run", async () => {
  const name = file('llama.yaml', 'model: llama3-8b\nhardware: H100-80G\ngpus: 64\n');
  const { status, stdout } = await shardlab(['plan', name, '--tokens', '1e12'], { cwd: folder });
  assert.equal(status, 0);
  assert.match(
    stdout,
    /^llama3-8b on 64 x H100-80G, .* MFU, .* of 8\d\.\d GB, (fits|does not fit)(, but it may( not)?)?$/m,
  );
  assert.match(stdout, /^time +products +\d/m);
  assert.match(stdout, /^memory +activations +\d/m);
  assert.match(stdout, /^iteration .* to .*, peak .* to /m);
  assert.match(stdout, /^largest assumption: /m);
  assert.match(stdout, /USD per million tokens, at 6\.88 USD per GPU hour \(Amazon EC2/);
});

test('presets, models and a TrainConfig can be planned; several inputs give a list', async () => {
  const train = file('config.json', '{"model": "tiny", "parallel": {"strategy": "ZERO_1"}, "batch": 4}');
  const argv = ['plan', 'bench', 'llama3-8b', train, '--gpus', '16', '--json'];
  const { status, stdout } = await shardlab(argv, { cwd: folder });
  assert.equal(status, 0);
  const answers = JSON.parse(stdout) as { layout: { gpus: number; parallel: { strategy: string } } }[];
  assert.deepEqual(
    answers.map(({ layout }) => [layout.gpus, layout.parallel.strategy]),
    [
      [16, 'FULL_SHARD'],
      [16, 'FULL_SHARD'],
      [16, 'ZERO_1'],
    ],
  );
});

test('prices and a calibration are read from files; errors of wrong files name them', async () => {
  const prices = file('prices.yaml', 'A100-80G: 1.5\n');
  const calibration = file('gpu.json', '{"like": "A100-80G", "gemmTflops": 200, "measured": {}}');
  const argv = ['plan', 'gpt2', '--json', '--tokens', '1e9'];
  const plain = JSON.parse((await shardlab(argv, { cwd: folder })).stdout);
  const own = await shardlab([...argv, '--prices', prices, '--calibration', calibration], { cwd: folder });
  const answer = JSON.parse(own.stdout);
  assert.equal(answer.cost.usd_per_gpu_hour, 1.5);
  assert.ok(answer.iteration_ms > plain.iteration_ms);
  for (const [option, name] of [
    ['--prices', calibration],
    ['--calibration', prices],
    ['--prices', 'none.json'],
  ] as const) {
    const { status, stderr } = await shardlab([...argv, option, name], { cwd: folder });
    assert.equal(status, 2);
    assert.ok(stderr.includes(name), stderr);
  }
});

test('notes beside a line are ignored and named; a misspelled key is refused', async () => {
  const noted = { ...GPT, measured_ms: 240, source: 'table 1' };
  const slip = { ...GPT, recompte: 'none' };
  const { stdout, status } = await shardlab(['plan', '--batch', '-'], {
    stdin: `${JSON.stringify(noted)}\n${JSON.stringify(slip)}\n`,
  });
  assert.equal(status, 1);
  const [first = {}, second = {}] = lines(stdout);
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
  const [theirs, ours] = lines(stdout);
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
  const { status, stderr } = await shardlab(['plan', '--batch', batch, '--tokens', '1e9'], { cwd: folder });
  assert.equal(status, 2);
  assert.match(stderr, /--tokens and --batch/);
});

test("a model's name on a hub is a model's name; names that objects inherit are not", async () => {
  const { stdout } = await shardlab(['plan', 'meta-llama/Llama-3.1-8B'], { cwd: folder });
  assert.match(stdout, /^llama3-8b on 8 x A100-80G/);
  const { status, stderr } = await shardlab(['plan', 'toString'], { cwd: folder });
  assert.equal(status, 2);
  assert.match(stderr, /toString is neither a preset, a model nor a file/);
});

test('a warning says that prices have no effect without the length of the run', async () => {
  const prices = file('idle-prices.json', '{ "A100-80G": 1 }');
  const { stderr } = await shardlab(['plan', 'gpt2', '--prices', prices], { cwd: folder });
  assert.match(stderr, /--prices has no effect without --tokens/);
});

test('settings that a plan does not read are named on stderr, in the text and with --json', async () => {
  const config = file('dropped.yaml', 'model: llama3-8b\nbatch: 1\nparallel: { wrap: root }\nseed: 3\n');
  const { stdout, stderr } = await shardlab(['plan', config], { cwd: folder });
  assert.match(stderr, /warning: dropped\.yaml: parallel\.wrap "root" is planned as 'blocks'/);
  assert.match(stdout, /parallel\.wrap "root" is planned as 'blocks'/);
  assert.match(stdout, /neither time nor memory of a step depends on seed/);
  const [answer = {}] = lines((await shardlab(['plan', config, '--json'], { cwd: folder })).stdout);
  assert.match(String(answer.assumed), /parallel\.wrap/);
  assert.deepEqual(answer.without_effect, ['seed']);
});

test('the cost of a plan that does not fit says so, in the text and with --json', async () => {
  const config = file('large.yaml', 'model: llama3-70b\nhardware: A100-40G\ngpus: 8\n');
  const argv = ['plan', config, '--tokens', '1e9'];
  assert.match((await shardlab(argv, { cwd: folder })).stdout, /warning: the plan does not fit/);
  const [answer = {}] = lines((await shardlab([...argv, '--json'], { cwd: folder })).stdout);
  const cost = answer.cost as { fits: boolean; note: string };
  assert.equal(cost.fits, false);
  assert.match(cost.note, /does not fit/);
});

test('a FIFO, a directory or a device given as a file is an error at once', async () => {
  const fifo = join(folder, 'fifo');
  execFileSync('mkfifo', [fifo]);
  for (const [path, what] of [
    ['fifo', /FIFO/],
    ['.', /directory/],
    ['/dev/zero', /device/],
  ] as const) {
    for (const argv of [
      ['plan', path],
      ['plan', '--batch', path],
      ['plan', 'gpt2', '--calibration', path],
      ['plan', 'gpt2', '--tokens', '1', '--prices', path],
      ['recommend', '--gpus', '8', '--model', path],
      ['run', path],
      ['trace', path],
    ]) {
      const { status, stderr } = await shardlab(argv, { cwd: folder });
      assert.equal(status, 2, argv.join(' '));
      assert.match(stderr, what, argv.join(' '));
      assert.doesNotMatch(stderr, /INTERNAL| {4}at /);
    }
  }
});

test('a line of a batch names a setting that its layout does not have', async () => {
  const line = { ...GPT, virtual_stages: 2, parallel: { strategy: 'FULL_SHARD' } };
  const batch = file('no-effect.jsonl', `${JSON.stringify(line)}\n${JSON.stringify(GPT)}\n`);
  const [first = {}, second = {}] = lines(
    (await shardlab(['plan', '--batch', batch], { cwd: folder })).stdout,
  );
  assert.deepEqual(first.assumed, ['virtualStages 2 has no effect here: planned as 1']);
  assert.ok(!('assumed' in second));
});

test('--set changes a setting of a config and of a request', async () => {
  const answer = async (...argv: string[]) =>
    JSON.parse((await shardlab(['plan', ...argv, '--json'], { cwd: folder })).stdout);
  const config = file('set.yaml', 'model: gpt2\nbatch: 2\n');
  const { layout } = await answer(
    config,
    '--set',
    'parallel.strategy=ZERO_2',
    '--set',
    'mixedPrecision=bf16',
  );
  assert.deepEqual([layout.parallel.strategy, layout.precision], ['ZERO_2', 'bf16']);
  assert.equal((await answer('gpt2', '--set', 'parallel.tp=2')).layout.parallel.tp, 2);
  const { status, stderr } = await shardlab(['plan', config, '--set', 'batchh=3'], { cwd: folder });
  assert.equal(status, 2);
  assert.match(stderr, /batchh: unknown key; did you mean "batch"/);
});
