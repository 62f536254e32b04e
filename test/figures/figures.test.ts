import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { DARK, LIGHT } from '../../src/figures/grammar/ink';
import { ownFonts } from '../../src/figures/static/png';
import { DISPLAY } from '../../src/figures/table';
import { digestOf } from './digest';
import { gallery } from './gallery';
import { assertGolden } from './golden';
import { loadPlotly, problemsOf } from './plotly-validate';
import { textFaults } from './svg-texts';

const figures = Object.entries(gallery());
const plotly = loadPlotly();

test('the stand-in browser lets plotly find faults', () => {
  assert.deepEqual(problemsOf(plotly, { data: [{ type: 'bar', x: [1], foo: 3 }], layout: {} }), [
    'In data trace 0, key foo is not part of the schema',
  ]);
});

test('texts that overlap, and texts that leave the picture, are found', () => {
  const text = (x: number, inner: string): string =>
    `<text x="${x}" y="20" font-size="11" text-anchor="start" fill="#222"><tspan>${inner}</tspan></text>`;
  const svg = `<svg xmlns="" width="100" height="30">${text(5, 'first')}${text(20, 'second')}${text(80, 'outside')}</svg>`;
  assert.deepEqual(textFaults(svg), ["'outside' leaves the picture", "'first' lies over 'second'"]);
});

test('pictures bring their own font: a machine may have none', () => {
  assert.deepEqual(
    ownFonts().map((path) => existsSync(path)),
    [true, true, true],
  );
});

for (const [name, figure] of figures) {
  test(`${name}: plotly's schema accepts the figure`, () => {
    assert.deepEqual(problemsOf(plotly, figure.toPlotly()), []);
  });

  test(`${name}: no text leaves the static picture or lies over another`, () => {
    assert.deepEqual(textFaults(figure.toSvg(LIGHT)), []);
  });

  test(`${name}: the title is a finding of at most 75 characters, and no number in the picture is broken`, () => {
    assert.ok(figure.title.length > 0 && figure.title.length <= 75, figure.title);
    assert.ok(!/NaN|Infinity|undefined/.test(figure.toSvg(LIGHT)), 'the picture holds a broken number');
    assert.ok(!/NaN|undefined/.test(figure.title + figure.subtitle), figure.title);
  });
}

test('a notebook gets plotly without a width, a PNG and a text', () => {
  const [, figure] = figures[0] ?? assert.fail('no figure');
  const bundle = figure[DISPLAY]();
  assert.deepEqual(Object.keys(bundle), ['application/vnd.plotly.v1+json', 'image/png', 'text/plain']);
  const { layout } = figure.toPlotly();
  assert.equal(layout.autosize, true);
  assert.ok(!('width' in layout));
  const png = Buffer.from(String(bundle['image/png']), 'base64');
  assert.equal(png.subarray(1, 4).toString(), 'PNG');
  assert.equal(png.readUInt32BE(16), 800);
  assert.ok(String(bundle['text/plain']).startsWith(figure.title));
});

test('colours of text follow the host: plotly gets its variables, static pictures a theme', () => {
  const [, figure] = figures[0] ?? assert.fail('no figure');
  assert.ok(JSON.stringify(figure.toPlotly()).includes('--jp-ui-font-color1'));
  for (const theme of [LIGHT, DARK]) {
    const svg = figure.toSvg(theme);
    assert.ok(!svg.includes('var(') && svg.includes(theme.strong) && svg.includes(theme.background));
  }
});

test('figures give their numbers as rows, csv and frames', async () => {
  const { 'comm-causes-4': causes } = gallery();
  assert.ok(causes !== undefined);
  assert.equal(causes.toCsv().split('\n').length, causes.table.rows.length + 2);
  const frame = await causes.frame();
  assert.deepEqual(frame.shape, [causes.table.rows.length, causes.table.columns.length]);
});

const GOLDEN = [
  'memory-timeline-4',
  'memory-ranks-64',
  'compare-memory',
  'comm-timeline-4',
  'comm-causes-4',
  'compare-timeline',
  'compare-comm-tokens',
  'compare-comm',
  'compare-memory-timeline',
  'memory-spaces',
  'loss-live',
];
for (const name of GOLDEN) {
  test(`${name}: what the figure says and shows is golden`, () => {
    assertGolden(name, digestOf(gallery()[name] ?? assert.fail(`no figure ${name}`)));
  });
}
