import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fromBuild } from '../from-build.mjs';
import { root } from '../places.mjs';
import { StepError } from '../step.mjs';
import { startPictureLab } from './lab.mjs';
import { FILM } from './page.mjs';

/** The size of the filmed notebook, in CSS pixels: as wide as a cell with a figure of 800 pixels. */
const PANEL = { width: 920, height: 640 };
/** The width of a frame in pixels: 2 per CSS pixel of a page that shows it 800 pixels wide. */
export const FRAME_WIDTH = 1600;
const PATIENCE_MILLISECONDS = 120_000;
/** JupyterLab changes its layout in steps; no event says that it has finished. */
const SETTLE_MILLISECONDS = 1000;

/** The names of Chromium, which the tests of pages look for too. */
const BROWSERS = JSON.parse(readFileSync(join(root, 'scripts', 'lib', 'browsers.json'), 'utf8'));

/** Hides what says nothing about the cells, and breaks the lines of outputs between words. */
const STYLE = `.jp-cell-toolbar, .jp-Notebook-footer, .modebar { display: none !important }
.jp-OutputArea-output pre { word-break: normal !important }`;

/**
 * The scenes of the film, in the notebook's order of cells. A shot is taken when `until` is true: 'selected' (the cell has not
 * run), 'done' (the cell has run), a number of seconds after the start, or a text in the cell's outputs. With `interrupt`, the
 * Stop button is pressed before. `seconds` is how long the film shows the shot; 0: not at all.
 */
export const SCENES = [
  { cell: 0, shots: [{ until: 'done', seconds: 0 }] },
  {
    cell: 1,
    shots: [
      { until: 'selected', seconds: 1.2 },
      { until: 'done', seconds: 1.8 },
    ],
  },
  {
    cell: 2,
    shots: [
      { until: /step [4-9]\/20/, seconds: 0.5 },
      { until: /step 1[2-7]\/20/, seconds: 0.5 },
    ],
  },
  {
    cell: 3,
    shots: [{ until: 'done', seconds: 2.4 }],
  },
  {
    cell: 4,
    shots: [
      { until: 1.5, seconds: 1 },
      { interrupt: true, until: 'done', seconds: 0.6 },
    ],
  },
  { cell: 5, shots: [{ until: 'done', seconds: 2.4 }] },
];

/** Films the notebook in a JupyterLab with a light or dark theme; `folder` is for its files. Returns the shots: { png, seconds }. */
export async function filmShots(setup, folder, theme) {
  const executablePath = process.env.PATH.split(delimiter)
    .flatMap((folder) => BROWSERS.map((name) => join(folder, name)))
    .find((path) => existsSync(path));
  if (executablePath === undefined) {
    throw new StepError(
      `No Chromium was found (${BROWSERS.join(', ')} on the PATH); the film needs one.`,
      'Debian, Ubuntu: sudo apt-get install chromium',
      'without the film: npm run pictures -- --stills',
    );
  }
  mkdirSync(folder, { recursive: true });
  cpSync(join(root, FILM.notebook), join(folder, 'film.ipynb'));
  const lab = await startPictureLab(setup, {
    folder,
    theme: `JupyterLab ${theme === 'dark' ? 'Dark' : 'Light'}`,
  });
  try {
    const puppeteer = createRequire(import.meta.url)('puppeteer-core');
    // Chromium has no sandbox for the root user.
    const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
    const browser = await puppeteer.launch({ executablePath, args });
    try {
      return await film(browser, lab);
    } finally {
      await browser.close();
    }
  } finally {
    await lab.end();
  }
}

async function film(browser, { url, token }) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MILLISECONDS);
  await page.goto(`${url}/doc/tree/film.ipynb?token=${token}`);
  await page.waitForSelector('.jp-Notebook .jp-CodeCell');
  await page.addStyleTag({ content: `${STYLE}\n${fontStyle()}` });
  const clip = await fitPanel(page);
  await page.waitForFunction(
    () => document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle',
  );
  const taken = [];
  for (const { cell, shots } of SCENES) {
    await select(page, cell);
    if (shots[0].until !== 'selected') await run(page);
    for (const { until, interrupt = false, seconds } of shots) {
      if (interrupt) await page.click('.jp-NotebookPanel-toolbar [data-jp-item-name="interrupt"]');
      await reach(page, cell, until);
      await show(page, cell);
      if (seconds > 0) taken.push({ seconds, png: await page.screenshot({ clip }) });
      if (until === 'selected') await run(page);
    }
    await reach(page, cell, 'done');
  }
  return taken;
}

/** Makes the page's texts have the font of the figures, because a machine may have few fonts. */
function fontStyle() {
  const faces = fromBuild('figures/static/png').OWN_FONTS.map((file) => {
    const weight = /inter-(\d+)/.exec(file)?.[1];
    const data = readFileSync(file).toString('base64');
    return `@font-face { font-family: Inter; font-weight: ${weight}; src: url(data:font/ttf;base64,${data}) }`;
  });
  const ui = ['ui', 'content'].map((name) => `--jp-${name}-font-family: Inter, sans-serif;`);
  return `${faces.join('\n')}\nbody { ${ui.join(' ')} }`;
}

/** Makes the notebook's panel as large as PANEL, and returns its place on the page. */
async function fitPanel(page) {
  const place = async () => {
    await delay(SETTLE_MILLISECONDS);
    return page.$eval('.jp-NotebookPanel', (panel) => {
      const { x, y, width, height } = panel.getBoundingClientRect();
      return { x, y, width, height };
    });
  };
  const first = { width: 1100, height: 800, deviceScaleFactor: FRAME_WIDTH / PANEL.width };
  await page.setViewport(first);
  const { width, height } = await place();
  await page.setViewport({
    ...first,
    width: Math.round(first.width + PANEL.width - width),
    height: Math.round(first.height + PANEL.height - height),
  });
  return place();
}

async function select(page, cell) {
  const prompts = await page.$$('.jp-Notebook .jp-Cell .jp-InputPrompt');
  await prompts[cell].click();
}

async function run(page) {
  await page.keyboard.down('Control');
  await page.keyboard.press('Enter');
  await page.keyboard.up('Control');
}

/** Waits until a cell's shot can be taken. */
async function reach(page, cell, until) {
  if (until === 'selected') return;
  if (typeof until === 'number') return delay(until * 1e3);
  if (until instanceof RegExp) {
    await page.waitForFunction(
      (index, pattern) =>
        new RegExp(pattern).test(
          document.querySelectorAll('.jp-Notebook .jp-Cell')[index].querySelector('.jp-OutputArea')
            .textContent,
        ),
      {},
      cell,
      until.source,
    );
    return;
  }
  await page.waitForFunction(
    (index) =>
      /\[\d+\]/.test(
        document.querySelectorAll('.jp-Notebook .jp-Cell')[index].querySelector('.jp-InputPrompt')
          .textContent,
      ),
    {},
    cell,
  );
}

/** Scrolls to a cell's end. */
async function show(page, cell) {
  const cells = await page.$$('.jp-Notebook .jp-Cell');
  await cells[cell].evaluate((node) => node.scrollIntoView({ block: 'end' }));
  await page.mouse.move(0, 0);
  await delay(SETTLE_MILLISECONDS / 2);
}
