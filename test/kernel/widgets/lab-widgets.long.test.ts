import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Page } from 'puppeteer-core';
import { type Lab, press, python, ready, runCell, skipWithoutLab, startLab } from './lab';

const skip = skipWithoutLab();
const timeout = 300_000;
let lab: Lab;

before(async () => {
  if (skip === false) lab = await startLab();
});

after(async () => {
  if (skip === false) await lab.stop();
});

const RUN = `
import * as sl from 'shardlab';
const job = await sl.launch({ ranks: 2 });
const run = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });`.trim();

/** Opens a new notebook with these cells. */
async function opened(notebook: string, cells: readonly string[]): Promise<Page> {
  lab.write(notebook, cells);
  const page = await lab.open(notebook);
  await ready(page, cells.length);
  return page;
}

/** Waits until a cell's outputs have a text. */
async function shows(page: Page, cell: number, part: string): Promise<void> {
  const text = `document.querySelectorAll('.jp-Notebook .jp-Cell')[${cell}]?.querySelector('.jp-OutputArea')?.innerText`;
  await page.waitForFunction(`(${text} ?? '').includes(${JSON.stringify(part)})`).catch(async (error) => {
    throw new Error(`cell ${cell} shows '${await page.evaluate(text)}', not '${part}'`, { cause: error });
  });
}

/** Waits until the prompts of all cells are these. */
async function prompts(page: Page, wanted: string): Promise<void> {
  const text =
    "[...document.querySelectorAll('.jp-Notebook .jp-Cell .jp-InputPrompt')].map((prompt) => prompt.innerText).join('')";
  await page.waitForFunction(`${text} === ${JSON.stringify(wanted)}`).catch(async (error) => {
    throw new Error(`the prompts are ${await page.evaluate(text)}, not ${wanted}`, { cause: error });
  });
}

const RANGE = '.shardlab-widget input[type=range]';
const STOP = `[...document.querySelectorAll('.shardlab-widget button')].find(({ textContent }) => textContent.includes('Stop'))`;

/** Drags the slider from its left to a share of its width. */
async function drag(page: Page, share: number): Promise<void> {
  const box = (await (await page.$(RANGE))?.boundingBox()) ?? assert.fail('no slider');
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + 4, y);
  await page.mouse.down();
  for (let x = 4; x < share * box.width; x += 4) await page.mouse.move(box.x + x, y);
  await page.mouse.up();
}

test('a dragged slider shows the newest value, is stored with it, and works after a reload', {
  skip,
  timeout,
}, async () => {
  const page = await opened('slider.ipynb', [
    "import * as sl from 'shardlab'",
    `let numCalls = 0;
    sl.slider({ min: 8, max: 512, step: 8, value: 64, label: 'gpus' }).onChange((gpus) => {
      console.log('planned', gpus, 'call', ++numCalls);
      return sl.plan('llama3-8b', { on: 'H100-80G', gpus }).memory();
    })`,
  ]);
  await runCell(page, 0);
  await runCell(page, 1);
  await shows(page, 1, 'planned 64 call 1');
  await drag(page, 0.75);
  const value = Number(await page.evaluate(`document.querySelector('${RANGE}').value`));
  assert.ok(value > 300, `${value}`);
  await shows(page, 1, `planned ${value} `);
  // A key moves the slider by its step, and stays in it.
  await page.keyboard.press('ArrowRight');
  await shows(page, 1, `planned ${value + 8} `);
  await press(page, 's');
  const saved = await lab.savedWith('slider.ipynb', `slider gpus = ${value + 8}`);
  assert.match(saved, new RegExp(`planned ${value + 8} call`));
  assert.ok(!saved.includes('widget-view'), 'a page without the kernel shows the stored text and figure');
  await page.waitForFunction(`document.activeElement === document.querySelector('${RANGE}')`);
  await page.reload();
  await shows(page, 1, `planned ${value + 8} `);
  await page.waitForSelector(RANGE);
  assert.equal(await page.evaluate(`document.querySelector('${RANGE}').value`), `${value + 8}`);
  await drag(page, 0.25);
  const again = await page.evaluate(`document.querySelector('${RANGE}').value`);
  await shows(page, 1, `planned ${again} `);
  await page.close();
});

test('nbconvert and a page without a kernel show the last value and the last figure of a slider', {
  skip,
  timeout,
}, async () => {
  const html = join(lab.folder, 'slider.html');
  const from = join(lab.folder, 'slider.ipynb');
  const made = spawnSync(python ?? '', ['-m', 'nbconvert', '--to', 'html', from], { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  const page = readFileSync(html, 'utf8');
  assert.ok(/<b>gpus<\/b> <code>\d+<\/code>/.test(page), 'the name and the value');
  assert.ok(/planned \d+ call[\s\S]*<img/.test(page), 'what the callback has shown');
});

test('a cell that still runs says so after a reload, shows what it has shown, and its Stop button ends it', {
  skip,
  timeout,
}, async () => {
  const cells = [RUN, "console.log('before');\nawait run.step(100_000)"];
  const page = await opened('running.ipynb', cells);
  await runCell(page, 0);
  await prompts(page, '[1]:[ ]:');
  await press(page, 's');
  await lab.savedWith('running.ipynb', '"execution_count": 1');
  await runCell(page, 1);
  await page.waitForFunction(`${STOP} !== undefined`);
  await page.reload();
  await prompts(page, '[1]:[*]:');
  await shows(page, 1, 'before');
  await page.waitForFunction(`${STOP} !== undefined`);
  await page.evaluate(`${STOP}.click()`);
  await shows(page, 1, 'by the Stop button');
  await prompts(page, '[1]:[2]:');
  await page.waitForFunction(`${STOP} === undefined`);
  await page.close();
});

test('a page that is opened after a cell has ended shows its outputs', { skip, timeout }, async () => {
  const page = await opened('away.ipynb', [
    "console.log('begun');\nawait new Promise((resolve) => setTimeout(resolve, 2000));\n6 * 7",
  ]);
  await runCell(page, 0);
  await shows(page, 0, 'begun');
  await page.close();
  await delay(2500);
  const again = await lab.open('away.ipynb');
  await shows(again, 0, 'begun');
  await shows(again, 0, '42');
  await prompts(again, '[1]:');
  await again.close();
});

test('pictures that differ by rank are tabs, which arrow keys choose', { skip, timeout }, async () => {
  const page = await opened('tabs.ipynb', [
    "import * as sl from 'shardlab';\nconst job = await sl.launch({ ranks: 3 })",
    `%%ranks
const svg = \`<svg xmlns="http://www.w3.org/2000/svg" width="80" height="20"><text y="15">\${Math.min(rank, 1)}</text></svg>\`;
console.log('rank prints', Math.min(rank, 1));
display({ 'image/svg+xml': svg, 'text/plain': 'a picture' }, { raw: true })`,
  ]);
  await runCell(page, 0);
  await runCell(page, 1);
  await shows(page, 1, 'rank prints 0');
  const tabs =
    "[...document.querySelectorAll('.jp-OutputArea [role=tab]')].map((tab) => [tab.textContent, tab.ariaSelected].join(' ')).join()";
  await page.waitForFunction(`${tabs} === 'rank 0 true,ranks 1-2 agree false'`);
  await page.evaluate("document.querySelector('.jp-OutputArea [role=tab]').focus()");
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction(`${tabs} === 'rank 0 false,ranks 1-2 agree true'`);
  await shows(page, 1, 'rank prints 1');
  await page.close();
});
