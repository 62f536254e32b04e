import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { claims } from '../../src/claims/notebook/claims';
import { reproduce } from '../../src/claims/notebook/reproduce';
import { DISPLAY } from '../../src/core/display';
import { judgedRuns } from '../../src/planner/measured/published-tables';
import { predict } from '../../src/planner/predict';
import { recommend } from '../../src/session/notebook/recommend';
import { quietPlan } from '../../src/session/plans/plan';
import { repositoryRoot } from '../support/paths';
import { reproducePage } from './reproduce-page';

test('docs/reference/reproduce.md has the tables and errors as they are computed here', () => {
  const path = join(repositoryRoot(), 'docs', 'reference', 'reproduce.md');
  const page = readFileSync(path, 'utf8');
  const written = reproducePage(page);
  if (process.env.SHARDLAB_GOLDEN === '1') writeFileSync(path, written);
  else assert.equal(page, written, 'docs/reference/reproduce.md differs; `npm run golden` writes it anew');
});

test('the front page quotes the median error of held-out figures', () => {
  const { table } = reproduce();
  const [, median = 'missing'] = /\((\d\.\d%) for the [\d,]+ held out\)/.exec(table.title) ?? [];
  for (const page of ['README.md', 'README.zh.md'])
    assert.ok(readFileSync(join(repositoryRoot(), page), 'utf8').includes(median), `${page}: ${median}`);
});

test('without a name all tables are listed, with their errors and the number of figures inside', () => {
  const { table, rows, figure } = reproduce();
  const inside = rows.filter(({ isInside }) => isInside).length.toLocaleString('en-US');
  assert.match(
    table.title,
    new RegExp(`^${inside} of 2,030 published figures are inside the predicted interval; `),
  );
  const { figures, inside: insideOf } =
    table.rows.find(({ name }) => name === 'megatron-table-1') ?? assert.fail();
  assert.deepEqual([figures, insideOf], [10, 10]);
  assert.equal(table.rows.filter(({ subject }) => subject === 'claims').length, 5);
  assert.match(
    figure().title,
    /^1,\d\d\d of 2,030 published figures are inside the interval; median error \d\.\d%$/,
  );
});

test('a table has the numbers of the planner, its source, and a figure', () => {
  const view = reproduce('fms-fsdp');
  assert.equal(view.rows.length, 16);
  for (const { layout, predicted, low, high, published, ratio, stated, isInside } of view.rows) {
    const { seconds } = predict(layout);
    assert.deepEqual([predicted, low, high], [seconds.value, seconds.low, seconds.high]);
    assert.equal(published, (layout.globalBatch * layout.model.seq) / layout.gpus / stated);
    assert.equal(ratio, predicted / published);
    assert.equal(isInside, low <= published && published <= high);
  }
  assert.match(view.toText(), /^source: IBM, .*6dc80d2.*\nruns: .*\nconstants: No constant was fitted/m);
  assert.match(String(view[DISPLAY]()['text/html']), /published \(s\)/);
  assert.match(
    view.figure().title,
    /^\d+ of 16 published figures are inside the interval; median error \d\.\d%$/,
  );
  const [first] = view.rows;
  assert.equal(quietPlan(first?.input ?? assert.fail()).seconds.value, first?.predicted);
});

test('the CSV of a table has its units and its raw numbers', () => {
  const [heads, first] = reproduce('megatron-table-1').toCsv().split('\n');
  assert.equal(heads, 'row,run,stated,statedUnit,published,predicted,low,high,unit,ratio,inside,constants');
  assert.match(
    first ?? '',
    /^1\.7B,"gpt 24 x 2304, 32 x A100-80G, .*",137,TFLOP\/s\/GPU,3\.5\d+,3\.\d+,.*,s,[01]\.\d+,true,fitted$/,
  );
});

test('a document has its claims with published and found numbers, and the verdicts of the list', () => {
  const { table, rows, toText } = reproduce('wan-deepspeed-zero3');
  assert.deepEqual(rows, []);
  assert.equal(table.rows.length, claims({ document: 'wan-deepspeed-zero3' }).length);
  assert.match(toText(), /^Wan with DeepSpeed .*: \d of 5 claims hold$/m);
  const listed = reproduce().table.rows.filter(({ subject }) => subject === 'claims');
  for (const { name, inside, figures } of listed) {
    const verdicts = reproduce(String(name)).table.rows.map(({ verdict }) => verdict);
    assert.deepEqual(
      [verdicts.length, verdicts.filter((verdict) => verdict === 'holds').length],
      [figures, inside],
      String(name),
    );
  }
});

test('an unknown table is refused with the nearest name of a table or document', () => {
  for (const [name, message] of [
    ['fms-fdsp', /no table is named "fms-fdsp"; did you mean 'fms-fsdp'\? choose one of vtrain/],
    ['wan22-fdsp', /did you mean 'wan22-fsdp'\?/],
    [7, /no table is named 7; choose one of vtrain/],
  ] as const) {
    assert.throws(() => reproduce(name as string), { code: 'CONFIG', message });
  }
});

test('reproduced tables, plans, recommendations and claims are saved as CSV, LaTeX and Markdown', () => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-'));
  const llama = { model: 'llama3-8b', hardware: 'H100-80G', gpus: 16 } as const;
  const savable = {
    reproduced: reproduce('ms-swift'),
    plan: quietPlan(llama),
    generation: quietPlan(llama).inference({ batch: 8 }),
    recommended: recommend(llama),
    claims: claims('wan.arith.*'),
  };
  const heads = {
    reproduced: /row & run & stated & unit there & published \(s\) & predicted \(s\) &/,
    plan: / & cause & time \(s\) & bytes \(GB\) & share \(\\%\) \\\\/,
    generation: /memory & bytes \(GB\) \\\\/,
    recommended: /family & layout & iteration \(s\) & up to \(s\) & MFU \(\\%\) & peak \(GB\) & why/,
    claims: /claim & documented & found & verdict & why/,
  };
  try {
    for (const [name, value] of Object.entries(savable)) {
      const texts = ['csv', 'tex', 'md'].map((ending) => {
        const file = join(folder, `${name}.${ending}`);
        value.save(file);
        return readFileSync(file, 'utf8');
      });
      assert.match(texts[0] ?? '', /^\w+(,\w+)+\n/, name);
      assert.match(texts[1] ?? '', heads[name as keyof typeof heads], name);
      assert.match(
        texts[1] ?? '',
        /\\toprule\n.*\n\\midrule\n(.* \\\\\n)+\\bottomrule\n\\end\{tabular\}\n$/,
        name,
      );
      assert.match(texts[2] ?? '', /^\|( -+:? \|)+$/m, name);
      assert.throws(() => value.save('a.pdf'), {
        code: 'CONFIG',
        message: /choose one of \.csv, \.tex, \.md/,
      });
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the runs that sl.planner.accuracy draws are the rows of the table 'vtrain'", () => {
  const { rows } = reproduce('vtrain');
  assert.deepEqual(
    judgedRuns().map(({ measured, predicted }) => [measured, predicted]),
    rows.map((row) => [row.published, row.predicted]),
  );
});
