/** A figure as its kernel draws it: for hosts that run JavaScript. */
const INTERACTIVE = 'application/vnd.plotly.v1+json';

/**
 * A notebook as it is stored. A figure's picture and text stay, which GitHub, nbconvert and JupyterLab show; its interactive
 * form is made anew when the cell is run, so only a timeline keeps it: what its spans are is said nowhere but under the mouse.
 */
export function leanNotebook(notebook) {
  const lean = (output) => {
    const plot = output.data?.[INTERACTIVE];
    if (plot === undefined || isTimeline(plot)) return output;
    const { [INTERACTIVE]: _, ...data } = output.data;
    return { ...output, data };
  };
  const cells = notebook.cells.map((cell) =>
    cell.outputs ? { ...cell, outputs: cell.outputs.map(lean) } : cell,
  );
  return { ...notebook, cells };
}

/** Whether a figure draws spans: bars that begin where they say. */
const isTimeline = ({ data }) => data.some(({ type, base }) => type === 'bar' && Array.isArray(base));

/** The text of a notebook's file: indented as nbformat does, but each figure that is kept is one line per trace. */
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
