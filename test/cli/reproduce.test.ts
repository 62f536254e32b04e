import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { shardlab } from './run-command';

test('reproduce lists the published tables and the documents, as text and as JSON', async () => {
  const { status, stdout } = await shardlab(['reproduce']);
  assert.equal(status, 0);
  assert.match(
    stdout,
    /^1,\d+ of 2,030 published figures are inside the predicted interval; median error \d\.\d% \(\d\.\d% for the 1,\d+ held out\)$/m,
  );
  assert.match(stdout, /^megatron-table-1 +time +10 +10 +\d\.\d +0 +— +Narayanan et al\. 2021/m);
  assert.match(stdout, /^wan22-fsdp +claims /m);
  const { tables } = JSON.parse((await shardlab(['reproduce', '--json'])).stdout);
  assert.equal(tables.length, 22);
  assert.deepEqual(
    [tables[1].name, tables[1].inside, tables[1].held_out, tables[1].held_out_error],
    ['megatron-table-1', 10, 0, null],
  );
});

test('reproduce NAME prints the rows with their source; as JSON each row has the config that was planned', async () => {
  const text = await shardlab(['reproduce', 'megatron-table-2']);
  assert.equal(text.status, 0, 'whatever the errors are');
  assert.match(text.stdout, /^1 +gpt 96 x 12288, .*deepspeed FULL_SHARD.* no? .*|^3 .* no +held out$/m);
  assert.match(
    text.stdout,
    /^source: Narayanan et al\. 2021 .*, table 2; .*https:\/\/arxiv\.org\/abs\/2104\.04473$/m,
  );
  const answer = JSON.parse((await shardlab(['reproduce', 'ms-swift', '--json'])).stdout);
  const [first] = answer.rows;
  assert.deepEqual(
    [first.stated, first.stated_unit, first.published, first.unit, first.constants],
    [10.32, 's', 10.32, 's', 'held out'],
  );
  assert.equal(first.config.gpus, 8);
  assert.equal(answer.address.startsWith('https://'), true);
});

test('reproduce prints CSV and LaTeX, and writes files', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-'));
  try {
    const csv = await shardlab(['reproduce', 'ms-swift', '--csv']);
    assert.match(csv.stdout, /^row,run,stated,statedUnit,published,.*\n1,"qwen2\.5-14b, 8 x A800-80G, /);
    const latex = await shardlab(['reproduce', 'ms-swift', '--latex']);
    assert.match(latex.stdout, /^% ms-swift: .*\n% needs .*\n\\begin\{tabular\}\{llrlrrrrrll\}/);
    const argv = ['reproduce', 'ms-swift', '--out', 'a.csv', '--figure', 'a.svg'];
    const files = await shardlab(argv, { cwd: folder });
    assert.deepEqual([files.status, files.stdout, files.stderr], [0, '', 'wrote a.csv\nwrote a.svg\n']);
    assert.equal(readFileSync(join(folder, 'a.csv'), 'utf8'), csv.stdout);
    assert.match(readFileSync(join(folder, 'a.svg'), 'utf8'), /^<svg /);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('wrong arguments of reproduce are refused with status 2', async () => {
  for (const [argv, message] of [
    [['fms-fdsp'], /did you mean 'fms-fsdp'\?/],
    [['mpt', '--all'], /mpt and --all: name one table, or give --all/],
    [['mpt', '--csv', '--json'], /--csv and --json: give only one of them/],
    [['ms-swift', '--out', 'a.xlsx'], /choose one of \.csv, \.tex, \.md/],
    [['ms-swift', '--figure', 'a.gif'], /choose one of \.png, \.svg, \.json, \.csv/],
  ] as const) {
    const { status, stderr } = await shardlab(['reproduce', ...argv]);
    assert.equal(status, 2, argv.join(' '));
    assert.match(stderr, message);
  }
});

test('plan, recommend and claims print their tables as CSV and LaTeX', async () => {
  const place = ['--hardware', 'H100-80G', '--gpus', '16'];
  const one = await shardlab(['plan', 'llama3-8b', ...place, '--csv']);
  assert.match(one.stdout, /^of,cause,seconds,bytes,share\ntime,matmuls,\d/);
  const two = await shardlab(['plan', 'llama3-8b', 'llama2-7b', ...place, '--latex']);
  assert.match(two.stdout, /^plan & +& cause & time \(s\) & bytes \(GB\) & share \(\\%\) \\\\$/m);
  assert.match(two.stdout, /^llama2-7b & time & matmuls & [\d.]+ & {2}& [\d.]+ \\\\$/m);
  const best = await shardlab(['recommend', '--model', 'llama3-8b', ...place, '--latex']);
  assert.match(best.stdout, /family & hardware & layout & iteration \(s\)/);
  const found = await shardlab(['claims', 'wan.arith.*', '--no-runs', '--csv']);
  assert.match(found.stdout, /^id,documented,found,value,ratio,/);
  const table = await shardlab(['claims', '--table', 'memory', '--latex']);
  assert.match(table.stdout, /12\.8 GB \$\\rightarrow\$ 13\.5 GB/);
  const refused = await shardlab(['plan', '--batch', 'lines.jsonl', '--csv']);
  assert.equal(refused.status, 2);
  assert.match(refused.stderr, /--csv and --batch: the answers to lines are JSON/);
});
