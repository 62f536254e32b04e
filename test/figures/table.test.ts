import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { DISPLAY } from '../../src/core/display';
import { createTable, shownAsTables, type Table } from '../../src/figures/table';

const ranks = createTable(
  [
    { rank: 0, pid: 4711, state: 'idle', rss: 51_200_000 },
    { rank: 1, pid: 4712, state: 'in <allReduce>, #41', rss: null },
  ],
  {
    title: 'Two ranks',
    columns: [
      { key: 'rank' },
      { key: 'pid', format: (value) => String(value) },
      { key: 'state' },
      {
        key: 'rss',
        title: 'RSS, MB',
        format: (value) => (value === null ? '—' : (Number(value) / 1e6).toFixed(1)),
      },
    ],
  },
);

test("a table's text has its title and aligned columns, with numbers on the right", () => {
  assert.equal(
    ranks.toText(),
    [
      'Two ranks',
      'rank   pid  state                RSS, MB',
      '   0  4711  idle                    51.2',
      '   1  4712  in <allReduce>, #41        —',
    ].join('\n'),
  );
});

test('a notebook shows a table as HTML and text, with escaped markup and no colours of its own', () => {
  const bundle = ranks[DISPLAY]();
  assert.deepEqual(Object.keys(bundle), ['text/html', 'text/plain']);
  const html = String(bundle['text/html']);
  assert.ok(html.includes('in &lt;allReduce&gt;, #41'));
  assert.ok(!/color:#|background:#/.test(html));
  assert.ok(html.indexOf('</div>') < html.indexOf('<table'), 'a long title may be wider than the table');
});

test('CSV keeps raw values and quotes where necessary', () => {
  assert.equal(ranks.toCsv(), 'rank,pid,state,rss\n0,4711,idle,51200000\n1,4712,"in <allReduce>, #41",\n');
});

const awkward = createTable(
  [
    { name: 'a_b & 50% | $x$', seconds: 0.21834, bytes: 1.5e9, note: '≥ 2 × "µ" {~^}\\' },
    { name: '[first], #2', seconds: null, bytes: 2048e9, note: 'two\nlines' },
  ],
  {
    title: 'One & two',
    columns: [
      { key: 'name' },
      { key: 'seconds', title: 'time', unit: { name: 's' }, format: () => '—' },
      { key: 'bytes', title: 'memory', unit: { name: 'GB', size: 1e9 } },
      { key: 'note' },
    ],
  },
);

test('LaTeX is a booktabs tabular with units in its heads, and every special character is escaped', () => {
  assert.equal(
    awkward.toLatex(),
    [
      '% One & two',
      '% needs \\usepackage{booktabs}',
      '\\begin{tabular}{lrrl}',
      '\\toprule',
      'name & time (s) & memory (GB) & note \\\\',
      '\\midrule',
      "a\\_b \\& 50\\% \\textbar{} \\$x\\$ & 0.2183 & 1.5 & $\\geq$ 2 $\\times$ ``$\\mu$'' \\{\\textasciitilde{}\\textasciicircum{}\\}\\textbackslash{} \\\\",
      '{}[first], \\#2 &  & 2,048 & two lines \\\\',
      '\\bottomrule',
      '\\end{tabular}',
      '',
    ].join('\n'),
  );
});

test('Markdown has units in its heads, escaped pipes, and one line per row', () => {
  assert.equal(
    awkward.toMarkdown(),
    [
      'One & two',
      '',
      '| name | time (s) | memory (GB) | note |',
      '| --- | ---: | ---: | --- |',
      '| a_b & 50% \\| $x$ | 0.2183 | 1.5 | ≥ 2 × "µ" {\\~^}\\\\ |',
      '| [first], #2 |  | 2,048 | two<br>lines |',
      '',
    ].join('\n'),
  );
});

/** The cell of a table with one text, in LaTeX and in Markdown. */
function cellsOf(text: string): readonly [string, string] {
  const one = createTable([{ text }]);
  return [
    one.toLatex().split('\n')[5]?.slice(0, -3) ?? '',
    one.toMarkdown().split('\n')[2]?.slice(2, -2) ?? '',
  ];
}

test('in LaTeX, straight quotes open and close, hyphens stay, and a backtick is no quote', () => {
  for (const [text, latex] of [
    ['"hi"', "``hi''"],
    ['say ("a b", "c")', "say (``a b'', ``c'')"],
    ["'hi' isn't", "`hi' isn't"],
    ['5" wide', "5'' wide"],
    ['--tp 2', '-{}-tp 2'],
    ['---', '-{}-{}-'],
    ['`a`', '\\textasciigrave{}a\\textasciigrave{}'],
  ] as const)
    assert.equal(cellsOf(text)[0], latex);
});

test('Markdown shows a text as it is: no cell ends early, and no markup begins', () => {
  for (const [text, markdown] of [
    ['a\\|b', 'a\\\\\\|b'],
    ['in <allReduce>', 'in \\<allReduce>'],
    ['2*3*4 `x`', '2\\*3\\*4 \\`x\\`'],
    ['__init__ of a_b_c', '\\_\\_init\\_\\_ of a_b_c'],
  ] as const)
    assert.equal(cellsOf(text)[1], markdown);
});

test('an object in a cell is JSON in every form, and a date its ISO form', () => {
  const value = { tp: 2, name: 'a' };
  // The types forbid objects, but JavaScript and DataFrames pass them.
  const table = createTable([{ layout: value, at: new Date(0), list: [1, 2], big: 2n ** 60n } as never]);
  assert.equal(
    table.toCsv(),
    'layout,at,list,big\n"{""tp"":2,""name"":""a""}",1970-01-01T00:00:00.000Z,"[1,2]",1152921504606846976\n',
  );
  assert.match(table.toText(), /\{"tp":2,"name":"a"\} {2}1970-01-01T00:00:00\.000Z {2}\[1,2\]/);
  assert.match(table.toMarkdown(), /\{"tp":2,"name":"a"\}/);
  const circle: { self?: unknown } = {};
  circle.self = circle;
  assert.match(createTable([{ circle } as never]).toCsv(), /\[object Object\]/);
});

test('no form prints a negative zero', () => {
  const zero = createTable([{ a: -0, b: -0 }], {
    columns: [{ key: 'a' }, { key: 'b', unit: { name: 's', size: 2 } }],
  });
  for (const text of [zero.toText(), zero.toHtml(), zero.toCsv(), zero.toLatex(), zero.toMarkdown()])
    assert.doesNotMatch(text, /-0/);
});

test("a table is saved in the form of its file's ending; other endings are refused with the known ones", () => {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-'));
  try {
    for (const [name, content] of [
      ['a.csv', ranks.toCsv()],
      ['a.tex', ranks.toLatex()],
      ['a.MD', ranks.toMarkdown()],
    ] as const) {
      ranks.save(join(folder, name));
      assert.equal(readFileSync(join(folder, name), 'utf8'), content);
    }
    assert.throws(() => ranks.save('a.xlsx'), {
      code: 'CONFIG',
      message:
        /"a\.xlsx" has no known ending; choose one of \.csv, \.tex, \.md, as in table\.save\('rows\.csv'\)/,
    });
    assert.throws(() => ranks.save(3 as never), { code: 'CONFIG', message: /as 'rows\.csv', not 3/ });
    assert.throws(() => ranks.save(join(folder, 'none', 'a.csv')), {
      code: 'IO',
      message: /the table could not/,
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('an empty table shows and exports only its title', () => {
  const empty = createTable([], { title: 'Nothing yet' });
  assert.equal(empty.toText().trim(), 'Nothing yet');
  assert.equal(empty.toCsv(), '\n');
});

test('a long table says how many rows it leaves out', () => {
  const rows = Array.from({ length: 64 }, (_, rank) => ({ rank }));
  assert.ok(createTable(rows).toText(10).endsWith('… 54 more of 64 rows'));
});

test('a table becomes a danfojs frame with the same rows', async () => {
  const frame = await ranks.frame();
  assert.deepEqual(frame.columns, ['rank', 'pid', 'state', 'rss']);
  assert.deepEqual(frame.shape, [2, 4]);
});

test('a notebook shows several frames by name', async () => {
  const frames = shownAsTables({
    memory: await createTable([{ cause: 'batch', bytes: 5 }]).frame(),
    comm: await createTable([]).frame(),
  });
  assert.deepEqual(Object.keys(frames), ['memory', 'comm']);
  const bundle = (frames as unknown as Pick<Table, typeof DISPLAY>)[DISPLAY]();
  assert.equal(bundle['text/plain'], 'memory\ncause  bytes\nbatch      5\n\ncomm\n');
  assert.match(String(bundle['text/html']), /memory.*batch.*comm/s);
});

test('a notebook shows a frame, and a frame computed from it, as a table', async () => {
  const frame = await createTable([
    { cause: 'optimizer', bytes: 1000 },
    { cause: 'optimizer', bytes: 2000 },
    { cause: 'batch', bytes: 5 },
  ]).frame();
  const shown = (value: object): string => {
    const method: unknown = Reflect.get(value, DISPLAY);
    assert.ok(typeof method === 'function');
    return method.call(value)['text/plain'];
  };
  assert.equal(shown(frame), 'cause      bytes\noptimizer  1,000\noptimizer  2,000\nbatch          5');
  assert.equal(
    shown(frame.groupby(['cause']).col(['bytes']).sum()),
    'cause      bytes_sum\noptimizer      3,000\nbatch              5',
  );
  assert.equal(shown(frame.column('bytes')), 'bytes\n1,000\n2,000\n    5');
});

test('a column with a long text wraps, so that the columns after it stay on the page', () => {
  const long = 'holds only if the heading counts nodes too';
  const html = createTable([{ id: 'wan.scale.128', reading: long, why: 'because' }]).toHtml();
  const styles = [...html.matchAll(/<td style="[^"]*white-space:(\w+)/g)].map(([, wrap]) => wrap);
  assert.deepEqual(styles, ['nowrap', 'normal', 'nowrap']);
});
