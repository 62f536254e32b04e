import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-bench-'));
after(() => rmSync(folder, { recursive: true, force: true }));

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
  for (const { divided, mesh } of Object.values(LAYOUTS)) {
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
