import { attribute } from './notebook-page.mjs';

/** The gallery: each figure of the notebooks as a tile, with the cell that draws it. */
export function galleryPage(figures) {
  const byNotebook = grouped(figures);
  const parts = [...byNotebook].flatMap(([notebook, tiles]) => [
    '',
    `## [${notebook}](./notebooks/${notebook}.md)`,
    '',
    '<div class="gallery">',
    ...tiles.map(tile),
    '</div>',
  ]);
  return [
    '# Gallery',
    '',
    `${figures.length} figures of the notebooks, each with the cell that draws it. Press a picture to see its cell.`,
    ...parts,
    '',
  ].join('\n');
}

function tile({ file, alt, source }) {
  const title = alt.split('. ').find((sentence) => !/^step \d/.test(sentence)) ?? alt;
  const code = source.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('\n', '&#10;');
  return `<details class="tile"><summary><img src="./notebooks/pictures/${file}" alt="${attribute(alt)}" loading="lazy"><span v-pre>${title.replaceAll('<', '&lt;')}</span></summary><pre v-pre>${code}</pre></details>`;
}

function grouped(figures) {
  const groups = new Map();
  for (const figure of figures) groups.set(figure.notebook, [...(groups.get(figure.notebook) ?? []), figure]);
  return groups;
}
