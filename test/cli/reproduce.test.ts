import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
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
  assert.deepEqual(
    Object.keys(first),
    'row,subject,stated,stated_unit,published,predicted,low,high,unit,ratio,inside,constants,config'.split(
      ',',
    ),
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
    assert.deepEqual([files.status, files.stderr], [0, 'wrote a.csv\nwrote a.svg\n']);
    assert.equal(files.stdout, (await shardlab(['reproduce', 'ms-swift'])).stdout, 'the table is also shown');
    assert.equal(readFileSync(join(folder, 'a.csv'), 'utf8'), csv.stdout);
    assert.match(readFileSync(join(folder, 'a.svg'), 'utf8'), /^<svg /);
    const both = await shardlab(['reproduce', 'ms-swift', '--latex', '--out', 'a.TEX'], { cwd: folder });
    assert.deepEqual(
      [both.stdout, readFileSync(join(folder, 'a.TEX'), 'utf8')],
      [latex.stdout, latex.stdout],
    );
    const refused = await shardlab(['reproduce', 'ms-swift', '--latex', '--out', 'b.md'], { cwd: folder });
    assert.deepEqual([refused.status, refused.stdout, readdirSync(folder).includes('b.md')], [2, '', false]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('wrong arguments of reproduce are refused with status 2', async () => {
  for (const [argv, message] of [
    [['fms-fdsp'], /did you mean 'fms-fsdp'\?/],
    [['mpt', '--all'], /mpt and --all: name one table, or give --all/],
    [['mpt', '--csv', '--json'], /--csv and --json: give only one of them/],
    [['mpt', '--latex', '--out', 'a.md'], /--latex and --out a\.md: .* give a file that ends in \.tex/],
    [['mpt', '--csv', '--out', 'a.tex'], /--csv and --out a\.tex: .* give a file that ends in \.csv/],
    [['ms-swift', '--out', 'a.xlsx'], /choose one of \.csv, \.tex, \.md/],
    [['ms-swift', '--figure', 'a.gif'], /choose one of \.png, \.svg, \.json, \.csv/],
  ] as const) {
    const { status, stderr } = await shardlab(['reproduce', ...argv]);
    assert.equal(status, 2, argv.join(' '));
    assert.match(stderr, message);
  }
});

test('the CSV of a plan has the sums of time and memory, their intervals, and whether it fits', async () => {
  const argv = ['plan', 'llama3-8b', '--hardware', 'H100-80G', '--gpus', '16'];
  const [head = '', ...lines] = (await shardlab([...argv, '--csv'])).stdout.trim().split('\n');
  const keys = head.split(',');
  const rows = lines.map((line) =>
    Object.fromEntries(line.split(',').map((value, i) => [keys[i], value] as const)),
  );
  const { interval, memory_gib, fits } = JSON.parse((await shardlab([...argv, '--json'])).stdout);
  for (const [of, cause, unit, factor, bounds] of [
    ['time', 'iteration', 'seconds', 1e3, interval.iteration_ms],
    ['memory', 'peak', 'bytes', 2 ** -30, interval.peak_gib],
  ] as const) {
    const parts = rows.filter((row) => row.of === of && row.cause !== cause);
    const whole = rows.find((row) => row.of === of && row.cause === cause) ?? {};
    const sum = parts.reduce((total, row) => total + Number(row[unit]), 0);
    assert.ok(Math.abs(sum / Number(whole[unit]) - 1) < 1e-9, `${of}: ${sum}, ${whole[unit]}`);
    assert.ok(parts.every(({ low, high }) => low === '' && high === ''));
    for (const bound of ['low', 'high'] as const)
      assert.ok(Math.abs((Number(whole[bound]) * factor) / bounds[bound] - 1) < 1e-5, `${of} ${bound}`);
  }
  const peak = rows.find(({ cause }) => cause === 'peak') ?? {};
  assert.equal(peak.fits, String(fits));
  assert.ok(Math.abs(Number(peak.bytes) / 2 ** 30 / memory_gib.peak - 1) < 1e-5);
});

test('plan, recommend and claims print their tables as CSV and LaTeX', async () => {
  const place = ['--hardware', 'H100-80G', '--gpus', '16'];
  const one = await shardlab(['plan', 'llama3-8b', ...place, '--csv']);
  assert.match(one.stdout, /^of,cause,seconds,bytes,share,low,high,fits\ntime,matmuls,\d/);
  const two = await shardlab(['plan', 'llama3-8b', 'llama2-7b', ...place, '--latex']);
  assert.match(two.stdout, /^plan & +& cause & time \(s\) & bytes \(GB\) & share \(\\%\) \\\\$/m);
  assert.match(two.stdout, /^llama2-7b & time & matmuls & [\d.]+ & {2}& [\d.]+ \\\\$/m);
  const best = await shardlab(['recommend', '--model', 'llama3-8b', ...place, '--latex']);
  assert.match(best.stdout, /family & layout & iteration \(s\)/);
  const layouts = await shardlab(['recommend', '--model', 'llama3-8b', ...place, '--csv']);
  assert.match(
    layouts.stdout,
    /^rank,.*,seconds,atLeast,atMost,mfu,peakBytes,peakAtLeast,peakAtMost,fits,why\n/,
  );
  const found = await shardlab(['claims', 'wan.arith.*', '--no-runs', '--csv']);
  assert.match(found.stdout, /^statement,verdict,why,documented,found,id,value,ratio,/);
  const table = await shardlab(['claims', '--table', 'memory', '--latex']);
  assert.match(table.stdout, /12\.8 GB \$\\rightarrow\$ 13\.5 GB/);
  const refused = await shardlab(['plan', '--batch', 'lines.jsonl', '--csv']);
  assert.equal(refused.status, 2);
  assert.match(refused.stderr, /--csv and --batch: the answers to lines are JSON/);
});
