import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fromBuild } from '../from-build.mjs';
import { StepError } from '../step.mjs';
import { pictureName } from './tagged.mjs';

/** Pixels of a picture per pixel of the figure in a notebook. */
export const SCALE = 2;

/**
 * Returns the pictures of executed notebooks, sorted by name: the last figure of each cell with a tag `picture:NAME`, as { name,
 * notebook, alt, svg }. Throws: a StepError if a tagged cell has no figure, or if two cells have one name.
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
  const html = cell.outputs
    .map(({ data }) => [data?.['text/html']].flat().join(''))
    .findLast((text) => SVG.test(text));
  const [, alt, data] = SVG.exec(html ?? '') ?? [];
  if (data !== undefined)
    return { svg: withoutGuess(Buffer.from(data, 'base64').toString()), alt: altOf(alt) };
  throw new StepError(
    `The cell ${cell.id} of ${path} has the tag picture:${pictureName(cell)}, but no figure.`,
    `npm run notebooks -- ${path} executes the notebook`,
  );
}

/** A figure's picture and its alternative text, as `imageHtml` of src/figures/static/page-svg.ts writes them. */
const SVG = /<img alt="([^"]*)"[^>]* src="data:image\/svg\+xml;base64,([^"]*)"/;

/** The lines about a guess are left out, because a picture has no question. */
const GUESS = / ?(?:Answer|Guess first): [^<]*$/;

function withoutGuess(svg) {
  return svg.replaceAll(/<tspan[^>]*>(?:Answer|Guess first): [^<]*<\/tspan>/g, '');
}

function altOf(alt) {
  return fromBuild('figures/grammar/ink').plain(alt).replaceAll('&quot;', '"').replace(GUESS, '');
}

/** Renders a picture as PNG for a light or a dark page. */
export function stillPng(svg, theme) {
  const { darkSvg, lightSvg } = fromBuild('figures/static/page-svg');
  return fromBuild('figures/static/png').toPng(theme === 'dark' ? darkSvg(svg) : lightSvg(svg), SCALE);
}
