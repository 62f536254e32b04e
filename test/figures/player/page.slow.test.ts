import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type Browser, launch, type Page } from 'puppeteer-core';
import { sumOf } from '../../../src/core';
import { playerBundle, playerHtml } from '../../../src/figures/player/player';
import { reachedPoint } from '../../../src/figures/player/player-view';
import { describePosition } from '../../../src/figures/player/point-words';
import type { WalkRecord } from '../../../src/figures/player/walk-record';
import { importScript } from '../../project/scripts';
import { chromium as name, skipWithoutChromium as skip } from '../../support/chromium';
import { fsdpRecord, pipelineRecord } from './records';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-player-'));
let browser: Browser | undefined;

before(async () => {
  if (name === undefined) return;
  const executablePath = spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim();
  browser = await launch({ executablePath, args: ['--no-sandbox'], userDataDir: join(folder, 'profile') });
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

const RECORDS = [fsdpRecord(), pipelineRecord()] as const;
const [FSDP, PIPELINE] = RECORDS;

/** Opens a page with players of these records, the second record twice. */
async function opened(width: number, isDark: boolean) {
  const players = [FSDP, PIPELINE, PIPELINE].map((record) => playerHtml(record, { round: 2 }));
  const colours = isDark ? 'background:#111111;color:#e4e4e4' : '';
  const file = join(folder, `page-${width}-${isDark}.html`);
  writeFileSync(
    file,
    `<!doctype html><meta charset="utf-8"><body style="margin:8px;${colours}">${players.join('\n<p>text</p>\n')}`,
  );
  const page = await (browser ?? assert.fail('no browser')).newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => errors.push(message.text()));
  page.on('request', (request) => {
    if (!/^(file|data):/.test(request.url())) errors.push(request.url());
  });
  await page.setViewport({ width, height: 900 });
  await page.goto(pathToFileURL(file).href);
  await page.waitForFunction('document.querySelectorAll(".shardlab-player").length === 3');
  return { page, errors };
}

/** What a player shows. */
interface Shown {
  readonly round: string;
  readonly slider: string;
  readonly sentences: readonly string[];
  readonly bars: readonly (readonly (readonly [cause: string, bytes: number, pixels: number])[])[];
  readonly totals: readonly string[];
  readonly line: readonly string[];
  readonly here: readonly string[];
  /** The left end of the outline around the present round, in columns. */
  readonly column: number;
}

const ROOT = (player: number): string =>
  `document.querySelectorAll('.shardlab-player')[${player}].shadowRoot`;

async function shown(page: Page, player: number): Promise<Shown> {
  const found = await page.evaluate(`(() => {
    const root = ${ROOT(player)};
    const all = (selector, from = root) => [...from.querySelectorAll(selector)];
    const texts = (selector) => all(selector).map((each) => each.textContent.trim());
    const now = root.querySelector('.now').getBoundingClientRect();
    const lanes = root.querySelector('.lanes').getBoundingClientRect();
    return {
      round: root.querySelector('output').textContent,
      slider: root.querySelector('input').value,
      sentences: texts('li'),
      bars: all('.row > div').map((bar) => all('i', bar).map((part) => [part.dataset.cause, Number(part.dataset.bytes), part.getBoundingClientRect().width])),
      totals: texts('.row em'),
      line: texts('code.at'),
      here: all('tr.here th').map((each) => each.title),
      column: (now.left + 1 - lanes.left) / (now.width - 2),
    };
  })()`);
  return found as Shown; // made by the lines above
}

/** Asserts that a player shows this round of its record: its sentences, its bars on one scale, and its line. */
async function assertShows(page: Page, player: number, record: WalkRecord, round: number): Promise<void> {
  const found = await shown(page, player);
  const positions = record.rounds[round] ?? assert.fail('no such round');
  assert.equal(found.round, `round ${round + 1} of ${record.rounds.length}`);
  assert.equal(found.slider, `${round + 1}`);
  const reached = positions.map((position, rank) => reachedPoint(record, rank, position));
  assert.deepEqual(
    found.sentences,
    positions.map((position, rank) => describePosition(rank, position, reached[rank])),
  );
  const totals = reached.map((point) => sumOf(point?.bytes ?? [], Number));
  assert.deepEqual(
    found.bars.map((bar) => sumOf(bar, ([, bytes]) => bytes)),
    totals,
  );
  for (const [rank, bar] of found.bars.entries()) {
    for (const [cause, bytes] of bar) {
      const index = (record.causes as readonly string[]).indexOf(cause);
      assert.equal(bytes, reached[rank]?.bytes[index], `${cause} of rank ${rank}`);
    }
  }
  const scales = found.bars.flat().map(([, bytes, pixels]) => pixels / bytes);
  assert.ok(Math.max(...scales) < Math.min(...scales) * 1.01, 'all bars have one scale');
  const lines = reached.flatMap((point) => {
    const place = point?.place === null || point === undefined ? undefined : record.places[point.place];
    return place === undefined ? [] : [place.lines[place.at]?.trim()];
  });
  assert.deepEqual(found.line, [...new Set(lines)]);
  assert.ok(Math.abs(found.column - round) < 0.1, `the outline is at column ${found.column}`);
}

/** Finds texts that are cut, too small, or that lie over another text; and whether the player fills its parent. */
const FAULTS = (player: number): string => `(() => {
  const root = ${ROOT(player)};
  const faults = [];
  const leaves = [...root.querySelectorAll('.player *')].filter((each) =>
    [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '') && each.closest('select') === null);
  const boxes = leaves.map((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return { text: each.textContent, each, box: range.getBoundingClientRect() };
  }).filter(({ box, each }) => box.width > 0 && each.closest('.lines') === null);
  for (const { each, text } of boxes) {
    if (parseFloat(getComputedStyle(each).fontSize) < 11) faults.push(text + ' is too small');
  }
  const area = root.querySelector('.player').getBoundingClientRect();
  for (const { text, box } of boxes) {
    if (box.left < area.left || box.right > area.right + 0.5 || box.bottom > area.bottom) faults.push(text + ' leaves the player');
  }
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    if (a.each.contains(b.each) || b.each.contains(a.each)) return;
    const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    if (across > 2 && down > 4) faults.push("'" + a.text + "' lies over '" + b.text + "'");
  }));
  for (const most of root.querySelectorAll('.most')) {
    const at = most.getBoundingClientRect().right;
    const total = most.parentElement.querySelector('em').getBoundingClientRect();
    if (at > total.left) faults.push('a total lies over the line of the most bytes');
  }
  return faults;
})()`;

for (const [width, isDark] of [
  [1280, false],
  [1280, true],
  [1600, false],
  [1600, true],
] as const) {
  test(`on a ${isDark ? 'dark' : 'light'} page of ${width} pixels, slider, buttons and keys show the rounds of the record`, {
    skip,
  }, async () => {
    const { page, errors } = await opened(width, isDark);
    await assertShows(page, 0, FSDP, 2);
    await page.evaluate(`${ROOT(0)}.querySelector('[data-does=next]').click()`);
    await assertShows(page, 0, FSDP, 3);
    await page.evaluate(`${ROOT(0)}.querySelector('.player').focus()`);
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    await assertShows(page, 0, FSDP, 1);
    await page.keyboard.press('End');
    await assertShows(page, 0, FSDP, FSDP.rounds.length - 1);
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowRight');
    await assertShows(page, 0, FSDP, 1);
    await page.evaluate(`${ROOT(0)}.querySelector('input').focus()`);
    for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowRight');
    await assertShows(page, 0, FSDP, 5);
    for (let round = 0; round < FSDP.rounds.length; round++) {
      await page.evaluate(`(() => {
        const slider = ${ROOT(0)}.querySelector('input');
        slider.value = ${round + 1};
        slider.dispatchEvent(new Event('input'));
      })()`);
      await assertShows(page, 0, FSDP, round);
      assert.deepEqual(await page.evaluate(FAULTS(0)), [], `round ${round + 1}`);
    }
    // The other players did not move.
    await assertShows(page, 1, PIPELINE, 2);
    await assertShows(page, 2, PIPELINE, 2);
    assert.deepEqual(await page.evaluate(FAULTS(1)), []);
    assert.deepEqual(errors, []);
    await page.close();
  });
}

test('the space bar plays 2 rounds per second and halts, and a chosen speed holds', { skip }, async () => {
  const { page } = await opened(1280, false);
  await page.evaluate(`(() => { const speed = ${ROOT(1)}.querySelector('.bar select');
    speed.value = '8'; speed.dispatchEvent(new Event('change')); ${ROOT(1)}.querySelector('.player').focus(); })()`);
  const began = Date.now();
  await page.keyboard.press(' ');
  assert.equal(await page.evaluate(`${ROOT(1)}.querySelector('[data-does=play]').title`), 'pause');
  await page.waitForFunction(`${ROOT(1)}.querySelector('input').value === '6'`);
  assert.ok(Date.now() - began > 300, 'three rounds take three eighths of a second');
  await page.keyboard.press(' ');
  assert.equal(await page.evaluate(`${ROOT(1)}.querySelector('[data-does=play]').title`), 'play');
  // At the last round a player halts by itself; from there it plays from the first round.
  await page.keyboard.press('End');
  await page.keyboard.press(' ');
  await page.waitForFunction(`${ROOT(1)}.querySelector('[data-does=play]').title === 'play'`);
  await assertShows(page, 1, PIPELINE, PIPELINE.rounds.length - 1);
  await assertShows(page, 0, FSDP, 2);
  await page.close();
});

test('keys work after a button that disables itself, and a player that plays halts when another button or key is pressed', {
  skip,
}, async () => {
  const { page, errors } = await opened(1280, false);
  const press = (does: string) => page.click(`.shardlab-player >>> [data-does=${does}]`);
  const last = FSDP.rounds.length - 1;
  await press('first');
  await page.keyboard.press('ArrowRight');
  await assertShows(page, 0, FSDP, 1);
  await press('last');
  await page.keyboard.press('ArrowLeft');
  await assertShows(page, 0, FSDP, last - 1);
  await press('play');
  await page.keyboard.press('Home');
  assert.equal(await page.evaluate(`${ROOT(0)}.querySelector('[data-does=play]').title`), 'play');
  for (const does of ['next', 'next', 'previous', 'first', 'last']) {
    await press('play');
    assert.equal(await page.evaluate(`${ROOT(0)}.querySelector('[data-does=play]').title`), 'pause');
    await press(does);
    assert.equal(await page.evaluate(`${ROOT(0)}.querySelector('[data-does=play]').title`), 'play', does);
  }
  await assertShows(page, 0, FSDP, last);
  await page.evaluate(`${ROOT(1)}.querySelector('[data-does=first]').click()`);
  assert.equal(
    await page.evaluate(`document.activeElement === ${ROOT(0)}.host`),
    true,
    'a button without the focus does not move it',
  );
  assert.deepEqual(errors, []);
  await page.close();
});

test('the panels are side by side on a wide page and stacked on a narrow one, as wide as the output', {
  skip,
}, async () => {
  const tops = async (width: number) => {
    const { page } = await opened(width, false);
    const found = await page.evaluate(`(() => {
      const root = ${ROOT(0)};
      const tops = ['.memory', '.tree', '.source'].map((each) => root.querySelector(each).getBoundingClientRect().top);
      const body = document.body.getBoundingClientRect().width;
      return { columns: tops.filter((top) => top === tops[0]).length, width: root.host.getBoundingClientRect().width - body,
        scrolls: document.documentElement.scrollWidth > innerWidth };
    })()`);
    await page.close();
    return found;
  };
  assert.deepEqual(await tops(1600), { columns: 3, width: 0, scrolls: false });
  assert.deepEqual(await tops(1280), { columns: 3, width: 0, scrolls: false });
  assert.deepEqual(await tops(480), { columns: 1, width: 0, scrolls: false });
});

test('texts have the colour of the page, and a page without scripts has the still with its words', {
  skip,
}, async () => {
  for (const isDark of [false, true]) {
    const { page } = await opened(1280, isDark);
    const colour = await page.evaluate(`getComputedStyle(${ROOT(0)}.querySelector('li')).color`);
    assert.equal(colour, isDark ? 'rgb(228, 228, 228)' : 'rgb(0, 0, 0)');
    await page.setJavaScriptEnabled(false);
    await page.reload();
    const still = (await page.$('[data-shardlab-player] img')) ?? assert.fail('no still');
    const alt = String(await (await still.getProperty('alt')).jsonValue());
    assert.match(alt, /round 3 of 27: rank 0 is about to run forward of layers\.0; rank 1/);
    assert.ok(((await still.boundingBox())?.height ?? 0) > 150);
    await page.close();
  }
});

test("on a page of the site a player runs in a frame of its own height, with the page's colours, also after the theme changes", {
  skip,
}, async () => {
  const { notebookPage } = await importScript<{
    notebookPage(path: string, notebook: unknown): { readonly markdown: string };
  }>('site/notebook-page');
  const outputs = [{ output_type: 'display_data', data: playerBundle(PIPELINE) }];
  const { markdown } = notebookPage('notebooks/02.ipynb', {
    cells: [{ cell_type: 'code', source: 'walk', outputs }],
  });
  const line = markdown.split('\n').find((text) => text.startsWith('<div class="output"')) ?? '';
  assert.match(line, /<\/div>$/, 'the output is one line of Markdown');
  assert.match(line, /title="Step 1 of a pipeline, &lt;b>1F1B/);
  const file = join(folder, 'site.html');
  const style =
    'iframe { width: 100%; border: 0 } .dark { color-scheme: dark; color: #dfdfd6; background: #1b1b1f }';
  writeFileSync(file, `<!doctype html><meta charset="utf-8"><style>${style}</style>${line}`);
  const page = await (browser ?? assert.fail('no browser')).newPage();
  await page.goto(pathToFileURL(file).href);
  const frame = page.frames().find((each) => each !== page.mainFrame()) ?? assert.fail('no frame');
  await frame.waitForFunction("document.querySelector('.shardlab-player') !== null");
  await frame.evaluate(`${ROOT(0)}.querySelector('[data-does=first]').click()`);
  assert.equal(await frame.evaluate(`${ROOT(0)}.querySelector('output').textContent`), 'round 1 of 9');
  const hidden = 'document.documentElement.scrollHeight - innerHeight';
  await frame.waitForFunction(`${hidden} === 0`);
  const height = Number(await page.evaluate("document.querySelector('iframe').clientHeight"));
  assert.ok(height > 200 && height < 500, `${height} pixels high`);
  await page.evaluate("document.documentElement.className = 'dark'");
  await frame.waitForFunction(
    `getComputedStyle(${ROOT(0)}.querySelector('li')).color === 'rgb(223, 223, 214)' && document.documentElement.style.colorScheme === 'dark'`,
  );
  await page.close();
});
