import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { notebookFiles } from '../notebook-inputs.mjs';
import { root } from '../places.mjs';
import { setUp } from '../setup.mjs';
import { runMain, step, UsageError } from '../step.mjs';
import { filmShots } from './film.mjs';
import { ensurePacker, pack } from './pack.mjs';
import { FILM, PICTURES, pageOf, pictureFile, THEMES } from './page.mjs';
import { stillPng, stillsOf } from './stills.mjs';

const HELP = `npm run pictures [-- options]   make the pictures of docs/pictures, for light and dark pages
  From the stored figures of the cells of notebooks that have a tag picture:NAME, and from a film of a notebook in JupyterLab.
  It needs what npm start needs, Pillow (pip installs it into build), and for the film Chromium.
  --stills   only the figures of notebooks; needs no browser
  --film     only the film`;

/** The main function of `npm run pictures`. */
export function main() {
  return runMain(async () => {
    const { help, stills, film } = readOptions();
    if (help) {
      process.stdout.write(`${HELP}\n`);
      return 0;
    }
    const setup = await setUp('run');
    await step('Pillow', (say) => ensurePacker(setup, say));
    mkdirSync(join(root, PICTURES), { recursive: true });
    const work = mkdtempSync(join(tmpdir(), 'shardlab-pictures-'));
    try {
      if (!film) await step('pictures of figures', (say) => makeStills(setup, work, say));
      if (!stills)
        for (const theme of THEMES) await step(`film, ${theme}`, () => makeFilm(setup, work, theme));
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
    return 0;
  });
}

function readOptions() {
  const options = Object.fromEntries(['help', 'stills', 'film'].map((name) => [name, { type: 'boolean' }]));
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    throw new UsageError(error.message, HELP);
  }
}

async function makeStills(setup, work, say) {
  const found = stillsOf(notebookFiles());
  const stills = found.flatMap(({ name, svg }) =>
    THEMES.map((theme) => {
      const from = join(work, `${name}-${theme}.png`);
      writeFileSync(from, stillPng(svg, theme));
      return { from, to: pictureFile(name, theme) };
    }),
  );
  await pack(setup, work, { stills });
  writeFileSync(join(root, PICTURES, 'README.md'), pageOf(found));
  say(`${stills.length} files`);
}

async function makeFilm(setup, work, theme) {
  const shots = await filmShots(setup, join(work, theme), theme);
  const frames = shots.map(({ png }, i) => {
    const frame = join(work, `${theme}-${i}.png`);
    writeFileSync(frame, png);
    return frame;
  });
  const seconds = shots.map((shot) => shot.seconds);
  await pack(setup, work, { films: [{ frames, seconds, to: pictureFile(FILM.name, theme) }] });
}
