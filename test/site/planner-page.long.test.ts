import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type Browser, launch, type Page } from 'puppeteer-core';
import { importScript } from '../project/scripts';
import { chromium as name, skipWithoutChromium as skip } from '../support/chromium';
import { repositoryRoot } from '../support/paths';
import { PLANS } from './plans';

const ROOT = repositoryRoot();

const folder = mkdtempSync(join(tmpdir(), 'shardlab-planner-page-'));
const file = join(folder, 'planner.html');
let browser: Browser | undefined;

before(async () => {
  if (name === undefined) return;
  const script = await importScript<{ buildPlannerPage(file: string): Promise<unknown> }>('planner-page');
  await script.buildPlannerPage(file);
  const executablePath = spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim();
  browser = await launch({ executablePath, args: ['--no-sandbox'], userDataDir: join(folder, 'profile') });
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Opens the page from its file; `errors` gets what its console says. */
async function opened(hash = '', { width = 1280, scheme = 'light' } = {}) {
  const page = await (browser ?? assert.fail('no browser')).newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => errors.push(message.text()));
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await page.goto(`${pathToFileURL(file).href}${hash === '' ? '' : `#${hash}`}`);
  return { page, errors };
}

/** Returns the text of an element. */
function text(page: Page, id: string): Promise<string> {
  return page.$eval(`#${id}`, (element) => element.textContent ?? '');
}

/** Returns the numbers of the plan that the address holds, when the page shows them. */
async function numbers(page: Page): Promise<object> {
  await page.bringToFront(); // Chromium draws no page that is behind another one
  await page.waitForFunction("document.getElementById('document').dataset.of === location.hash.slice(1)");
  return JSON.parse(await text(page, 'document')) as object; // the page writes an object
}

/** Runs a command that the page shows; `--json` makes it print the same document. */
function answered(command: string): object {
  const program = join(ROOT, 'build', 'src', 'cli', 'main.js');
  const line = command.replace('shardlab plan', `'${process.execPath}' '${program}' plan`);
  const json = line.includes('--batch') ? line : `${line} --json`;
  return JSON.parse(execFileSync('sh', ['-c', json], { encoding: 'utf8', stdio: 'pipe' })) as object; // an object
}

test('ten plans of the page, opened from its file, equal those of its command to the digit', {
  skip,
}, async () => {
  const { page, errors } = await opened();
  for (const [title, settings] of Object.entries(PLANS)) {
    await page.evaluate(`location.hash = shardlab.hash(${JSON.stringify(settings)})`);
    const shown = await numbers(page);
    const command = await text(page, 'text-command');
    assert.match(command, /^shardlab plan \S+ --/, title);
    assert.deepEqual(shown, answered(command), `${title}: ${command}`);
    assert.equal('nearest' in shown, title === 'does not fit', title);
  }
  assert.deepEqual(errors, []);
});

test("a model's config.json is planned as by the command, which reads it from stdin", { skip }, async () => {
  const { page } = await opened('model=gpt2&on=A100-80G&gpus=16');
  const config = {
    ...{ _name_or_path: 'me/mine', model_type: 'llama', hidden_size: 2048, num_hidden_layers: 24 },
    ...{
      num_attention_heads: 16,
      intermediate_size: 8192,
      vocab_size: 64_000,
      max_position_embeddings: 4096,
    },
  };
  await page.evaluate("document.getElementById('config-text').closest('details').open = true");
  await page.type('#config-text', JSON.stringify(config));
  await page.click('#config-use');
  const shown = (await numbers(page)) as Record<string, unknown>;
  assert.match(await text(page, 'sentence'), /^me\/mine on 16 x A100-80G/);
  const { layout: _layout, ...plan } = shown;
  assert.deepEqual(plan, answered(await text(page, 'text-command')));
  await page.type('#config-text', 'x');
  await page.click('#config-use');
  assert.match(await text(page, 'config-text-fault'), /^This is not JSON/);
});

test('a link opens the same plan again, and the browser goes back to a plan before a change', {
  skip,
}, async () => {
  const first = await opened('model=llama3-70b&on=A100-80G&gpus=8');
  const before = await numbers(first.page);
  await first.page.waitForSelector('#changes button');
  const change = await first.page.$eval('#changes tbody th', (cell) => cell.textContent ?? '');
  await first.page.click('#changes button');
  const changed = (await numbers(first.page)) as { readonly fits: boolean };
  assert.equal(changed.fits, true, change);
  const second = await opened((await text(first.page, 'text-link')).split('#')[1]);
  assert.deepEqual(await numbers(second.page), changed);
  await first.page.goBack();
  assert.deepEqual(await numbers(first.page), before);
});

test('a proposed change, applied by its button, has the time and the memory of its row', {
  skip,
}, async () => {
  const { page } = await opened('model=llama3-8b&on=H100-80G&gpus=64&batch=2');
  for (const index of [0, 2, 5]) {
    await page.waitForSelector('#changes button');
    const row = await page.$$eval(
      '#changes tbody tr',
      (rows, i) => [...(rows[i]?.querySelectorAll('td') ?? [])].map((cell) => cell.textContent ?? ''),
      index,
    );
    const [time, memory] = row.map((cell) => cell.replace(/ [^ ]*%$/, ''));
    await page.$$eval(
      '#changes button',
      (buttons, i) => (buttons[i] as unknown as { click(): void }).click(),
      index,
    );
    await numbers(page);
    const sentence = await text(page, 'sentence');
    assert.ok(sentence.includes(`: ${time} per iteration`), `${time}: ${sentence}`);
    assert.ok(sentence.includes(`, ${memory} of `), `${memory}: ${sentence}`);
    await page.goBack();
    await numbers(page);
  }
});

test('a plan is changed with the keyboard alone, and a change that is not legal is named at its field', {
  skip,
}, async () => {
  const { page, errors } = await opened('model=llama3-8b&on=H100-80G&gpus=8');
  const focused = () => page.evaluate('document.activeElement.id') as Promise<string>;
  const tabTo = async (id: string): Promise<void> => {
    for (let presses = 0; presses < 60 && (await focused()) !== id; presses++)
      await page.keyboard.press('Tab');
    assert.equal(await focused(), id);
    const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle');
    assert.equal(outline, 'solid', `${id} shows that it has the focus`);
  };
  await tabTo('skip');
  await page.keyboard.press('Enter');
  assert.equal(await focused(), 'sentence');
  assert.equal(new URL(page.url()).hash, '#model=llama3-8b&on=H100-80G&gpus=8');
  await page.evaluate('document.activeElement.blur()');
  await page.evaluate('scrollTo(0, 0); getSelection().removeAllRanges()');
  await page.focus('#field-model');
  await tabTo('field-gpus');
  await page.keyboard.press('End');
  await page.keyboard.press('Backspace');
  await page.keyboard.type('16');
  await tabTo('field-parallel-tp');
  await page.keyboard.type('2');
  await tabTo('field-activationCheckpointing');
  await page.keyboard.type('full');
  const { layout } = (await numbers(page)) as { layout: Record<string, unknown> };
  assert.equal(
    new URL(page.url()).hash,
    '#model=llama3-8b&on=H100-80G&gpus=16&parallel.tp=2&activationCheckpointing=full',
  );
  assert.equal(layout.recompute, 'full');
  await page.focus('#field-parallel-tp');
  await page.keyboard.press('Backspace');
  await page.keyboard.type('-3');
  assert.match(await text(page, 'field-parallel-tp-fault'), /^parallel\.tp: expected .* got -3/);
  assert.match(await text(page, 'faults'), /the last one that could be made/);
  assert.match(await text(page, 'sentence'), /^llama3-8b on 16/);
  const unnamed = await page.evaluate(
    "[...document.querySelectorAll('input, select, textarea')].filter((each) => each.labels.length === 0).map((each) => each.id)",
  );
  assert.deepEqual(unnamed, []);
  assert.deepEqual(errors, []);
});

test('a link whose parts are no settings shows the rest, and names these parts', { skip }, async () => {
  for (const [hash, part] of [
    ['model=llama3-8b&on=H100-80G&gpus=8&par', 'par'],
    ['junk', 'junk'],
    ['model=llama3-8b&gpus=8&tokens=-5', 'tokens=-5'],
  ] as const) {
    const { page } = await opened(hash);
    assert.match(await text(page, 'faults'), new RegExp(`a part that is no setting: ${part}$`), hash);
    assert.match(await text(page, 'sentence'), /^llama3-8b on/);
    await page.close();
  }
});

test('links that are cut, strange or of an unknown model show a sentence, and no empty page', {
  skip,
}, async () => {
  for (const hash of [
    'model=llama9',
    'x',
    'model=%E0%A4%A&gpus=x',
    'a.b.c=1',
    '__proto__.x=1&model=[]',
    'model=tiny&on=null',
  ]) {
    const { page, errors } = await opened(hash);
    const shown = await page.evaluate('document.querySelector("main").innerText');
    assert.match(String(shown), /There is no plan yet|MFU/, hash);
    assert.deepEqual(errors, [], hash);
    await page.close();
  }
});

test('a page of 390 pixels needs no scrolling to the side', { skip }, async () => {
  for (const hash of [
    'model=llama3-70b&on=A100-80G&gpus=8',
    'model=Mixtral-8x7B&on=H100-80G&gpus=64&stack=megatron',
  ]) {
    const { page } = await opened(hash, { width: 390 });
    await numbers(page);
    await page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })");
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 390, hash);
  }
});

