import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commCauses } from '../../src/figures/comm-causes';
import { commTimeline } from '../../src/figures/comm-timeline';
import { createFigure } from '../../src/figures/figure';
import { evenlyWrapped, LIGHT, plain, textWidth, wrapped } from '../../src/figures/grammar/ink';
import { lossCurve } from '../../src/figures/loss-curve';
import { memoryFigure } from '../../src/figures/memory-figure';
import { scalingCurve } from '../../src/figures/plans/scaling-curve';
import { plotNumbers } from '../../src/figures/plot-numbers';
import type { RunView } from '../../src/figures/run-view';
import { createTable } from '../../src/figures/table';
import { compareTime } from '../../src/figures/time-compare';
import { trafficMatrix } from '../../src/figures/traffic-matrix';
import { comparedWaitFinding, type TimelineCase } from '../../src/figures/wait-words';
import { LOSSES, NODE_RUNS, slower, steps } from './gallery-runs';
import { plannedFigures } from './planned';
import { textFaults, textsOf } from './svg-texts';

const run = steps({ strategy: 'FULL_SHARD', world: 4 });
const other = { ...steps({ strategy: 'NO_SHARD', world: 4 }), name: 'NO_SHARD, run 2' };

/** The figures of one run. */
const figuresOf = (view: RunView) => [
  memoryFigure(view, { over: 'ranks' }),
  memoryFigure(view, { over: 'time' }),
  commTimeline(view),
  commCauses(view),
  trafficMatrix(view),
  lossCurve([{ name: view.name ?? view.strategy, losses: LOSSES }]),
];

test("titles of one run's figures begin with the run's name, so no two runs have equal titles", () => {
  const all = [run, other, { ...run, name: 'prefetch off' }].map(figuresOf);
  const titles = all.flat().map(({ title }) => title);
  assert.deepEqual(
    titles.filter((title) => !/^(FULL_SHARD|NO_SHARD, run 2|prefetch off) · /.test(title)),
    [],
  );
  assert.equal(new Set(titles).size, titles.length);
});

test("a run's name that leaves no room for the finding is left out of the title", () => {
  const name = 'a name that has nearly as many characters as a title may have, so 75';
  const { title } = lossCurve([{ name, losses: LOSSES }]);
  assert.equal(title, 'The loss falls from 7.600 to 4.735 in 20 steps');
});

test('a text that is wrapped evenly has no more lines, and no word alone on the last one', () => {
  const text =
    'rank 2: reduceScatter of blocks.1 (#157): what it brings is the first to differ from the other run; after it, blocks.1.ln1.weight by 0.00068 (0.27 of its size)';
  for (let width = 400; width < 1000; width += 10) {
    const [greedy, even] = [wrapped(text, 11, width), evenlyWrapped(text, 11, width)];
    assert.equal(even.length, greedy.length);
    assert.equal(even.join(' '), text);
    const [most, last] = [Math.max(...even.map((line) => line.length)), even.at(-1) ?? ''];
    assert.ok(last.length > most / 2, `${width}: ${even.join('|')}`);
  }
  assert.deepEqual(evenlyWrapped('', 11, 680), ['']);
});

test('a number is not broken into two lines', () => {
  for (const number of ['0.00068', '1.06x', '12,174', '1e-4']) {
    for (let width = 60; width < 160; width += 3) {
      const lines = wrapped(`its interval ends ${number} as high`, 11, width);
      assert.ok(
        lines.some((line) => line.includes(number)),
        `${number} at ${width}: ${lines.join('|')}`,
      );
    }
  }
});

test('the name of a phase at the end of a step does not stand over another phase', () => {
  const names = (memoryFigure(run, { over: 'time' }).layout.annotations ?? []).map(({ text }) => plain(text));
  assert.ok(!names.includes('loss') || names.includes('optimizer'), names.join('|'));
});

test('a long subtitle is broken into lines within the picture', () => {
  const long = 'layouts of 128 GPUs with a link of 400 Gbit/s per node, '.repeat(5);
  const chinese = '每张卡有八十吉字节的显存，每个节点有八张卡，节点之间的网络是四百吉比特每秒，'.repeat(4);
  for (const subtitle of [long, chinese]) {
    const figure = plotNumbers({ a: [1, 2] }, { subtitle });
    assert.ok(figure.subtitle.split('<br>').length > 1);
    assert.equal(plain(figure.subtitle).replaceAll(' ', ''), subtitle.replaceAll(' ', ''));
    assert.deepEqual(textFaults(figure.toSvg(LIGHT)), []);
  }
});

test('the heading beside a traffic matrix has room for the wider font of a page', () => {
  const svg = trafficMatrix(NODE_RUNS.HYBRID_SHARD).toSvg(LIGHT);
  const [, width] = /<svg [^>]*? width="(\d+)"/.exec(svg) ?? [];
  const heading = textsOf(svg).find(({ text }) => text.startsWith('Received per rank'));
  assert.ok(
    heading !== undefined && heading.left + textWidth(heading.text, 12, 'bold') * 1.1 < Number(width),
  );
});

/** A case of a comparison whose ranks wait these milliseconds, of which `wire` for the wire and the rest for a core. */
function waiting(name: string, wire: number, all: number): TimelineCase {
  const spread = (ms: number) => ({ median: ms / 1e3, low: (ms * 0.98) / 1e3, high: (ms * 1.02) / 1e3 });
  const none = spread(0);
  const waits = { wire: spread(wire), peer: none, core: spread(all - wire), unknown: none };
  const times = { numSteps: 10, tokens: 256, step: spread(200), wait: spread(all), waits };
  return { name, times, per: '' } as unknown as TimelineCase; // titles use these fields only
}

