import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { launch, type Page } from 'puppeteer-core';
import { kernelSpec } from '../../../src/cell/kernelspec';
import { freePort } from '../../../src/cli/lab/free-port';
import { chromium as name, skipWithoutChromium } from '../../support/chromium';
import { repositoryRoot } from '../../support/paths';
import { KERNEL_MAIN } from '../jupyter-client';

/** The Python of the tests; undefined if there is none here. */
export const python = process.env.SHARDLAB_PYTHON;

/** Why tests in JupyterLab are skipped; false if they run. */
export function skipWithoutLab(): string | false {
  if (skipWithoutChromium !== false) return skipWithoutChromium;
  if (python === undefined) return 'there is no Python here (npm test --no-python)';
  const has = (module: string): boolean => spawnSync(python, ['-c', `import ${module}`]).status === 0;
  const missing = ['jupyterlab', 'anywidget', 'nbconvert'].filter((module) => !has(module));
  return missing.length === 0 ? false : `the Python of these tests has no ${missing.join(' and no ')}`;
}

/** A JupyterLab with this kernel, and a browser. */
export interface Lab {
  /** The folder of the notebooks. */
  readonly folder: string;
  /** Writes a notebook with these cells. */
  write(notebook: string, cells: readonly string[]): void;
  /** Opens a notebook, once it is written. */
  open(notebook: string): Promise<Page>;
  /** Waits until the saved notebook has this text, and returns the file's text. */
  savedWith(notebook: string, text: string): Promise<string>;
  stop(): Promise<void>;
}

/** Starts JupyterLab and Chromium. */
export async function startLab(): Promise<Lab> {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-lab-'));
  const spec = kernelSpec({ node: process.execPath, main: KERNEL_MAIN });
  mkdirSync(join(folder, 'data', 'kernels', 'shardlab'), { recursive: true });
  writeFileSync(join(folder, 'data', 'kernels', 'shardlab', 'kernel.json'), JSON.stringify(spec));
  const port = (await freePort(18_960, '127.0.0.1')) ?? assert.fail('no free port');
  const address = `http://127.0.0.1:${port}`;
  const server = await startServer(folder, port, address);
  const executablePath = spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim();
  const browser = await launch({
    executablePath,
    args: ['--no-sandbox'],
    userDataDir: join(folder, 'profile'),
  });
  const open = async (notebook: string): Promise<Page> => {
    const page = await browser.newPage();
    page.setDefaultTimeout(90_000);
    page.on('dialog', (dialog) => void dialog.accept());
    await page.setViewport({ width: 1280, height: 900 });
    await page.goto(`${address}/doc/tree/${notebook}?token=secret`);
    return page;
  };
  return {
    folder,
    open,
    write(notebook, sources) {
      const cells = sources.map((source, id) => ({
        ...{ cell_type: 'code', id: `cell-${id}`, execution_count: null, metadata: {}, outputs: [], source },
      }));
      const kernelspec = { name: 'shardlab', display_name: spec.display_name, language: spec.language };
      const text = JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: { kernelspec }, cells });
      writeFileSync(join(folder, notebook), text);
    },
    async savedWith(notebook, text) {
      for (let attempt = 0; attempt < 100; attempt++) {
        const saved = readFileSync(join(folder, notebook), 'utf8');
        if (saved.includes(text)) return saved;
        await delay(100);
      }
      return assert.fail(`the saved notebook has no '${text}'`);
    },
    async stop() {
      await browser.close();
      // lab.py ends, with its kernels, when its input ends.
      const ended = new Promise((resolve) => server.once('close', resolve));
      server.stdin.end();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function startServer(folder: string, port: number, address: string) {
  const options = [`--port=${port}`, `--ServerApp.root_dir=${folder}`, '--IdentityProvider.token=secret'];
  const root = process.getuid?.() === 0 ? ['--allow-root'] : [];
  const server = spawn(
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
  return server;
}

/** Waits until the notebook has loaded and its kernel is idle. */
export async function ready(page: Page, numCells: number): Promise<void> {
  await page.bringToFront();
  await page.waitForFunction(
    `document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle' && document.querySelectorAll('.jp-Notebook .jp-Cell .jp-InputPrompt').length === ${numCells}`,
  );
}

/** Runs one cell by the keyboard. */
export async function runCell(page: Page, index: number): Promise<void> {
  // While JupyterLab still starts, it loses keys.
  for (let hasBegun = false; !hasBegun; ) {
    const prompts = await page.$$('.jp-Notebook .jp-Cell .jp-InputPrompt');
    await prompts[index]?.click();
    await press(page, 'Enter');
    const begun = `document.querySelectorAll('.jp-Notebook .jp-Cell .jp-InputPrompt')[${index}].innerText !== '[ ]:'`;
    hasBegun = await page.waitForFunction(begun, { timeout: 5000 }).then(
      () => true,
      () => false,
    );
  }
}

/** Presses a key with Control. */
export async function press(page: Page, key: 'Enter' | 's'): Promise<void> {
  await page.keyboard.down('Control');
  await page.keyboard.press(key);
  await page.keyboard.up('Control');
}
