import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { DISPLAY } from '../../src/core/display';
import type { Figure } from '../../src/figures/figure';
import { DARK, LIGHT, plain } from '../../src/figures/grammar/ink';
import { lossCurve } from '../../src/figures/loss-curve';
import { darkSvg, lightSvg } from '../../src/figures/static/page-svg';
import { gallery } from '../figures/gallery';
import { textsOf } from '../figures/svg-texts';
import { type Notebook, notebookInputs } from '../notebooks/executed';
import { importScript } from './scripts';
import { ROOT, readFiles } from './sources';

interface Still {
  readonly name: string;
  readonly alt: string;
  readonly svg: string;
}

interface Stills {
  stillsOf(paths: readonly string[]): readonly Still[];
  stillPng(svg: string, theme: string): Buffer;
}

interface Page {
  readonly FILM: { readonly name: string; readonly notebook: string };
  pageOf(stills: readonly Still[]): string;
}

interface Film {
  readonly SCENES: readonly {
    readonly cell: number;
    readonly shots: readonly { readonly seconds: number }[];
  }[];
}

const FOLDER = join(ROOT, 'docs', 'pictures');
const WIDTH = 1600;
const KILOBYTE = 1000;

const stillsModule = importScript<Stills>('pictures/stills');
const pageModule = importScript<Page>('pictures/page');
const filmModule = importScript<Film>('pictures/film');

test('the page of pictures agrees with the figures that are stored in notebooks', async () => {
  const { stillsOf } = await stillsModule;
  const { pageOf } = await pageModule;
  const { notebookFiles } = await notebookInputs();
  assert.equal(
    readFileSync(join(FOLDER, 'README.md'), 'utf8'),
    pageOf(stillsOf(notebookFiles())),
    'make the pictures again: npm run pictures -- --stills',
  );
});

test('every picture has a file for light and one for dark pages, 1,600 pixels wide, and no file is large', async () => {
  const { stillsOf } = await stillsModule;
  const { FILM } = await pageModule;
  const { notebookFiles } = await notebookInputs();
  const stills = stillsOf(notebookFiles());
  const names = [...stills.map(({ name }) => `${name}.png`), `${FILM.name}.webp`];
  const files = names.flatMap((name) => ['dark', 'light'].map((theme) => name.replace('.', `-${theme}.`)));
  assert.deepEqual(readdirSync(FOLDER).sort(), ['README.md', ...files].sort());
  for (const file of files) {
    const most = file.endsWith('.png') ? 120 : 1000;
    assert.ok(statSync(join(FOLDER, file)).size <= most * KILOBYTE, `${file} is larger than ${most} kB`);
    assert.equal(widthOf(readFileSync(join(FOLDER, file))), WIDTH, file);
  }
  const sum = files.reduce((bytes, file) => bytes + statSync(join(FOLDER, file)).size, 0);
  assert.ok(sum <= 1500 * KILOBYTE, `all pictures together have ${sum} bytes`);
});

test('every picture that a page names is there, and a page that names a light one also names the dark one', () => {
  const pages = new Map([
    ...readFiles(['docs'], '.md'),
    ...readdirSync(ROOT)
      .filter((name) => name.endsWith('.md'))
      .map((name): [string, string] => [name, readFileSync(join(ROOT, name), 'utf8')]),
  ]);
  for (const [page, text] of pages) {
    const named = new Set(
      [...text.matchAll(/pictures\/([\w-]+\.(?:png|webp))/g)].map(([, file = '']) => file),
    );
    for (const file of named) {
      if (file.startsWith('NAME-')) continue;
      assert.ok(existsSync(join(FOLDER, file)), `${page}: ${file}`);
      const other = file.includes('-light.')
        ? file.replace('-light.', '-dark.')
        : file.replace('-dark.', '-light.');
      assert.ok(named.has(other), `${page} names ${file}, but not ${other}`);
    }
  }
});

