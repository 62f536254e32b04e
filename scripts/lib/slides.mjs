import { basename } from 'node:path';

/** The notebooks of the lesson (docs/tutorial/lesson.md), which `jupyter nbconvert --to slides` makes slides of. */
const LESSON = /^(00-quickstart|01-zero-memory|09-debugging)\.ipynb$/;

/** What fits on a slide of 700 pixels with its margins, and the height of what a slide shows, as measured in decks of nbconvert 7.17. */
const SLIDE = 640;
const HEADINGS = { '# ': 110, '## ': 80 };
const PROSE = { line: 29, wordsPerLine: 15, charactersPerLine: 42, gap: 12 };
const CODE = { line: 22, gap: 26 };
const OUTPUT = { line: 19, charactersPerLine: 100, gap: 12, most: 400, player: 600, figureWidth: 760 };

/** Whether a notebook's cells have slide marks. */
export function hasSlides(path) {
  return LESSON.test(basename(path));
}

/**
 * Returns a notebook in which each cell has a slide mark. A cell that has one keeps it. Otherwise a heading begins a slide, a cell that
 * does not fit under the cells before it continues below (a subslide), but a code cell stays with the text before it, which speaks of it:
 * such a slide scrolls. A cell without an output that only ends a job is left out.
 */
export function withSlides(notebook) {
  let used = 0;
  const cells = notebook.cells.map((cell, i) => {
    const height = heightOf(cell);
    const isSpokenOf = cell.cell_type === 'code' && notebook.cells[i - 1]?.cell_type === 'markdown';
    const next = cell.cell_type === 'markdown' ? notebook.cells[i + 1] : undefined;
    const needed = height + (next?.cell_type === 'code' ? heightOf(next) : 0);
    const mark = cell.metadata.slideshow?.slide_type ?? markOf(cell, isSpokenOf ? 0 : used + needed);
    if (mark === 'slide' || mark === 'subslide') used = 0;
    if (mark !== 'skip') used += height;
    return { ...cell, metadata: { ...cell.metadata, slideshow: { slide_type: mark } } };
  });
  return { ...notebook, cells };
}

const textOf = (source) => [source ?? ''].flat().join('');

function markOf(cell, height) {
  const text = textOf(cell.source);
  if (cell.cell_type === 'markdown' && /^##? /.test(text)) return 'slide';
  const isEnd = /^(import [^\n]*;\n)*await \w+\.shutdown\(\);(\nrmSync[^\n]*;)*$/.test(text);
  if (isEnd) return 'skip';
  return height > SLIDE ? 'subslide' : '-';
}

function heightOf({ cell_type: type, source, outputs = [] }) {
  const lines = textOf(source).split('\n');
  if (type === 'markdown') return lines.map(proseHeight).reduce((sum, height) => sum + height, 0);
  const code = lines.length * CODE.line + CODE.gap;
  return outputs.map(outputHeight).reduce((sum, height) => sum + height, code);
}

function proseHeight(line) {
  if (line === '') return PROSE.gap;
  const heading = Object.keys(HEADINGS).find((mark) => line.startsWith(mark));
  if (heading !== undefined) return HEADINGS[heading];
  // Chinese has no spaces between words.
  const isChinese = /[\u4e00-\u9fff]/.test(line);
  const width = isChinese
    ? line.length / PROSE.charactersPerLine
    : line.split(' ').length / PROSE.wordsPerLine;
  return Math.ceil(width) * PROSE.line;
}

function outputHeight({ data = {}, text }) {
  if (data['image/png'] !== undefined) return figureHeight(textOf(data['image/png']));
  if (textOf(data['text/html']).includes('data-shardlab-player')) return OUTPUT.player;
  const lines = textOf(text ?? data['text/plain'])
    .trim()
    .split('\n');
  const numLines = lines
    .map((line) => Math.max(1, Math.ceil(line.length / OUTPUT.charactersPerLine)))
    .reduce((sum, count) => sum + count, 0);
  return Math.min(OUTPUT.most, numLines * OUTPUT.line + OUTPUT.gap);
}

/** The height of a picture, whose size is in the header of its PNG. */
function figureHeight(base64) {
  const header = Buffer.from(base64.slice(0, 32), 'base64');
  const [width, height] = [header.readUInt32BE(16), header.readUInt32BE(20)];
  return (OUTPUT.figureWidth * height) / width + OUTPUT.gap;
}
