import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readEventFile } from '../../src/ledger/event-file';
import { casesHere, valuesHere } from '../support/cases';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-run-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** A small model, because the time of a run is the time of its steps; events.slow runs 'tiny'. */
const MODEL = '{"kind": "gpt", "layers": 4, "dim": 16, "heads": 2, "vocab": 256, "seq": 8, "tied": true}';
writeFileSync(join(folder, 'small.yaml'), `model: ${MODEL}\n`);
const SMALL = ['run', 'small.yaml', '--ranks', '2', '--json'];

test('run prints one JSON document with speed, memory and communication, and a saved and resumed run has the same losses', async () => {
  const args = [...SMALL, '--steps', '4', '--events', 'run.jsonl'];
  const { status, stdout, stderr } = await shardlab(args, { cwd: folder });
  assert.equal(status, 0, stderr);
  const report = JSON.parse(stdout);
  assert.equal(report.engine, 'wasm');
  assert.equal(report.strategy, 'FULL_SHARD');
  assert.equal(report.world, 2);
  assert.equal(report.params, 17_376);
  assert.equal(report.losses.length, 4);
  assert.ok(report.losses.every(Number.isFinite) && report.losses[3] < report.losses[0]);
  assert.ok(report.tokens_per_s > 0 && report.rss_mb_max > 50 && report.memory.peak_bytes > 0);
  assert.ok(report.comm.bytes_by_cause.param > 0 && report.comm.bytes_by_cause.grad > 0);
  assert.match(stderr, /^step 4\/4 [^\n]*$/m);
  assert.doesNotMatch(stderr, /The loss falls/);
  assert.equal(readEventFile(join(folder, 'run.jsonl')).records.length, 8);

  // The same steps, with a save and a resumption between them.
  const saved = await shardlab([...SMALL, '--steps', '2', '--save', 'ckpt'], { cwd: folder });
  assert.match(saved.stderr, /^step 2 saved: .*ckpt, /m);
  const resumed = await shardlab([...SMALL, '--steps', '4', '--resume', 'ckpt'], { cwd: folder });
  assert.match(resumed.stderr, /^step 2 loaded, 2 of 4 steps are left$/m);
  const losses = [saved, resumed].flatMap((part) => JSON.parse(part.stdout).losses);
  assert.deepEqual(losses, report.losses);
  const more = ['--ranks', '1', '--steps', '1', '--resume', 'ckpt'];
  const nothingLeft = await shardlab(['run', 'small.yaml', ...more], { cwd: folder });
  assert.match(nothingLeft.stdout, /no step is left to train/);
  assert.doesNotMatch(nothingLeft.stdout, /NaN|undefined/);
  const one = ['run', 'small.yaml', '--ranks', '1', '--json'];
  const wrong = await shardlab([...one, '--resume', 'nothing'], { cwd: folder });
  assert.equal(wrong.status, 2);
  assert.match(wrong.stderr, /--resume: there is no folder .*nothing/);
});

test('the same config from YAML and from JSON gives the same losses; a default value without effect gives a warning', async (context) => {
  const lines = [
    `model: ${MODEL}`,
    'data: synthetic',
    'batch: 2',
    'steps: 2',
    'optimizer: { nesterov: false }',
  ];
  writeFileSync(join(folder, 'a.yaml'), `${lines.join('\n')}\n`);
  writeFileSync(join(folder, 'b.json'), `{"model": ${MODEL}, "data": "synthetic", "batch": 2, "steps": 2}`);
  // Warnings of a run go to the process's stderr, as in a notebook.
  const written = context.mock.method(process.stderr, 'write', () => true);
  const ran = [];
  for (const name of ['a.yaml', 'b.json']) {
    const { status, stdout, stderr } = await shardlab(['run', name, '--ranks', '1', '--json'], {
      cwd: folder,
    });
    assert.equal(status, 0, stderr);
    const warnings = written.mock.calls.map(({ arguments: [text] }) => String(text)).join('');
    ran.push({
      losses: JSON.parse(stdout).losses,
      isWarned: /^warning: optimizer\.nesterov has no effect /m.test(warnings),
    });
    written.mock.resetCalls();
  }
  written.mock.restore();
  const [{ losses, isWarned } = assert.fail(), other = assert.fail()] = ran;
  assert.equal(losses.length, 2);
  assert.deepEqual(losses, other.losses);
  assert.deepEqual([isWarned, other.isWarned], [true, false]);
});

test('--stage-split cuts the model where it says', async () => {
  const stages = ['--ranks', '2', '--steps', '1', '--pp', '2'];
  const files = [
    ['1,3', 'numbers.jsonl'],
    ['blocks.1', 'names.jsonl'],
  ] as const;
  for (const [split, file] of valuesHere(files, [1])) {
    const args = ['run', 'small.yaml', ...stages, '--stage-split', split, '--events', file];
    const { status, stderr } = await shardlab(args, { cwd: folder });
    assert.equal(status, 0, stderr);
    const { records } = readEventFile(join(folder, file));
    const layers = records.map(
      ({ memory }) => new Set(memory.owners.flatMap(({ module }) => /^blocks\.\d/.exec(module)?.[0] ?? [])),
    );
    assert.deepEqual(
      layers.map((names) => [...names].sort()),
      [['blocks.0'], ['blocks.1', 'blocks.2', 'blocks.3']],
      split,
    );
  }
  const wrong = await shardlab(['bench', 'gpt', '--pp', '2', '--layers', '4', '--stage-split', '3,2']);
  assert.match(wrong.stderr, /split \[3,2\] does not divide 4 layers into 2 stages/);
});

