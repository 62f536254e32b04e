import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { metadataOf } from '../../src/cell/excerpt';
import { DISPLAY } from '../../src/core/display';
import type { Figure } from '../../src/figures/figure';
import { DARK, escapeHtml, LIGHT } from '../../src/figures/grammar/ink';
import { darkSvg } from '../../src/figures/static/page-svg';
import { OWN_FONTS } from '../../src/figures/static/png';
import { digestOf } from './digest';
import { gallery } from './gallery';
import { assertGolden } from './golden';
import { plannedFigures } from './planned';
import { loadPlotly, problemsOf } from './plotly-validate';
import { textFaults, textsOf } from './svg-texts';

const all = gallery();
const figures = Object.entries(all);
const plotly = loadPlotly();

test("plotly's check finds faults in the stand-in browser", () => {
  assert.deepEqual(problemsOf(plotly, { data: [{ type: 'bar', x: [1], foo: 3 }], layout: {} }), [
    'In data trace 0, key foo is not part of the schema',
  ]);
});

test('texts that overlap and texts outside the picture are found', () => {
  const text = (x: number, inner: string): string =>
    `<text x="${x}" y="20" font-size="11" text-anchor="start" fill="#222"><tspan>${inner}</tspan></text>`;
  const svg = `<svg xmlns="" width="100" height="30">${text(5, 'first')}${text(20, 'second')}${text(80, 'outside')}</svg>`;
  assert.deepEqual(textFaults(svg), ["'outside' leaves the picture", "'first' lies over 'second'"]);
});

test('the fonts of pictures are part of the package', () => {
  assert.deepEqual(
    OWN_FONTS.map((path) => existsSync(path)),
    [true, true, true],
  );
});

for (const [name, figure] of figures) {
  test(`${name}: plotly's schema accepts the figure`, () => {
    assert.deepEqual(problemsOf(plotly, figure.toPlotly()), []);
  });

  test(`${name}: no text leaves the static picture or overlaps another`, () => {
    assert.deepEqual(textFaults(figure.toSvg(LIGHT)), []);
  });

  test(`${name}: the title is a finding of at most 75 characters, and no number in the picture is broken`, () => {
    assert.ok(figure.title.length > 0 && figure.title.length <= 75, figure.title);
    assert.ok(!/NaN|Infinity|undefined/.test(figure.toSvg(LIGHT)), 'the picture holds a broken number');
    assert.ok(!/NaN|undefined/.test(figure.title + figure.subtitle), figure.title);
  });
}

test('a notebook gets an SVG as wide as the page, a PNG with two pixels per pixel, and a text', () => {
  const [, figure] = figures[0] ?? assert.fail('no figure');
  const bundle = figure[DISPLAY]();
  assert.deepEqual(Object.keys(bundle), ['text/html', 'image/png', 'text/plain']);
  const html = String(bundle['text/html']);
  assert.ok(html.startsWith(`<img alt="${escapeHtml(figure.title)}. `), html.slice(0, 200));
  const svg = svgOf(figure);
  assert.match(svg, /^<svg [^>]*class="shardlab-figure" width="100%"[^>]* viewBox="0 0 800 \d+"/);
  assert.doesNotMatch(svg, /<svg [^>]* height=/);
  const png = Buffer.from(String(bundle['image/png']), 'base64');
  assert.equal(png.subarray(1, 4).toString(), 'PNG');
  const { width, height } = figure.toPlotly().layout;
  assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [Number(width) * 2, Number(height) * 2]);
  assert.ok(String(bundle['text/plain']).startsWith(figure.title));
});

test("as a cell's value, plotly's figure is interactive, and its JSON has only what plotly needs", () => {
  const [, figure] = figures[0] ?? assert.fail('no figure');
  const plotlyFigure = figure.toPlotly();
  const bundle = plotlyFigure[DISPLAY]?.() ?? assert.fail('plotly shows nothing');
  assert.deepEqual(Object.keys(bundle), ['application/vnd.plotly.v1+json', 'text/plain']);
  assert.deepEqual(Object.keys(plotlyFigure), ['data', 'layout', 'config']);
});

