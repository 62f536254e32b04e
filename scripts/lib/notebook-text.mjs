/** The type of a figure's interactive form, which a cell shows whose value is `figure.toPlotly()`. */
const INTERACTIVE = 'application/vnd.plotly.v1+json';

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
