import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { type Notebook, notebookInputs, readNotebook } from './executed';

type Cell = Notebook['cells'][number];

const MAX_LINES = 8;

const sourceOf = (cell: Cell | undefined): string => [cell?.source ?? ''].flat().join('');

const numFigures = ({ outputs = [] }: Cell): number =>
  outputs.filter(({ data }) => data?.['image/png'] !== undefined).length;

/** Whether a cell is text; the heading of the next section says nothing of a figure above it. */
function speaks(cell: Cell | undefined, isAfter: boolean): boolean {
  const isText = cell?.cell_type === 'markdown' && !/^#+ [^\n]*$/.test(sourceOf(cell).trim());
  return isText && !(isAfter && sourceOf(cell).startsWith('#'));
}

/** Whether a cell asks for a guess and does something else too, such as the figure with the answer. */
function isMixedGuess(cell: Cell): boolean {
  const source = sourceOf(cell);
  return source.includes('sl.guess(') && !/^sl\.guess\([^()]*\);?( \/\/ .*)?$/.test(source);
}

/** Code cells that are too long, guesses that do not stand alone, figures without a text beside them, and cells that show several figures. */
function cellProblems({ cells }: Notebook): string[] {
  return cells.flatMap((cell, i) => {
    if (cell.cell_type === 'markdown') return [];
    const numLines = sourceOf(cell).split('\n').length;
    const isSpokenOf = speaks(cells[i - 1], false) || speaks(cells[i + 1], true);
    return [
      numLines > MAX_LINES ? `${cell.id}: ${numLines} lines of code; at most ${MAX_LINES}` : [],
      numFigures(cell) > 0 && !isSpokenOf ? `${cell.id}: no text beside the figure speaks of it` : [],
      isMixedGuess(cell) ? `${cell.id}: a guess beside other code; give it a cell before its figure` : [],
      numFigures(cell) > 1 ? `${cell.id}: ${numFigures(cell)} figures; give each a cell and a text` : [],
    ].flat();
  });
}

test('each code cell has at most 8 lines, and each figure has a text beside it', async () => {
  for (const path of (await notebookInputs()).notebookFiles())
    assert.deepEqual(cellProblems(readNotebook(path)), [], basename(path));
});

test('a long cell, a guess beside its figure, a figure between code cells, a figure above the next heading and two figures are found', () => {
  const figure = { output_type: 'display_data', data: { 'image/png': '' } };
  const code = (id: string, source: string, ...outputs: (typeof figure)[]): Cell => ({
    cell_type: 'code',
    id,
    source,
    outputs,
  });
  const text = (source: string): Cell => ({ cell_type: 'markdown', source });
  const cells = [
    text('## Memory'),
    code('a', 'x', figure),
    code('b', '1\n'.repeat(8)),
    text('The next figure shows bytes:'),
    code('c', 'y', figure, figure),
    code('d', 'z', figure),
    text('## Next\n\nAnother section.'),
    code('e', "sl.guess('00.params', NaN, 'paramShare') // percent"),
    code('f', "sl.guess('00.params', NaN, 'paramShare');\nrun.memory()"),
  ];
  assert.deepEqual(cellProblems({ cells }), [
    'a: no text beside the figure speaks of it',
    'b: 9 lines of code; at most 8',
    'c: 2 figures; give each a cell and a text',
    'd: no text beside the figure speaks of it',
    'f: a guess beside other code; give it a cell before its figure',
  ]);
});
