import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { importScript } from '../project/scripts';
import { type Notebook, notebookInputs, readNotebook } from './executed';

interface Slides {
  hasSlides(path: string): boolean;
  withSlides(notebook: Notebook): Notebook;
}

type Cell = Notebook['cells'][number] & {
  readonly metadata?: { readonly slideshow?: { readonly slide_type: string } };
};

const MARKS = ['slide', 'subslide', '-', 'skip'];

const markOf = (cell: Cell): string | undefined => cell.metadata?.slideshow?.slide_type;
const isHeading = ({ cell_type: type, source }: Cell): boolean =>
  type === 'markdown' && /^##? /.test([source].flat().join(''));
const numFigures = ({ outputs = [] }: Cell): number =>
  outputs.filter(({ data }) => data?.['image/png'] !== undefined).length;

test("each cell of the lesson's notebooks has a slide mark, headings begin slides, and no slide has two figures", async () => {
  const { chineseFiles, notebookFiles } = await notebookInputs();
  const { hasSlides } = await importScript<Slides>('slides');
  const lesson = [...notebookFiles(), ...chineseFiles()].filter((path) =>
    hasSlides(path.replace('.zh.ipynb', '.ipynb')),
  );
  assert.equal(lesson.length, 6);
  for (const path of lesson) {
    const cells: readonly Cell[] = readNotebook(path).cells;
    const why = `${basename(path)}: npm run notebooks marks slides`;
    assert.equal(markOf(cells[0] ?? assert.fail()), 'slide', why);
    let figures = 0;
    for (const [i, cell] of cells.entries()) {
      const mark = markOf(cell);
      assert.ok(mark !== undefined && MARKS.includes(mark), `${why}: ${cell.id} has ${mark}`);
      assert.ok(!isHeading(cell) || mark === 'slide', `${why}: ${cell.id} is a heading, and has ${mark}`);
      if (mark !== '-') figures = 0;
      figures += numFigures(cell);
      const isSplit =
        mark === 'subslide' && cell.cell_type === 'code' && cells[i - 1]?.cell_type === 'markdown';
      assert.ok(!isSplit, `${why}: ${cell.id} is not on the slide of the text before it`);
      assert.ok(figures < 2, `${why}: two figures up to ${cell.id}`);
    }
  }
});

test('a mark that a person has set stays, and other cells get theirs by what fits on a slide', async () => {
  const { withSlides } = await importScript<Slides>('slides');
  const text = (source: string, mark?: string): Cell => ({
    cell_type: 'markdown',
    source,
    metadata: mark === undefined ? {} : { slideshow: { slide_type: mark } },
  });
  const code = (source: string): Cell => ({ cell_type: 'code', source, metadata: {}, outputs: [] });
  const marked = withSlides({
    cells: [
      text('# A question?'),
      code('1\n'.repeat(7)),
      text('word '.repeat(250)),
      text('More.', 'fragment'),
      code('await job.shutdown();'),
      text('## Next'),
      code('1\n'.repeat(40)),
      code('2'),
      code("import { rmSync } from 'node:fs';\nawait job.shutdown();\nrmSync('a');"),
    ],
  });
  const marks = ['slide', '-', 'subslide', 'fragment', 'skip', 'slide', '-', 'subslide', 'skip'];
  assert.deepEqual(marked.cells.map(markOf), marks);
  assert.deepEqual(withSlides(marked), marked);
});
