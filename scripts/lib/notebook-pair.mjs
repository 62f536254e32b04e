import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { chineseOutput } from './exercise-outputs.mjs';
import { notebookText } from './notebook-text.mjs';

const CHINESE = '.zh.ipynb';

/** Whether a path is that of the Chinese notebook of a pair. */
export function isChinese(path) {
  return path.endsWith(CHINESE);
}

/** Returns the path of the Chinese notebook beside an English one, in the same folder because code cells name files relative to it. */
export function chinesePath(english) {
  return english.replace(/\.ipynb$/, CHINESE);
}

/** Returns the path of the English notebook of a pair. */
export function englishPath(chinese) {
  return chinese.replace(CHINESE, '.ipynb');
}

/**
 * [Note: notebook pairs] The English notebook of a pair owns the order of cells, the code cells and their outputs. The Chinese
 * notebook owns the text of its Markdown cells, by the id of the cell, and what exercises say is in Chinese in it. Returns the Chinese
 * notebook; a cell that is not yet translated has the English text, which test/notebooks/chinese.test.ts reports.
 */
export function pairedNotebook(english, chinese) {
  const texts = new Map(
    chinese.cells.filter(({ cell_type }) => cell_type === 'markdown').map(({ id, source }) => [id, source]),
  );
  const cells = english.cells.map((cell) =>
    cell.cell_type === 'markdown'
      ? { ...cell, source: texts.get(cell.id) ?? cell.source }
      : { ...cell, ...(cell.outputs && { outputs: cell.outputs.map(chineseOutput) }) },
  );
  return { ...english, cells };
}

/** Copies the code cells and outputs of an English notebook to its Chinese one, in which exercises speak Chinese; does nothing if there is none. */
export function storePair(english) {
  const path = chinesePath(english);
  if (!existsSync(path)) return;
  const [from, to] = [english, path].map((file) => JSON.parse(readFileSync(file, 'utf8')));
  writeFileSync(path, notebookText(pairedNotebook(from, to)));
}
