import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { DISPLAY } from '../../src/core/display';
import type { Figure } from '../../src/figures/figure';
import { STATIC_WIDTH } from '../../src/figures/grammar/template';
import { valuesHere } from '../support/cases';
import { chromium as browser, skipWithoutChromium as skip } from '../support/chromium';
import { gallery } from './gallery';
import { plannedFigures } from './planned';

/** The measurements of one interactive figure in the page. */
interface Drawn {
  readonly name: string;
  readonly width: number;
  readonly paper: string;
  readonly faults: readonly string[];
}

for (const [width, page] of [
  [1280, '#111111'],
  [1600, '#ffffff'],
] as const) {
  test(`on a page of ${width} pixels and ${page} interactive figures are as wide as their pictures, and no texts overlap`, {
    skip,
  }, () => {
    const names = width === 1280 ? NAMES : valuesHere(NAMES, [1, 5, 9, 10]);
    const found = drawn(width, page, names);
    assert.equal(found.length, names.length);
    for (const { name, width: drawnWidth, paper, faults } of found) {
      assert.deepEqual(faults, [], name);
      assert.equal(drawnWidth, STATIC_WIDTH, name);
      assert.equal(paper, 'rgb(255, 255, 255)', name);
    }
  });
}

for (const [scheme, paper] of [
  ['light', [255, 255, 255]],
  ['dark', [17, 17, 17]],
  ['normal', [255, 255, 255]],
] as const) {
  test(`on a page whose color-scheme is ${scheme} a picture is as wide as the page, and its paper has the page's colour`, {
    skip,
  }, () => {
    const { 'memory-ranks-4': figure } = FIGURES;
    const html = String(figure?.[DISPLAY]()['text/html']);
    for (const width of [760, 1080]) {
      const page = `<body style="color-scheme:${scheme};margin:0;width:${width}px">${html}<script>${PAPER_IN_PAGE}</script>`;
      assert.deepEqual(answerOf(page, 1600), { width, alt: figure?.title, paper });
    }
  });
}

/** All figures, which both pages draw from. */
const FIGURES: Readonly<Record<string, Figure>> =
  browser === undefined ? {} : { ...gallery(), ...plannedFigures() };

function figures(names: readonly string[]): Readonly<Record<string, Figure>> {
  return Object.fromEntries(names.map((name) => [name, FIGURES[name] ?? assert.fail(`no figure ${name}`)]));
}

const NAMES = [
  'memory-ranks-4',
  'memory-timeline-4',
  'compare-memory',
  'compare-memory-timeline',
  'comm-causes-4',
  'compare-comm',
  'compare-comm-tokens',
  'comm-timeline-4',
  'compare-timeline',
  'loss-live',
  'plan-memory',
  'time-breakdown',
  'what-if',
  'ranked-layouts',
  'claims-some',
  'claims-many',
  'scaling-efficiency',
  'accuracy-few',
];

function drawn(width: number, page: string, names: readonly string[]): Drawn[] {
  const plotly = pathToFileURL(createRequire(__filename).resolve('plotly.js/dist/plotly-basic.js')).href;
  const json = JSON.stringify(
    Object.entries(figures(names)).map(([name, figure]) => ({ name, ...figure.toPlotly() })),
  );
  const script = `const figures = ${json.replaceAll('<', '\\u003c')};${IN_PAGE}`;
  return answerOf(
    `<body style="background:${page}"><script src="${plotly}"></script><script>${script}</script>`,
    width,
  ) as Drawn[]; // made by IN_PAGE
}

/** Opens a page in Chromium, and returns the answer that its script writes into it. */
function answerOf(body: string, width: number): unknown {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-page-'));
  try {
    const file = join(folder, 'page.html');
    writeFileSync(file, `<!doctype html><meta charset="utf-8">${body}`);
    const flags = [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      `--window-size=${width},900`,
      `--user-data-dir=${folder}`,
    ];
    const args = [...flags, '--virtual-time-budget=20000', '--dump-dom', pathToFileURL(file).href];
    const { stdout, stderr } = spawnSync(browser ?? '', args, {
      encoding: 'utf8',
      timeout: 120_000,
      maxBuffer: 1e9,
    });
    const answer = /<pre id="found">(.*?)<\/pre>/s.exec(stdout)?.[1];
    assert.ok(answer !== undefined, stderr.slice(-2000));
    return JSON.parse(Buffer.from(answer, 'base64').toString('utf8'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Writes a script's answer into the page. */
const ANSWER = `
const answerWith = (found) => {
  const answer = document.createElement('pre');
  answer.id = 'found';
  answer.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
  document.body.append(answer);
};`;

/** Runs in the page: measures its picture, and reads the colour of the picture's paper. */
const PAPER_IN_PAGE = `${ANSWER}
(async () => {
  const picture = document.querySelector('img');
  await picture.decode();
  const context = document.createElement('canvas').getContext('2d');
  document.body.append(context.canvas);
  context.drawImage(picture, 0, 0, 300, 150);
  const paper = [...context.getImageData(298, 148, 1, 1).data].slice(0, 3);
  answerWith({ width: picture.getBoundingClientRect().width, alt: picture.alt.split('. ')[0], paper });
})();`;

/** Runs in the page: draws the figures, and measures where plotly put their texts. */
const IN_PAGE = `${ANSWER}
const faultsOf = (node) => {
  const area = node.getBoundingClientRect();
  const boxes = [...node.querySelectorAll('text')]
    .map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }))
    .filter(({ text, box }) => text.trim() !== '' && box.width > 0);
  const outside = boxes.filter(
    ({ box }) => box.left < area.left - 1 || box.right > area.right + 1 || box.bottom > area.bottom + 1,
  );
  const over = boxes.flatMap((a, i) => boxes.slice(i + 1).flatMap((b) => {
    const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    return across > 3 && down > 3 ? ["'" + a.text + "' lies over '" + b.text + "'"] : [];
  }));
  return [...outside.map(({ text }) => "'" + text + "' leaves the figure"), ...over];
};
(async () => {
  const found = [];
  for (const { name, data, layout, config } of figures) {
    const node = document.createElement('div');
    document.body.append(node);
    await Plotly.newPlot(node, data, layout, config);
    const paper = getComputedStyle(node.querySelector('.main-svg')).backgroundColor;
    const { width } = node.querySelector('.main-svg').getBoundingClientRect();
    found.push({ name, width, paper, faults: faultsOf(node) });
  }
  answerWith(found);
})();`;
