import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { shardlab } from './run-command';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-run-'));
after(() => rmSync(folder, { recursive: true, force: true }));

test('a wrong key is bad input: the error names file, line and the nearest key', async () => {
  writeFileSync(join(folder, 'train.yaml'), 'model: tiny\nparalel:\n  strategy: FULL_SHARD\n');
  const { status, stdout, stderr } = await shardlab(['run', 'train.yaml'], { cwd: folder });
  assert.equal(status, 2);
  assert.equal(stdout, '');
  assert.match(stderr, /train\.yaml:2:1: .*parallel/);
});

test('the error of a misspelled preset names the nearest preset', async () => {
  const { status, stderr } = await shardlab(['run', 'tinny']);
  assert.equal(status, 2);
  assert.match(stderr, /neither a preset, a model nor a file[\s\S]*did you mean tiny\?/);
});

test('the error of a missing file of data names the folder; --set adds settings to --data', async () => {
  const { status, stderr } = await shardlab(['run', 'tiny', '--data', 'mine.txt'], { cwd: folder });
  assert.equal(status, 2);
  assert.match(stderr, /data: there is no file or folder mine\.txt in .*shardlab-run-/);
  writeFileSync(join(folder, 'my.txt'), 'text');
  const args = ['run', 'tiny', '--data', 'my.txt', '--set', 'data.tokenizer=none.json'];
  const wrong = await shardlab(args, { cwd: folder });
  assert.match(wrong.stderr, /data\.tokenizer: there is no file .*none\.json/);
});

test('a file or folder to start from that does not exist is bad input', async () => {
  for (const [option, kind] of [
    ['--resume', 'folder'],
    ['--init', 'file'],
  ] as const) {
    const { status, stderr } = await shardlab(['run', 'tiny', option, '/nowhere']);
    assert.equal(status, 2, option);
    assert.match(stderr, new RegExp(`${option}: there is no ${kind} "/nowhere"; correct its path`));
  }
});

test('impossible numbers of ranks are bad usage', async () => {
  for (const ranks of ['0', '-1', '2.5', 'two']) {
    const { status, stderr } = await shardlab(['run', 'tiny', '--ranks', ranks]);
    assert.equal(status, 2, ranks);
    assert.match(stderr, /integer of at least 1/);
  }
  const { status, stderr } = await shardlab(['run', 'tiny', '--ranks', '1000']);
  assert.equal(status, 2);
  assert.match(stderr, /at most 64/);
});

test('strategy none on two ranks is bad input, before a peer runs', async () => {
  const { status, stderr } = await shardlab(['bench', 'gpt', '--strategy', 'none', '--peer', '/no/python']);
  assert.equal(status, 2);
  assert.match(stderr, /add --world 1/);
});

test('rounds without a peer are bad input', async () => {
  const { status, stderr } = await shardlab(['bench', 'gpt', '--rounds', '3']);
  assert.equal(status, 2);
  assert.match(stderr, /add --peer PYTHON/);
});

test('a wrong --stage-split is bad usage or bad input, which names the values that work', async () => {
  for (const command of [
    ['run', 'tiny'],
    ['bench', 'gpt'],
  ]) {
    const divided = [...command, '--pp', '2', '--stage-split'];
    const misspelled = await shardlab([...divided, 'tim']);
    assert.equal(misspelled.status, 2);
    assert.match(
      misspelled.stderr,
      /Did you mean time\? Give layers, parameters, time, numbers such as 3,2 or/,
    );
    for (const text of ['', '3,', '3;2']) assert.equal((await shardlab([...divided, text])).status, 2, text);
    const zero = await shardlab([...divided, '0,4']);
    assert.equal(zero.status, 2);
    assert.match(zero.stderr, /parallel\.stageSplit/);
    const { stdout } = await shardlab([...command, '--help']);
    assert.match(stdout.replaceAll(/\s+/g, ' '), /--stage-split <split> where a model is cut into stages\. /);
  }
});

test('model parallelism beside a peer is bad input', async () => {
  const { status, stderr } = await shardlab(['bench', 'gpt', '--tp', '2', '--peer', '/no/python']);
  assert.equal(status, 2);
  assert.match(stderr, /data parallelism only/);
});

test('the folder of a checkpoint is checked before training starts', async () => {
  writeFileSync(join(folder, 'taken'), '');
  const file = await shardlab(['run', 'tiny', '--save', 'taken'], { cwd: folder });
  assert.equal(file.status, 1);
  assert.match(file.stderr, /^shardlab: cannot write .*taken: a part of the path is not a folder/);
  const { status, stderr } = await shardlab(['run', 'tiny', '--save', ''], { cwd: folder });
  assert.equal(status, 2);
  assert.match(stderr, /--save needs a path, not an empty text/);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('taken')),
    ['taken'],
  );
});

test('a failed write to stdout is reported in one line', {
  skip: !existsSync('/dev/full'),
}, () => {
  const main = join(__dirname, '..', '..', 'src', 'cli', 'main.js');
  const full = openSync('/dev/full', 'w');
  try {
    const { status, stderr } = spawnSync(process.execPath, [main, '--help'], {
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    assert.equal(status, 1);
    assert.match(
      stderr,
      /^shardlab: the answer cannot be written to stdout \(ENOSPC.*\); redirect it to another place\n$/,
    );
  } finally {
    closeSync(full);
  }
});
