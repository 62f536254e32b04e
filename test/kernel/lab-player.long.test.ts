import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Page } from 'puppeteer-core';
import { PLAYER_CELL } from './player-cell';
import { type Lab, press, python, ready, runCell, skipWithoutLab, startLab } from './widgets/lab';

const skip = skipWithoutLab();
const NOTEBOOK = 'walk.ipynb';
const CELLS = [PLAYER_CELL.trim(), 'shown'];
let lab: Lab;

before(async () => {
  if (skip === false) lab = await startLab();
});

after(async () => {
  if (skip === false) await lab.stop();
});

/** Opens a fresh notebook of two cells. */
async function openFresh(): Promise<Page> {
  lab.write(NOTEBOOK, CELLS);
  return await lab.open(NOTEBOOK);
}

const ROOT = "(document.querySelector('.jp-OutputArea .shardlab-player')?.shadowRoot)";

/** Waits until the player in the page shows this round, and whether its ranks can be asked. */
async function waitFor(page: Page, round: string, isLive: boolean): Promise<void> {
  const condition = `(() => {
    const root = ${ROOT};
    return root?.querySelector('output').textContent === '${round}' && root.querySelector('.ranks').hidden === ${!isLive};
  })()`;
  await page.waitForFunction(condition).catch(async (error: unknown) => {
    const found = await page.evaluate(
      `${ROOT}?.querySelector('.player').innerText ?? document.querySelector('.jp-Notebook').innerText`,
    );
    throw new Error(`the player does not show ${round}, but: ${found}`, { cause: error });
  });
}

async function click(page: Page, does: string): Promise<void> {
  // The ranks' buttons wait for the answer to the request before.
  await page.waitForFunction(`!${ROOT}.querySelector('[data-does=${does}]').disabled`);
  await page.evaluate(`${ROOT}.querySelector('[data-does=${does}]').click()`);
}

/** Runs both cells by the keyboard. */
async function runAll(page: Page): Promise<void> {
  await ready(page, CELLS.length);
  for (const index of CELLS.keys()) await runCell(page, index);
}

test('in JupyterLab the buttons of a live player move the ranks, keys stay in it, a reload restores it, and its end is stored', {
  skip,
  timeout: 300_000,
}, async () => {
  const page = await openFresh();
  await runAll(page);
  await waitFor(page, 'round 1 of 1', true);
  await click(page, 'step');
  await waitFor(page, 'round 2 of 2', true);
  await page.evaluate(`${ROOT}.querySelector('.bar.ranks select').value = 'loss'`);
  await click(page, 'until');
  await waitFor(page, 'round 11 of 11', true);
  // The player's keys do not reach the notebook, whose space bar and arrows would scroll and choose cells.
  await page.evaluate(`${ROOT}.querySelector('.player').focus()`);
  await page.keyboard.press('ArrowRight');
  await waitFor(page, 'round 12 of 12', true);
  await page.keyboard.press('Home');
  await waitFor(page, 'round 1 of 12', true);
  const numCells = await page.evaluate("document.querySelectorAll('.jp-Notebook .jp-Cell').length");
  await page.keyboard.press('b'); // in the notebook, a new cell below
  assert.equal(await page.evaluate("document.querySelectorAll('.jp-Notebook .jp-Cell').length"), numCells);
  // Control+S does reach it.
  await press(page, 's');
  await lab.savedWith(NOTEBOOK, 'widget-view');
  await page.reload();
  await waitFor(page, 'round 12 of 12', true);
  await click(page, 'step');
  await waitFor(page, 'round 13 of 13', true);
  await click(page, 'live');
  await waitFor(page, 'round 27 of 27', false);
  await page.close();
});

test('a walk that ends leaves a player without ranks in the notebook, which nbconvert shows as HTML', {
  skip,
  timeout: 300_000,
}, async () => {
  const page = await openFresh();
  await runAll(page);
  await waitFor(page, 'round 1 of 1', true);
  await click(page, 'live');
  await waitFor(page, 'round 27 of 27', false);
  await press(page, 's');
  const saved = await lab.savedWith(NOTEBOOK, 'round 27 of 27');
  assert.ok(!saved.includes('widget-view'), 'the stored output needs no ranks');
  const html = join(lab.folder, 'walk.html');
  const made = spawnSync(python ?? '', ['-m', 'nbconvert', '--to', 'html', join(lab.folder, NOTEBOOK)], {
    encoding: 'utf8',
  });
  assert.equal(made.status, 0, made.stderr);
  await page.goto(`file://${html}`);
  const root = "document.querySelector('.shardlab-player').shadowRoot";
  await page.waitForFunction(`document.querySelector('.shardlab-player') !== null`);
  await page.evaluate(`${root}.querySelector('[data-does=first]').click()`);
  assert.equal(await page.evaluate(`${root}.querySelector('output').textContent`), 'round 1 of 27');
  await page.close();
});