/** The SVG that a notebook shows. */
function svgOf(figure: Figure): string {
  const [, data = ''] =
    /src="data:image\/svg\+xml;base64,([^"]*)"/.exec(String(figure[DISPLAY]()['text/html'])) ?? [];
  return Buffer.from(data, 'base64').toString();
}

/** Applies the style sheet of a picture as a browser with a dark page does. */
function onDarkPage(svg: string): string {
  const [, rules = ''] = /<style>@media \(prefers-color-scheme:dark\)\{(.*)\}<\/style>/.exec(svg) ?? [];
  const colors = [...rules.matchAll(/\[(\w+="[^"]*")\]\{(\w+):([^}]*)\}/g)];
  const plainSvg = svg
    .replace(/<style>.*<\/style>/, '')
    .replace(/(class="paper"[^>]* fill=")[^"]*/, `$1${/\.paper\{fill:([^}]*)\}/.exec(rules)?.[1]}`);
  return colors.reduce(
    (text, [, attribute = '', key, color]) => text.replaceAll(` ${attribute}`, ` ${key}="${color}"`),
    plainSvg,
  );
}

test('on a dark page, a picture has the colours of the picture for dark pages', () => {
  // Hatches have other names there, and dark pictures have the grid of light ones.
  const common = (svg: string): string =>
    svg
      .replace(/<svg [^>]*>/, '')
      .replaceAll(/hatch-?\w*?-?(\d+)(?=[")])/g, 'hatch$1')
      .replaceAll('rgba(190,190,190,', 'rgba(128,128,128,');
  for (const [name, figure] of figures) {
    const wanted = common(figure.toSvg(DARK));
    assert.ok(common(onDarkPage(svgOf(figure))) === wanted, name);
    assert.ok(common(darkSvg(svgOf(figure))) === wanted, name);
  }
});

test('a picture and an interactive figure have the same background and text colours', () => {
  const [, figure] = figures[0] ?? assert.fail('no figure');
  const interactive = JSON.stringify(figure.toPlotly());
  for (const color of [LIGHT.background, LIGHT.strong, LIGHT.soft]) {
    assert.ok(interactive.includes(color) && figure.toSvg(LIGHT).includes(color), color);
  }
  const dark = figure.toSvg(DARK);
  assert.ok(dark.includes(DARK.strong) && dark.includes(DARK.background) && !dark.includes(LIGHT.strong));
});

test('no name in a figure is cut off', () => {
  for (const [name, figure] of [...figures, ...Object.entries(plannedFigures())]) {
    const cut = textsOf(figure.toSvg(LIGHT)).filter(
      ({ text }) => text.includes('…') && text !== figure.title,
    );
    assert.deepEqual(
      cut.map(({ text }) => text),
      [],
      name,
    );
  }
});

test('a picture has its title and description as alternative text', () => {
  const [, figure] = figures[0] ?? assert.fail('no figure');
  assert.ok(figure.toSvg().includes(`role="img" aria-label="${escapeHtml(figure.title)}"`));
  const { 'image/png': picture } = metadataOf(figure[DISPLAY]());
  assert.ok(String((picture as { alt: string }).alt).startsWith(figure.title)); // a figure's bundle has a picture
  assert.deepEqual(metadataOf({ 'text/plain': '1' }), {});
});

test('figures give their numbers as rows, CSV and frames', async () => {
  const { 'comm-causes-4': causes } = all;
  assert.ok(causes !== undefined);
  assert.equal(causes.toCsv().split('\n').length, causes.table.rows.length + 2);
  const frame = await causes.frame();
  assert.deepEqual(frame.shape, [causes.table.rows.length, causes.table.columns.length]);
});

const GOLDEN = [
  'traffic-nodes',
  'compare-comm-nodes',
  'memory-timeline-4',
  'memory-ranks-64',
  'compare-memory',
  'comm-timeline-4',
  'comm-causes-4',
  'compare-time',
  'compare-timeline',
  'compare-comm-tokens',
  'compare-comm',
  'compare-memory-timeline',
  'memory-spaces',
  'loss-live',
];
for (const name of GOLDEN) {
  test(`${name}: the figure's words and data equal the golden file`, () => {
    assertGolden(name, digestOf(all[name] ?? assert.fail(`no figure ${name}`)));
  });
}
