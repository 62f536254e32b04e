import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { jsonLines, shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-plan-'));
after(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return name;
}

test('no config, a missing file, a folder, and a batch beside a config are bad usage', async () => {
  for (const [argv, said] of [
    [['plan'], /name a config, a preset or a model/],
    [['plan', '--batch', 'none.jsonl'], /none\.jsonl cannot be read .*ENOENT/],
    [['plan', '--batch', '.'], /is a directory, not a regular file/],
    [['plan', 'tiny', '--batch', '-'], /give only one of them/],
    [['plan', 'tinny'], /neither a preset, a model nor a file .*did you mean tiny/],
    [['plan', 'tiny', '--gpus', '0'], /integer of at least 1/],
    [['plan', 'tiny', '--nic', 'fast'], /number above 0/],
    [['plan', 'tiny', '--hardware', 'A200'], /'A200' is not known/],
  ] as const) {
    const { status, stdout, stderr } = await shardlab(argv, { cwd: folder });
    assert.equal(status, 2, argv.join(' '));
    assert.equal(stdout, '');
    assert.match(stderr, said);
  }
});

test("the error of a wrong key names file, line, column and the nearest key, also in the batch format's spelling", async () => {
  const name = file('plan.yaml', 'model: llama3-8b\nparalel: { tp: 2 }\nbatch:\n  micro: 1\nnum_gpus: two\n');
  const { status, stderr } = await shardlab(['plan', name], { cwd: folder });
  assert.equal(status, 2);
  assert.match(stderr, /plan\.yaml:2:1: paralel: unknown key; did you mean "parallel"/);
  assert.match(stderr, /plan\.yaml:5:1: gpus: expected a number/);
  const wrongBatch = file('batch.yaml', 'model: llama3-8b\nbatch:\n  micr: 1\n');
  const batch = await shardlab(['plan', wrongBatch], { cwd: folder });
  assert.match(batch.stderr, /batch\.yaml:3:3: batch\.micr: unknown key; did you mean "micro"/);
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
    /^llama3-8b on 64 x H100-80G, .* MFU, .* of 8\d\.\d GB: (fits|does not fit|probably (fits, but may need more|does not fit, but may need less) memory)$/m,
  );
  assert.match(stdout, /^time +matmuls +\d/m);
  assert.match(stdout, /^memory +activations +\d/m);
  assert.match(stdout, /^iteration .* to .*; peak .* to .*, in the .*[a-z]$/m);
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
  const [answer = {}] = jsonLines((await shardlab(['plan', config, '--json'], { cwd: folder })).stdout);
  assert.match(String(answer.assumed), /parallel\.wrap/);
  assert.deepEqual(answer.without_effect, ['seed']);
});

test('the cost of a plan that does not fit says so, in the text and with --json', async () => {
  const config = file('large.yaml', 'model: llama3-70b\nhardware: A100-40G\ngpus: 8\n');
  const argv = ['plan', config, '--tokens', '1e9'];
  assert.match((await shardlab(argv, { cwd: folder })).stdout, /warning: the plan does not fit/);
  const [answer = {}] = jsonLines((await shardlab([...argv, '--json'], { cwd: folder })).stdout);
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

test("a model's config.json is planned by its path, --explain adds five sentences, a plan that does not fit lists changes that do", async () => {
  const config = file(
    'config.json',
    JSON.stringify({
      model_type: 'qwen3_moe',
      ...{ hidden_size: 2048, num_hidden_layers: 48, num_attention_heads: 32, num_key_value_heads: 4 },
      ...{ head_dim: 128, intermediate_size: 6144, vocab_size: 151_936, tie_word_embeddings: false },
      ...{ num_experts: 128, num_experts_per_tok: 8, moe_intermediate_size: 768 },
    }),
  );
  const argv = ['plan', config, '--hardware', 'H20', '--gpus', '64', '--explain'];
  const { status, stdout } = await shardlab(argv, { cwd: folder });
  assert.equal(status, 0);
  assert.match(stdout, /^One iteration on 64 x H20-96G trains on 64 sequences of 8,192 tokens, /m);
  assert.match(stdout, /^The weakest assumption for time is that .*\.$/m);
  const small = await shardlab(['plan', 'Qwen/Qwen3-32B', '--gpus', '8', '--json'], { cwd: folder });
  const { fits, nearest } = JSON.parse(small.stdout);
  assert.equal(fits, false);
  assert.equal(nearest.length, 3);
  const batch = await shardlab(['plan', '--batch', '-', '--explain'], { cwd: folder });
  assert.match(batch.stderr, /--explain and --batch/);
});
