import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readEventFile } from '../../src/ledger/event-file';
import { valuesHere } from '../support/cases';
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