test('a run that waits less for the wire but longer in all is not said to wait less', () => {
  const [sharded, whole] = [waiting('FULL_SHARD', 6.4, 63.9), waiting('DDP', 8.2, 31.3)];
  const wordings = comparedWaitFinding([sharded, whole]);
  assert.equal(wordings[0], '"FULL_SHARD" waits longer, 63.9 instead of 31.3 ms, though less for the wire');
  const slow = comparedWaitFinding([sharded, waiting('slow', 36, 80)]);
  assert.equal(slow[0], '"FULL_SHARD" waits 6.4 ms for the wire, and "slow" waits 36.0 ms');
});

test('waits for the wire that are a small part of all waits are no finding', () => {
  const [first, second] = [waiting('a', 0.13, 53.8), waiting('b', 0.25, 23.5)];
  assert.equal(
    comparedWaitFinding([first, second])[0],
    '"b" waits 23.5 ms, and "a" waits 53.8 ms, mostly for a core',
  );
});

test('collectives that look alike have one entry in the legend, with the letters of their bars', () => {
  const legend = commTimeline(run).data.flatMap(({ name = '', showlegend }) =>
    showlegend === false ? [] : [plain(name)],
  );
  assert.deepEqual(
    legend.filter((name) => name.includes('(')),
    ['all-gather (AG) of parameters', 'reduce-scatter (RS) of gradients', 'all-reduce (AR) of gradient norm'],
  );
});

test('each numbered layout of a search has its number at its dot', () => {
  const { 'ranked-layouts': ranked } = plannedFigures();
  const labels = (ranked?.layout.annotations ?? [])
    .map(({ text }) => plain(text))
    .filter((text) => /^\d+(, \d+)*$/.test(text));
  const winners = ranked?.table.rows
    .filter(({ rank }) => rank !== null)
    .map(({ rank }) => String(rank))
    .slice(0, 5);
  assert.deepEqual(labels.flatMap((text) => text.split(', ')).sort(), winners);
});

test('the label of a documented number is not on a curve', () => {
  const at = (values: readonly number[]) =>
    values.map((value, i) => ({ count: 2 ** i, value: { value, low: value - 2, high: value + 2 } }));
  const series = [
    { name: '4,096 tokens', points: at([100, 99, 99, 99, 98, 98, 97, 96]) },
    { name: '1,024 tokens', points: at([100, 97, 95, 92, 88, 81, 72, 56]) },
  ];
  const documented = [
    { count: 32, value: 85, relation: '>=', id: 'wan.scale.32' },
    { count: 128, value: 76, id: 'wan.scale.128' },
  ] as const;
  const figure = scalingCurve({
    series,
    documented,
    quantity: 'efficiency',
    countedIn: 'nodes',
    subtitle: '',
  });
  const svg = figure.toSvg(LIGHT);
  const labels = textsOf(svg).filter(({ text }) => text.startsWith('documented'));
  assert.equal(labels.length, 2);
  const lines = [...svg.matchAll(/<path d="(M[^"]*)" fill="none"/g)].map(([, d = '']) =>
    [...d.matchAll(/[ML]([\d.]+) ([\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)] as const),
  );
  assert.ok(lines.length >= 2);
  for (const { left, right, top, bottom, text } of labels) {
    const isIn = ([x, y]: readonly [number, number]): boolean =>
      x > left && x < right && y > top && y < bottom;
    for (const points of lines) {
      const between = points.flatMap(([x, y], i) => {
        const [nextX, nextY] = points[i + 1] ?? [x, y];
        return Array.from(
          { length: 40 },
          (_, k) => [x + ((nextX - x) * k) / 40, y + ((nextY - y) * k) / 40] as const,
        );
      });
      assert.ok(!between.some(isIn), text);
    }
  }
});

test('a comparison of step times claims a difference only beyond the spread, with its range', () => {
  const fast = slower(run, 1);
  const apart = compareTime({ slow: slower(run, 1.4), fast });
  assert.match(apart.title, /^"slow" takes 1\.4× \(1\.\d+–1\.\d+×\) the time of "fast" per step$/);
  assert.deepEqual(
    apart.table.rows.map(({ differsFromFirst }) => differsFromFirst),
    [false, true],
  );
  assert.match(compareTime({ a: fast, b: slower(run, 1.005) }).title, /^No difference beyond the spread: /);
  assert.equal(
    compareTime({ a: fast, b: steps({ strategy: 'FULL_SHARD', world: 4 }) }).title,
    'Too few steps to compare times: 3 measured steps, 4 are needed',
  );
  const tokens = slower(run, 2);
  const more = {
    ...tokens,
    records: tokens.records.map((record) => ({ ...record, tokens: (record.tokens ?? 0) * 4 })),
  };
  assert.match(compareTime({ fast, more }).title, /"fast" takes 2.* the time of "more" per 1,000 tokens$/);
  assert.throws(() => compareTime({ none: { ...run, records: [] } }), {
    code: 'CONFIG',
    message: /no recorded step/,
  });
});

test("a title begins with the run's name, unless the name is a word of the title already", () => {
  const titleOf = (title: string, runName: string): string =>
    createFigure({ title, runName, subtitle: '', data: [], layout: { height: 200 }, table: createTable([]) })
      .title;
  assert.equal(titleOf('All ranks wait', 'A'), 'A · All ranks wait');
  assert.equal(titleOf('"A" waits longer', 'A'), '"A" waits longer');
  assert.equal(titleOf('Ranks wait under FULL_SHARD', 'FULL_SHARD'), 'Ranks wait under FULL_SHARD');
});