/** The layouts of ranks, and their meshes. */
const LAYOUTS = {
  all: {
    divided: '--world 8 --tp 2 --sequence-parallel --cp 2 --cp-kind ring --pp 2 --schedule interleaved',
    mesh: { dp: 1, tp: 2, cp: 2, ep: 1, pp: 2 },
  },
  'matrices and stages': {
    divided: '--world 4 --tp 2 --sequence-parallel --pp 2 --schedule interleaved',
    mesh: { dp: 1, tp: 2, cp: 1, ep: 1, pp: 2 },
  },
  sequences: { divided: '--world 2 --cp 2 --cp-kind ring', mesh: { dp: 1, tp: 1, cp: 2, ep: 1, pp: 1 } },
};

test('bench gpt prints the keys of its peer', async () => {
  const sizes = '--steps 3 --dim 32 --heads 4 --layers 4 --seq 16 --vocab 256 --batch 2';
  for (const { divided, mesh } of Object.values(casesHere(LAYOUTS, ['matrices and stages', 'sequences']))) {
    const stages = mesh.pp > 1 ? ['--virtual-stages', '2', '--microbatches', '2'] : [];
    const settings = ['--precision', 'bf16', ...divided.split(' '), ...stages, ...sizes.split(' ')];
    const { status, stdout, stderr } = await shardlab(['bench', 'gpt', ...settings, '--json']);
    assert.equal(status, 0, stderr);
    const report = JSON.parse(stdout);
    const keys = [
      'engine',
      'strategy',
      'world',
      'precision',
      'params',
      'tokens_per_s',
      'step_ms',
      'losses',
      'rss_mb_max',
    ];
    for (const key of keys) assert.ok(key in report, key);
    assert.equal(report.strategy, 'fsdp2');
    assert.equal(report.precision, 'bf16');
    assert.deepEqual(report.mesh, mesh);
  }
});

test('bench gpt beside a peer adds both ratios; the error of a failing peer shows its last lines', async () => {
  const peer = join(folder, 'python');
  const line = {
    engine: 'torch',
    strategy: 'fsdp2',
    world: 1,
    precision: 'fp32',
    params: 1,
    tokens_per_s: 100,
    step_ms: 1,
    losses: [1],
    rss_mb_max: 1000,
  };
  writeFileSync(peer, `#!/bin/sh\necho '${JSON.stringify(line)}'\n`, { mode: 0o755 });
  const sizes = [
    '--world',
    '1',
    '--steps',
    '1',
    '--dim',
    '32',
    '--heads',
    '4',
    '--layers',
    '1',
    '--seq',
    '16',
    '--vocab',
    '256',
  ];
  const rounds = ['--rounds', '3', '--json'];
  const { status, stdout, stderr } = await shardlab(['bench', 'gpt', ...sizes, '--peer', peer, ...rounds]);
  assert.equal(status, 0, stderr);
  const report = JSON.parse(stdout);
  assert.equal(report.ratios_tokens_per_s.length, 3);
  assert.equal([...report.ratios_tokens_per_s].sort((a, b) => a - b)[1], report.ratio_tokens_per_s);
  assert.equal(report.ratio_tokens_per_s, Number((report.tokens_per_s / 100).toFixed(3)));
  assert.equal(report.ratio_rss, Number((report.rss_mb_max / 1000).toFixed(3)));
  writeFileSync(peer, '#!/bin/sh\necho "No module named torch" >&2\nexit 1\n', { mode: 0o755 });
  const failed = await shardlab(['bench', 'gpt', ...sizes, '--peer', peer]);
  assert.equal(failed.status, 1);
  assert.match(failed.stderr, /ended with status 1:\nNo module named torch/);
});

test('the build includes the peer', () => {
  const path = join(__dirname, '..', '..', 'src', 'cli', 'bench', 'torch_gpt_bench.py');
  assert.ok(existsSync(path));
  assert.match(readFileSync(path, 'utf8'), /fully_shard/);
});

test('bench collectives times each operation at each size, and beside a peer prints the ratio', async () => {
  const peer = join(folder, 'gloo');
  const rows = ['allReduce', 'reduceScatter', 'allGather', 'allToAll'].map((op) => ({
    op,
    bytes: 4096,
    seconds: 1,
  }));
  writeFileSync(peer, `#!/bin/sh\necho '${JSON.stringify(rows)}'\n`, { mode: 0o755 });
  const args = ['bench', 'collectives', '--sizes', '4096', '--rounds', '1', '--peer', peer, '--json'];
  const { status, stdout, stderr } = await shardlab(args);
  assert.equal(status, 0, stderr);
  const report = JSON.parse(stdout);
  assert.deepEqual(
    report.rows.map(({ op }: { op: string }) => op),
    rows.map(({ op }) => op),
  );
  for (const row of report.rows) assert.ok(row.seconds > 0 && row.ratio > 1, JSON.stringify(row));
});

test("bench collectives over a shaped link prints the model's time and the measured ratio", async () => {
  const args = ['bench', 'collectives', '--sizes', '65536', '--rounds', '1', '--link', '2,50', '--json'];
  const { status, stdout, stderr } = await shardlab(args);
  assert.equal(status, 0, stderr);
  const { rows } = JSON.parse(stdout);
  // Two ranks at 250 MB/s: an all-reduce takes 2 steps and 65,536 bytes one way.
  assert.ok(Math.abs(rows[0].model_seconds - (2 * 50e-6 + 65536 / 250e6)) < 1e-12);
  for (const row of rows) assert.ok(row.measured_over_model >= 1, JSON.stringify(row));
  const unknown = await shardlab(['bench', 'collectives', '--link', '10GB']);
  assert.equal(unknown.status, 2);
  assert.match(unknown.stderr, /did you mean '10GbE'/);
});