test('a page has the colours of dark and of light pages, and its text has a contrast of at least 4.5', {
  skip,
}, async () => {
  for (const [scheme, paper] of [
    ['dark', 'rgb(17, 17, 17)'],
    ['light', 'rgb(255, 255, 255)'],
  ] as const) {
    const { page } = await opened('model=llama3-70b&on=A100-80G&gpus=8&parallel.tp=x', { scheme });
    assert.equal(await page.evaluate('getComputedStyle(document.body).backgroundColor'), paper);
    const { page: planned } = await opened('model=llama3-70b&on=A100-80G&gpus=8', { scheme });
    await numbers(planned);
    for (const each of [page, planned]) assert.deepEqual(await each.evaluate(FAINT), [], scheme);
  }
});

/** Runs in the page: the texts whose contrast to their background is below 4.5 (WCAG 2, AA). */
const FAINT = `(() => {
  const rgb = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = rgb(color).map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (element) => {
    for (let each = element; each !== null; each = each.parentElement) {
      const color = getComputedStyle(each).backgroundColor;
      if (rgb(color)[3] !== 0) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  return [...document.querySelectorAll('main *, #form *, header *, footer *')]
    .filter((element) => element.checkVisibility() && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ''))
    .map((element) => ({ element, pair: [light(getComputedStyle(element).color), light(paper(element))].sort((a, b) => b - a) }))
    .filter(({ pair: [high, low] }) => (high + 0.05) / (low + 0.05) < 4.5)
    .map(({ element }) => element.tagName + ' ' + element.textContent.slice(0, 40));
})()`;

test("the sources of the page compile with the browser's types", () => {
  const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const { stdout, status } = spawnSync(process.execPath, [compiler, '-p', join(ROOT, 'site')], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stdout);
});
