import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fromBuild } from '../from-build.mjs';
import { INTERACTIVE } from '../lean-notebook.mjs';
import { StepError } from '../step.mjs';
import { pictureName } from './tagged.mjs';

/** Pixels of a picture per pixel of the figure in a notebook. */
export const SCALE = 2;
/** The height of a line that `withNote` adds below a figure's subtitle (src/figures/figure.ts). */
const NOTE_HEIGHT = 16;

/**
 * Returns the pictures of executed notebooks, sorted by name: the last figure of each cell with a tag `picture:NAME`, as { name,
 * notebook, alt, drawing }. Throws: a StepError if a tagged cell has no interactive figure, or if two cells have one name.
 */
export function stillsOf(paths) {
  const stills = paths.flatMap((path) =>
    JSON.parse(readFileSync(path, 'utf8'))
      .cells.filter((cell) => pictureName(cell) !== undefined)
      .map((cell) => ({ name: pictureName(cell), notebook: basename(path), ...lastFigure(cell, path) })),
  );
  const sorted = stills.sort((a, b) => (a.name < b.name ? -1 : 1));
  const twice = sorted.find(({ name }, i) => name === sorted[i - 1]?.name);
  if (twice === undefined) return sorted;
  throw new StepError(
    `Two cells have the tag picture:${twice.name}.`,
    'give one of them another name (JupyterLab: Property Inspector, Cell Tags)',
  );
}

function lastFigure(cell, path) {
  const plotly = cell.outputs.findLast(({ data }) => data?.[INTERACTIVE] !== undefined)?.data[INTERACTIVE];
  if (plotly !== undefined) {
    const drawing = drawingOf(plotly);
    return { drawing, alt: altOf(drawing) };
  }
  throw new StepError(
    `The cell ${cell.id} of ${path} has the tag picture:${pictureName(cell)}, but no figure with its interactive form.`,
    `npm run notebooks -- ${path} executes the notebook, and keeps the figures of tagged cells`,
  );
}

/**
 * Returns what the static renderer draws of a stored figure. The line about a guess is left out, because a picture
 * has no question.
 */
export function drawingOf({ data, layout }) {
  const { title, width: _, template: __, ...rest } = layout;
  const { plain } = fromBuild('figures/grammar/ink');
  const lines = inner(title.subtitle.text).split('<br>');
  const kept = lines.filter((line) => !/^(?:Answer|Guess first): /.test(line));
  const cut = (lines.length - kept.length) * NOTE_HEIGHT;
  const margin = cut === 0 ? rest.margin : { ...rest.margin, t: rest.margin.t - cut };
  return {
    title: plain(title.text),
    subtitle: kept.join('<br>'),
    data,
    layout: { ...rest, height: rest.height - cut, ...(margin && { margin }) },
  };
}

/** The inside of the span with a text's colour. */
const inner = (markup) => markup.replace(/^<span[^>]*>/, '').replace(/<\/span>$/, '');

function altOf({ title, subtitle }) {
  return `${title}. ${fromBuild('figures/grammar/ink').plain(subtitle)}`;
}

/** Renders a picture as PNG for a light or a dark page. */
export function stillPng(drawing, theme) {
  const { LIGHT, DARK } = fromBuild('figures/grammar/ink');
  const svg = fromBuild('figures/static/static-svg').toSvg(drawing, theme === 'dark' ? DARK : LIGHT);
  return fromBuild('figures/static/png').toPng(svg, SCALE);
}
