import { basename } from 'node:path';

/**
 * A notebook as a page of the site: its texts, its code and its stored outputs.
 *
 * @param {string} path the notebook's path from the clone's root
 * @param {object} notebook its JSON
 * @returns the page's Markdown, its pictures by file name, and its figures: the alt text, the picture and the code that drew it
 */
export function notebookPage(path, notebook) {
  const name = basename(path, '.ipynb');
  const page = { lines: [], pictures: new Map(), figures: [], name };
  for (const cell of notebook.cells) {
    const source = [cell.source].flat().join('');
    if (cell.cell_type === 'markdown') page.lines.push(source, '');
    else addCode(page, cell, source);
  }
  const start = path.endsWith('.zh.ipynb')
    ? `\`${path}\` 及其执行结果。运行笔记本时，图是可交互的。`
    : `\`${path}\`, as it was executed. Figures are interactive when you run the notebook.`;
  const [first = '', ...rest] = page.lines.join('\n').split('\n');
  const markdown = `${[first, '', `*${start}*`, ...rest].join('\n').trimEnd()}\n`;
  return { name, markdown, pictures: page.pictures, figures: page.figures };
}

function addCode(page, cell, source) {
  page.lines.push(...fenced('ts', source), '');
  for (const output of cell.outputs ?? []) page.lines.push(...outputLines(page, output, source), '');
}

function outputLines(page, output, source) {
  const data = output.data ?? {};
  const text = (type) => [data[type]].flat().join('');
  if (output.output_type === 'error') return fenced('text', `${output.ename}: ${output.evalue}`);
  if (output.output_type === 'stream') return fenced('text', [output.text].flat().join('').trimEnd());
  if (data['image/png']) {
    const file = `${page.name}-${page.pictures.size + 1}.png`;
    const alt = output.metadata?.['image/png']?.alt ?? text('text/plain').split('\n')[0];
    page.pictures.set(file, Buffer.from(text('image/png'), 'base64'));
    page.figures.push({ file, alt, source, notebook: page.name });
    return [`<img class="figure" src="./pictures/${file}" alt="${attribute(alt)}" loading="lazy">`];
  }
  if (text('text/html').includes('data-shardlab-player='))
    return [playerFrame(text('text/html'), text('text/plain'))];
  if (data['text/html']) {
    return [`<div class="output" v-pre>${text('text/html').replaceAll(/\n\s*\n/g, '\n')}</div>`];
  }
  if (data['text/plain']) return fenced('text', withoutColours(text('text/plain')).trimEnd());
  return [];
}

/** Runs in the frame of a player: gives the frame the player's height, and the player the page's colours. */
const FRAME_SCRIPT = `
const frame = frameElement, root = document.documentElement;
const paint = () => {
  const { color, colorScheme } = parent.getComputedStyle(frame.parentElement);
  Object.assign(root.style, { color, colorScheme });
};
paint();
new parent.MutationObserver(paint).observe(parent.document.documentElement, { attributes: true });
new ResizeObserver(() => { frame.style.height = root.offsetHeight + 'px'; }).observe(root);`;

/** A player of a walk in a frame, because pages of VitePress run no scripts of their own. */
function playerFrame(html, text) {
  const frame = `<!doctype html><meta charset="utf-8"><style>body{margin:1px}</style>${html}<script>${FRAME_SCRIPT}</script>`;
  const source = attribute(frame).replaceAll('\n', '&#10;');
  return `<div class="output" v-pre><iframe class="player" title="${attribute(text.split('\n')[0])}" srcdoc="${source}"></iframe></div>`;
}

/** Escape sequences of terminals. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the sequences begin with this character
const COLOUR = /\u001b\[[0-9;]*m/g;

const withoutColours = (text) => text.replaceAll(COLOUR, '');

/** A fence that is longer than any in the text. */
function fenced(language, text) {
  const longest = Math.max(2, ...[...text.matchAll(/^`{3,}/gm)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  return [`${fence}${language}`, text, fence];
}

/** A text as the value of an attribute in HTML. */
export const attribute = (text) =>
  text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;').replaceAll('{{', '{&#123;');
