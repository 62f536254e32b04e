import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { EXERCISES } from '../../src/session/exercises/exercise';
import { readNotebook } from '../notebooks/executed';
import { ROOT } from '../project/sources';

const PAGES = { 'docs/tutorial/lesson.md': '.ipynb', 'docs/zh/lesson.md': '.zh.ipynb' } as const;
const NOTEBOOKS: Readonly<Record<string, string>> = {
  '00': '00-quickstart',
  '01': '01-zero-memory',
  '09': '09-debugging',
};

const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8');

/** The rows of the plan: minutes, the minute at which the part begins, and headings of a notebook. */
function partsOf(page: string): { minutes: number; from: number; notebook: string; headings: string[] }[] {
  const rows = [...page.matchAll(/^\| (\d+) \| (\d):(\d\d) \| [^|]+ \|(?: (\d\d)[:：] ?)?(.*)\|$/gm)];
  return rows.map(([, minutes, hour, minute, notebook = '', headings = '']) => ({
    minutes: Number(minutes),
    from: 60 * Number(hour) + Number(minute),
    notebook,
    headings: [...headings.matchAll(/\*([^*]+)\*/g)].map(([, heading = '']) => heading),
  }));
}

for (const [page, extension] of Object.entries(PAGES)) {
  test(`${page}: the parts follow one another and take 90 minutes, and their headings are those of the notebooks`, () => {
    const parts = partsOf(read(page));
    let at = 0;
    for (const { minutes, from, notebook, headings } of parts) {
      assert.equal(from, at);
      at += minutes;
      if (notebook === '') continue;
      const { cells } = readNotebook(join(ROOT, 'notebooks', `${NOTEBOOKS[notebook]}${extension}`));
      const titles = cells.map(({ source }) => [source].flat().join('').split('\n')[0]);
      for (const heading of headings) assert.ok(titles.includes(`## ${heading}`), `${notebook}: ${heading}`);
    }
    assert.equal(at, 90);
    assert.equal(parts.length, 11);
  });

  test(`${page}: six exercises of the three notebooks, and no answer`, () => {
    const text = read(page);
    const ids = [...text.matchAll(/^\| `(\d\d\.\w+)` \|/gm)].map(([, id = '']) => id);
    assert.equal(ids.length, 6);
    for (const id of ids) {
      assert.ok(EXERCISES[id] !== undefined, id);
      assert.ok(Object.keys(NOTEBOOKS).includes(id.slice(0, 2)), id);
      assert.ok(text.includes(`'${id}'`), `${id} is not among those whose answers the teacher reads`);
      assert.ok(!text.includes(EXERCISES[id].solution.en) && !text.includes(EXERCISES[id].solution.zh), id);
    }
  });
}
