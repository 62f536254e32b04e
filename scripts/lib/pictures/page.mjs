import { join } from 'node:path';
import { root } from '../places.mjs';

/** The folder of the pictures, in the repository. */
export const PICTURES = 'docs/pictures';
export const THEMES = ['light', 'dark'];

/** The film: its name, the text for readers who do not see it, and its notebook. */
export const FILM = {
  name: 'film',
  alt: 'A notebook in JupyterLab: a cell that starts with %%ranks adds a tensor over four ranks, which agree; a training of 20 steps draws its loss; run.memory() draws the memory of one step by cause; then rank 3 does not arrive in an all-reduce, the cell is interrupted, and job.why() says that ranks 0-2 wait for rank 3',
  notebook: 'scripts/lib/pictures/film.ipynb',
};

/** Returns the path of a picture's file. */
export function pictureFile(name, theme) {
  return join(root, PICTURES, `${name}-${theme}.${name === FILM.name ? 'webp' : 'png'}`);
}

/** Returns the page that lists the pictures, with their sources and the texts for readers who do not see them. */
export function pageOf(stills) {
  const rows = [
    `| \`${FILM.name}\` | [film.ipynb](../../${FILM.notebook}) | ${FILM.alt} |`,
    ...stills.map(
      ({ name, notebook, alt }) => `| \`${name}\` | [${notebook}](../../notebooks/${notebook}) | ${alt} |`,
    ),
  ];
  return `# Pictures

\`npm run pictures\` makes the files of this folder, and this page. Each picture has a file for light pages (\`NAME-light\`) and one for
dark pages (\`NAME-dark\`), both 1,600 pixels wide, for pages that show it 800 pixels wide. Pictures are the stored figures of
notebooks: a cell with the tag \`picture:NAME\` has the figure. The film shows a notebook in JupyterLab for ten seconds, and is an
animated WebP.

A page shows a picture so:

\`\`\`html
<picture>
  <source media="(prefers-color-scheme: dark)" srcset="docs/pictures/NAME-dark.png">
  <img src="docs/pictures/NAME-light.png" width="800" alt="TEXT">
</picture>
\`\`\`

| name | from | text for readers who do not see it |
|---|---|---|
${rows.join('\n')}
`;
}
