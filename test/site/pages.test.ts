import assert from 'node:assert/strict';
import { test } from 'node:test';
import { importScript } from '../project/scripts';
import { readFiles } from '../project/sources';

interface Pages {
  sitePath(path: string): string | undefined;
  pageText(path: string, text: string): string;
}

interface NotebookPages {
  notebookPage(path: string, notebook: unknown): NotebookPage;
}

interface NotebookPage {
  readonly markdown: string;
  readonly pictures: ReadonlyMap<string, Uint8Array>;
  readonly figures: readonly { readonly alt: string; readonly source: string }[];
}

interface Entry {
  readonly link: string;
  readonly items?: readonly Entry[];
}

interface Contents {
  sideBar(index: string): readonly { readonly text: string; readonly items: readonly Entry[] }[];
}

test('links between pages become links of the site, and a link to a file without a page becomes its text', async () => {
  const { pageText } = await importScript<Pages>('site/pages');
  const page =
    'See [data](data.md#text), [the first notebook](../../notebooks/00-quickstart.ipynb), [changes](../../CHANGELOG.md), [decisions](../adr) and [the unit](../../src/sharding/fsdp/unit.ts).';
  assert.equal(
    pageText('docs/how-to/lora.md', page),
    'See [data](./data.md#text), [the first notebook](../notebooks/00-quickstart.md), [changes](../changes.md), [decisions](../adr/index.md) and the unit.',
  );
});

test('tags and braces outside of code do not reach Vue, and code stays as it is', async () => {
  const { pageText } = await importScript<Pages>('site/pages');
  const page = 'A Map<string> of {{ x }} and `Map<string>`:\n\n```ts\nconst a: Map<string> = {{ x }};\n```\n';
  assert.equal(
    pageText('docs/words.md', page),
    'A Map&lt;string> of {&#123; x }} and `Map<string>`:\n\n```ts\nconst a: Map<string> = {{ x }};\n```\n',
  );
});

test("a notebook's page has its texts, its code and its outputs, and the pictures are files", async () => {
  const { notebookPage } = await importScript<NotebookPages>('site/notebook-page');
  const { markdown, pictures, figures } = notebookPage('notebooks/x.ipynb', {
    cells: [
      { cell_type: 'markdown', source: ['# Why?\n', '\n', 'Because.'] },
      {
        cell_type: 'code',
        id: 'c',
        source: 'run.memory()',
        outputs: [
          { output_type: 'stream', text: ['a\n', 'b\n'] },
          {
            output_type: 'display_data',
            data: { 'image/png': 'AAAA', 'text/plain': 'title' },
            metadata: { 'image/png': { alt: 'Ranks "wait"' } },
          },
          { output_type: 'execute_result', data: { 'text/html': '<table>\n\n</table>', 'text/plain': 't' } },
          { output_type: 'error', ename: 'ShardlabError', evalue: 'no' },
        ],
      },
    ],
  });
  assert.match(markdown, /^# Why\?\n\n\*`notebooks\/x\.ipynb`, as it was executed/);
  assert.match(markdown, /```ts\nrun\.memory\(\)\n```\n\n```text\na\nb\n```/);
  assert.match(markdown, /<img class="figure" src="\.\/pictures\/x-1\.png" alt="Ranks &quot;wait&quot;"/);
  assert.match(markdown, /<div class="output" v-pre><table>\n<\/table><\/div>/);
  assert.match(markdown, /ShardlabError: no/);
  assert.deepEqual([...pictures.keys()], ['x-1.png']);
  assert.deepEqual(
    figures.map(({ source }) => source),
    ['run.memory()'],
  );
});

test('the side bar has every page of the documentation once', async () => {
  const [{ sideBar }, { sitePath }] = await Promise.all([
    importScript<Contents>('site/contents'),
    importScript<Pages>('site/pages'),
  ]);
  const links = sideBar('docs/index.md').flatMap(({ items }) =>
    items.flatMap(({ link, items: below = [] }) => [link, ...below.map((item) => item.link)]),
  );
  assert.equal(new Set(links).size, links.length, links.join(' '));
  const pages = [...readFiles(['docs'], '.md').keys()].filter((path) => !/^docs\/(zh|adr|index)/.test(path));
  assert.ok(pages.length > 25);
  const named = (path: string): string => `/${sitePath(path)?.replace(/(index)?\.md$/, '')}`;
  const absent = pages.map(named).filter((link) => !links.includes(link) && !links.includes(`${link}index`));
  assert.deepEqual(absent, []);
});
