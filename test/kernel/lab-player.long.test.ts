import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Browser, launch, type Page } from 'puppeteer-core';
import { kernelSpec } from '../../src/cell/kernelspec';
import { freePort } from '../../src/cli/lab/free-port';
import { chromium as name, skipWithoutChromium } from '../support/chromium';
import { repositoryRoot } from '../support/paths';
import { KERNEL_MAIN } from './jupyter-client';
import { PLAYER_CELL } from './player-cell';

const python = process.env.SHARDLAB_PYTHON;

/** Why the tests are skipped; false if they run. */
function whySkipped(): string | false {
  if (skipWithoutChromium !== false) return skipWithoutChromium;
  if (python === undefined) return 'there is no Python here (npm test --no-python)';
  const has = (module: string): boolean => spawnSync(python, ['-c', `import ${module}`]).status === 0;
  const missing = ['jupyterlab', 'anywidget', 'nbconvert'].filter((module) => !has(module));
  return missing.length === 0 ? false : `the Python of these tests has no ${missing.join(' and no ')}`;
}

const skip = whySkipped();
const folder = mkdtempSync(join(tmpdir(), 'shardlab-lab-player-'));
const NOTEBOOK = join(folder, 'walk.ipynb');
let browser: Browser | undefined;
let server: ChildProcess | undefined;
let address = '';

before(async () => {
  if (skip !== false) return;
  prepareFolder();
  const port = (await freePort(18_960, '127.0.0.1')) ?? assert.fail('no free port');
  address = `http://127.0.0.1:${port}`;
  const options = [`--port=${port}`, `--ServerApp.root_dir=${folder}`, '--IdentityProvider.token=secret'];
  const root = process.getuid?.() === 0 ? ['--allow-root'] : [];
  server = spawn(
    python ?? '',
    [join(repositoryRoot(), 'build', 'src', 'cli', 'lab', 'lab.py'), '--no-browser', ...options, ...root],
    {
      stdio: ['pipe', 'ignore', 'ignore'],
      env: {
        ...process.env,
        JUPYTER_PATH: join(folder, 'data'),
        JUPYTER_CONFIG_DIR: join(folder, 'config'),
        JUPYTERLAB_SETTINGS_DIR: join(folder, 'settings'),
        JUPYTERLAB_WORKSPACES_DIR: join(folder, 'workspaces'),
      },
    },
  );
  for (let hasAnswered = false; !hasAnswered; ) {
    assert.equal(server.exitCode, null, 'JupyterLab ended');
    hasAnswered = await fetch(`${address}/api`).then(
      () => true,
      () => false,
    );
    await delay(200);
  }
  const executablePath = spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim();
  browser = await launch({ executablePath, args: ['--no-sandbox'], userDataDir: join(folder, 'profile') });
});

after(async () => {
  await browser?.close();
  // lab.py ends, with its kernels, when its input ends.
  const ended = new Promise((resolve) => server?.once('close', resolve));
  server?.stdin?.end();
  if (server !== undefined) await ended;
  rmSync(folder, { recursive: true, force: true });
});

/** Writes a notebook of two cells, and the kernel's specification. */
function prepareFolder(): void {
  const spec = kernelSpec({ node: process.execPath, main: KERNEL_MAIN });
  mkdirSync(join(folder, 'data', 'kernels', 'shardlab'), { recursive: true });
  writeFileSync(join(folder, 'data', 'kernels', 'shardlab', 'kernel.json'), JSON.stringify(spec));
  const cells = [PLAYER_CELL.trim(), 'shown'].map((source, id) => ({
    ...{ cell_type: 'code', id: `cell-${id}`, execution_count: null, metadata: {}, outputs: [], source },
  }));
  const kernelspec = { name: 'shardlab', display_name: spec.display_name, language: spec.language };
  writeFileSync(
    NOTEBOOK,
    JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: { kernelspec }, cells }),
  );
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
  await page.evaluate(`${ROOT}.querySelector('[data-does=${does}]').click()`);
}

/** Runs both cells by the keyboard. */
async function runAll(page: Page): Promise<void> {
  await page.bringToFront();
  await page.waitForFunction(
    "document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle' && document.querySelectorAll('.jp-Notebook .jp-Cell .jp-InputPrompt').length === 2",
  );
  for (const index of [0, 1]) {
    // While JupyterLab still starts, it loses keys.
    for (let hasBegun = false; !hasBegun; ) {
      const prompts = await page.$$('.jp-Notebook .jp-Cell .jp-InputPrompt');
      await prompts[index]?.click();
      await page.keyboard.down('Control');
      await page.keyboard.press('Enter');
      await page.keyboard.up('Control');
      const begun = `document.querySelectorAll('.jp-Notebook .jp-Cell .jp-InputPrompt')[${index}].innerText !== '[ ]:'`;
      hasBegun = await page.waitForFunction(begun, { timeout: 5000 }).then(
        () => true,
        () => false,
      );
    }
  }
}

test('in JupyterLab the buttons of a live player move the ranks, keys stay in it, a reload restores it, and its end is stored', {
  skip,
  timeout: 300_000,
}, async () => {
  const page = await (browser ?? assert.fail('no browser')).newPage();
  page.setDefaultTimeout(90_000);
  page.on('dialog', (dialog) => void dialog.accept());
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(`${address}/doc/tree/walk.ipynb?token=secret`);
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
  await page.keyboard.down('Control');
  await page.keyboard.press('s');
  await page.keyboard.up('Control');
  await savedWith('widget-view');
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
  prepareFolder();
  const page = await (browser ?? assert.fail('no browser')).newPage();
  page.setDefaultTimeout(90_000);
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(`${address}/doc/tree/walk.ipynb?token=secret`);
  await runAll(page);
  await waitFor(page, 'round 1 of 1', true);
  await click(page, 'live');
  await waitFor(page, 'round 27 of 27', false);
  await page.keyboard.down('Control');
  await page.keyboard.press('s');
  await page.keyboard.up('Control');
  const saved = await savedWith('round 27 of 27');
  assert.ok(!saved.includes('widget-view'), 'the stored output needs no ranks');
  const html = join(folder, 'walk.html');
  const made = spawnSync(python ?? '', ['-m', 'nbconvert', '--to', 'html', NOTEBOOK], { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  await page.goto(`file://${html}`);
  const root = "document.querySelector('.shardlab-player').shadowRoot";
  await page.waitForFunction(`document.querySelector('.shardlab-player') !== null`);
  await page.evaluate(`${root}.querySelector('[data-does=first]').click()`);
  assert.equal(await page.evaluate(`${root}.querySelector('output').textContent`), 'round 1 of 27');
  await page.close();
});

/** Waits until the saved notebook has this text, and returns the file's text. */
async function savedWith(text: string): Promise<string> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const saved = readFileSync(NOTEBOOK, 'utf8');
    if (saved.includes(text)) return saved;
    await delay(100);
  }
  return assert.fail(`the saved notebook has no '${text}'`);
}
