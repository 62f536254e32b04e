// The code of a widget without a view, in a page of JupyterLab: it shows what a cell has shown before the page was loaded again, and
// what the cell shows from then on. running-cells.ts says why.

/** Returns the model of the cell in JupyterLab's notebook; undefined in other programs, and if the page knows the cell's outputs. */
function lostCell(notebook, model) {
  const cell = [...(notebook?.cells ?? [])].find(({ id }) => id === model.get('cellId'));
  const isSame = cell?.sharedModel?.getSource() === model.get('code');
  if (!isSame || cell.executionState === 'running' || cell.executionCount === model.get('number'))
    return undefined;
  return cell;
}

/** Adds outputs to a cell's model, as JupyterLab does with the messages of a running cell. */
class Shown {
  constructor(cell) {
    this.outputs = cell.outputs;
    this.places = new Map();
    this.clearsNext = false;
  }

  clear(wait) {
    this.clearsNext = wait;
    if (wait) return;
    this.outputs.clear();
    this.places.clear();
  }

  add({ displayId, ...output }) {
    if (this.clearsNext) this.clear(false);
    this.outputs.add(output);
    if (displayId !== undefined)
      this.places.set(displayId, [...(this.places.get(displayId) ?? []), this.outputs.length - 1]);
  }

  update({ displayId, data, metadata }) {
    for (const place of this.places.get(displayId) ?? [])
      this.outputs.set(place, { output_type: 'display_data', data, metadata });
  }

  /** Takes a message of the kernel about the cell. */
  hear(type, { transient, wait, ...content }) {
    const displayId = transient?.display_id;
    if (type === 'clear_output') this.clear(wait);
    else if (type === 'update_display_data') this.update({ displayId, ...content });
    else if (['stream', 'display_data', 'execute_result', 'error'].includes(type))
      this.add({ output_type: type, displayId, ...content });
  }
}

function initialize({ model }) {
  const context = model.widget_manager?.context;
  const kernel = context?.sessionContext?.session?.kernel;
  const cell = lostCell(context?.model, model);
  if (kernel === undefined || cell === undefined) return;
  let shown;
  const end = () => {
    cell.executionCount = model.get('number');
    cell.executionState = 'idle';
    kernel.iopubMessage.disconnect(heard);
  };
  // The outputs so far come in the same order as the messages that follow them, so none is missed or shown twice.
  const heard = (_, { header, parent_header, content }) => {
    const asked = content.comm_id === model.get('id') ? content.data.content : undefined;
    if (asked?.does === 'outputs' && shown === undefined) {
      shown = new Shown(cell);
      shown.clear(false);
      for (const output of asked.outputs) shown.add(output);
      cell.executionState = 'running';
      if (asked.isOver) end();
    } else if (shown !== undefined && parent_header.msg_id === model.get('requestId')) {
      shown.hear(header.msg_type, content);
      if (header.msg_type === 'status' && content.execution_state === 'idle') end();
    }
  };
  kernel.iopubMessage.connect(heard);
  model.send({ does: 'loaded' });
  return () => kernel.iopubMessage.disconnect(heard);
}

// biome-ignore lint/style/noDefaultExport: anywidget reads the default export.
export default { initialize, render: () => {} };
