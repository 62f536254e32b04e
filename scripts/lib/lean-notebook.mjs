import { pictureName } from './pictures/tagged.mjs';

/** The type of a figure's interactive form, for programs that run JavaScript. */
export const INTERACTIVE = 'application/vnd.plotly.v1+json';

/**
 * Returns a notebook as it is stored: with each figure's picture and text, which GitHub, nbconvert and JupyterLab show. Only
 * timelines, and bar charts whose bars begin above 0, also have their interactive form, because a span's name appears only under
 * the mouse, and figures of which `npm run pictures` makes pictures. A run of the notebook makes the interactive forms of other
 * figures again.
 */
export function leanNotebook(notebook) {
  const lean = (output) => {
    const plot = output.data?.[INTERACTIVE];
    if (plot === undefined || isTimeline(plot)) return output;
    const { [INTERACTIVE]: _, ...data } = output.data;
    return { ...output, data };
  };
  const cells = notebook.cells.map((cell) =>
    cell.outputs && pictureName(cell) === undefined ? { ...cell, outputs: cell.outputs.map(lean) } : cell,
  );
  return { ...notebook, cells };
}

/** Whether a figure has bars that begin at values of their own (`base`), as in a timeline. */
const isTimeline = ({ data }) => data.some(({ type, base }) => type === 'bar' && Array.isArray(base));

/** Returns a notebook file's text: indented as nbformat does, but with one line per trace of an interactive figure. */
export function notebookText(notebook) {
  const plots = [];
  const text = JSON.stringify(
    notebook,
    (key, value) => (key === INTERACTIVE ? `\0${plots.push(value) - 1}` : value),
    1,
  );
  return `${text.replaceAll(/"\\u0000(\d+)"/g, (_, index) => plotText(plots[index]))}\n`;
}

const plotText = ({ data, ...rest }) =>
  `{"data": [\n${data.map((trace) => JSON.stringify(trace)).join(',\n')}\n], ${JSON.stringify(rest).slice(1)}`;