test('the film has the shots of its scenes, runs for about ten seconds, and its notebook has their cells', async () => {
  const { SCENES } = await filmModule;
  const { FILM } = await pageModule;
  const shown = SCENES.flatMap(({ shots }) => shots).filter(({ seconds }) => seconds > 0);
  const { cells } = JSON.parse(readFileSync(join(ROOT, FILM.notebook), 'utf8')) as Notebook;
  for (const { cell } of SCENES) assert.ok(cells[cell] !== undefined, `cell ${cell}`);
  for (const theme of ['light', 'dark']) {
    const times = frameMilliseconds(readFileSync(join(FOLDER, `${FILM.name}-${theme}.webp`)));
    assert.equal(times.length, shown.length);
    const seconds = times.reduce((sum, time) => sum + time, 0) / 1e3;
    assert.ok(seconds >= 9 && seconds <= 12, `${seconds} s`);
  }
});

test('a picture of a stored figure is the figure, without the line about a guess', async (context) => {
  const { stillsOf, stillPng } = await stillsModule;
  const figure = gallery()['comm-causes-4'] ?? assert.fail('no figure');
  for (const note of ['Answer: 7.', "Guess first: sl.guess('00.a', …)."]) {
    const [still] = stillsOf([fileOf(context, notebookOf(figure.withNote(note), ['picture:causes']))]);
    assert.ok(still !== undefined && !still.svg.includes(note.slice(0, 7)));
    assert.equal(still.alt, `${figure.title}. ${plain(figure.subtitle)}`);
    assert.deepEqual(
      textsOf(lightSvg(still.svg))
        .map(({ text }) => text)
        .filter((text) => text !== ''),
      textsOf(figure.toSvg(LIGHT)).map(({ text }) => text),
    );
  }
  const [still] = stillsOf([fileOf(context, notebookOf(figure, ['picture:causes']))]);
  for (const [theme, colors] of Object.entries({ light: LIGHT, dark: DARK })) {
    const png = stillPng(still?.svg ?? '', theme);
    assert.equal(widthOf(png), WIDTH);
    assert.ok((theme === 'dark' ? darkSvg : lightSvg)(still?.svg ?? '').includes(colors.background));
  }
});

test('for a tagged cell without a figure, and for a name twice, an error says what to do', async (context) => {
  const { stillsOf } = await stillsModule;
  const figure = lossCurve([{ name: '', losses: [3, 2.5, 2] }]);
  const tagged = notebookOf(figure, ['picture:loss']);
  const [still] = stillsOf([fileOf(context, tagged)]);
  assert.equal(still?.name, 'loss');
  assert.ok(still.alt.startsWith('The loss falls from 3.000 to 2.000'), still.alt);
  assert.deepEqual(stillsOf([fileOf(context, notebookOf(figure, []))]), []);
  const lost = { cells: tagged.cells.map((cell) => ({ ...cell, outputs: [] })) };
  assert.throws(() => stillsOf([fileOf(context, lost)]), /has the tag picture:loss, but no figure/);
  const file = fileOf(context, tagged);
  assert.throws(() => stillsOf([file, file]), /Two cells have the tag picture:loss/);
});

function notebookOf(figure: Figure, tags: readonly string[]): Notebook {
  const data: Readonly<Record<string, unknown>> = figure[DISPLAY]();
  const outputs = [{ output_type: 'display_data', data }];
  const cell = { cell_type: 'code', source: '', metadata: { tags }, outputs } as const;
  return { cells: [cell] };
}

function fileOf(context: TestContext, notebook: Notebook): string {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-pictures-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'some.ipynb');
  writeFileSync(file, JSON.stringify(notebook));
  return file;
}

/** The width of a PNG (its IHDR chunk), or of an animated WebP (its VP8X chunk). */
function widthOf(bytes: Buffer): number {
  return bytes.toString('latin1', 1, 4) === 'PNG' ? bytes.readUInt32BE(16) : bytes.readUIntLE(24, 3) + 1;
}

/** How long an animated WebP shows each of its frames: the durations in its ANMF chunks. */
function frameMilliseconds(bytes: Buffer): readonly number[] {
  const times: number[] = [];
  for (let at = 12; at < bytes.length; ) {
    const size = bytes.readUInt32LE(at + 4);
    if (bytes.toString('latin1', at, at + 4) === 'ANMF') times.push(bytes.readUIntLE(at + 8 + 12, 3));
    at += 8 + size + (size % 2);
  }
  return times;
}
