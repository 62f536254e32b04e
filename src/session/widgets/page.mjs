// The widgets of src/session/widgets in a page: the code of anywidgets. page-code.ts adds the style. All texts come in the model.

/** The text of page.css, which page-code.ts writes here. */
const STYLE = '/* style */';

const VIEW = 'application/vnd.jupyter.widget-view+json';

/** Makes an element with attributes and children; texts are never markup. */
const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

/** JupyterLab shall leave keys to a control that has the focus, except with Control, Alt or Meta. Its own listener is on the document. */
const leaveKeys = ({ target, ctrlKey, altKey, metaKey }) => {
  if (target.closest?.('.shardlab-widget') == null) return;
  target.toggleAttribute('data-lm-suppress-shortcuts', !(ctrlKey || altKey || metaKey));
};
addEventListener('keydown', leaveKeys, true);

/** Shows HTML of the kernel, and runs its scripts, as a notebook's output does. */
const showHtml = (element, html) => {
  element.innerHTML = html;
  for (const script of element.querySelectorAll('script')) {
    const again = make('script', {}, script.textContent);
    for (const { name, value } of script.attributes) again.setAttribute(name, value);
    script.replaceWith(again);
  }
};

const slider = (model) => {
  const [min, max, step] = ['min', 'max', 'step'].map((key) => `${model.get(key)}`);
  const label = model.get('label') || 'slider';
  const range = make('input', { type: 'range', min, max, step, 'aria-label': label });
  const number = make('input', { type: 'number', min, max, step, 'aria-label': `${label}, as a number` });
  const choose = (text) => {
    const value = Number(text);
    if (text === '' || Number.isNaN(value)) return show();
    model.set('value', Math.min(Math.max(value, Number(min)), Number(max)));
    model.save_changes();
  };
  const show = () => {
    range.value = `${model.get('value')}`;
    number.value = `${model.get('value')}`;
  };
  range.addEventListener('input', () => {
    number.value = range.value;
    if (model.get('continuousUpdate')) choose(range.value);
  });
  for (const input of [range, number]) input.addEventListener('change', () => choose(input.value));
  return { elements: [range, number], show };
};

const select = (model) => {
  const options = model.get('options').map((text, index) => make('option', { value: `${index}` }, text));
  const list = make('select', { 'aria-label': model.get('label') || 'select' }, ...options);
  list.addEventListener('change', () => {
    model.set('value', Number(list.value));
    model.save_changes();
  });
  return {
    elements: [list],
    show: () => {
      list.value = `${model.get('value')}`;
    },
  };
};

const renderControl = (model, root) => {
  const { elements, show } = { slider, select }[model.get('kind')](model);
  const shown = make('div', { class: 'shown jp-RenderedHTMLCommon' });
  root.append(make('label', { class: 'bar' }, model.get('label'), ...elements), shown);
  const draw = () => {
    showHtml(shown, model.get('shown'));
  };
  const busy = () => root.toggleAttribute('data-busy', model.get('value') !== model.get('answered'));
  show();
  draw();
  busy();
  const moved = () => {
    show();
    busy();
  };
  return { 'change:value': moved, 'change:shown': draw, 'change:answered': busy };
};

/** The progress of steps beside a button that ends them. */
const renderSteps = (model, root) => {
  const stop = make('button', {
    type: 'button',
    title: 'End the training after the running step; its steps are kept',
  });
  stop.addEventListener('click', () => model.send({ does: 'stop' }));
  const shown = make('div', { class: 'shown' });
  root.append(make('div', { class: 'steps' }, stop, shown));
  const draw = () => showHtml(shown, model.get('shown'));
  const state = () => {
    stop.hidden = model.get('isOver');
    stop.disabled = model.get('isStopped');
    stop.textContent = model.get('isStopped') ? 'Stopping …' : '■ Stop';
  };
  draw();
  state();
  return { 'change:shown': draw, 'change:isStopped': state, 'change:isOver': state };
};

/** Where a stored output names the widget that it showed. */
const OWNER = 'shardlab-widget';

/** Calls a function with each output of JupyterLab's notebook that has data: its cell, its index, its model and its JSON. */
const eachOutput = (notebook, visit) => {
  for (const cell of notebook?.cells ?? []) {
    for (let i = 0; i < (cell.outputs?.length ?? 0); i++) {
      const output = cell.outputs.get(i);
      const json = output.toJSON();
      if (json.data !== undefined) visit(cell, i, output, json);
    }
  }
};

// Writes into the notebook that is about to be stored what the widget shows now, as text and pictures, in place of the widget, which a
// later page could not load. The page itself continues to show the widget.
const store = (notebook, model) =>
  eachOutput(notebook, (cell, i, _, { data, metadata, ...output }) => {
    const id = model.get('id');
    if (data[VIEW]?.model_id === undefined || data[VIEW].model_id !== id) return;
    const stored = Object.fromEntries(
      Object.entries({ ...data, ...model.get('stored') }).filter(([type]) => type !== VIEW),
    );
    const written = { ...output, data: stored, metadata: { ...metadata, [OWNER]: id } };
    cell.sharedModel?.updateOutputs?.(i, i + 1, [written], 'silent-change');
  });

/** Shows the widget again in the outputs of a notebook that was stored with it. */
const restore = (notebook, model) =>
  eachOutput(notebook, (_cell, _i, output, { data, metadata }) => {
    const id = metadata?.[OWNER];
    if (id === undefined || id !== model.get('id') || VIEW in data) return;
    const view = { version_major: 2, version_minor: 1, model_id: id };
    output.setData({ data: { ...data, [VIEW]: view }, metadata });
  });

function initialize({ model }) {
  const context = model.widget_manager?.context;
  const saving = (_, state) => state === 'started' && store(context.model, model);
  context?.saveState?.connect(saving);
  // While this function runs, the page does not know the model yet.
  setTimeout(() => restore(context?.model, model));
  model.send({ does: 'loaded' });
  return () => context?.saveState?.disconnect(saving);
}

function render({ model, el }) {
  const root = make('div', { class: 'shardlab-widget' });
  el.replaceChildren(make('style', {}, STYLE), root);
  const changes = Object.entries((model.get('kind') === 'steps' ? renderSteps : renderControl)(model, root));
  for (const [name, changed] of changes) model.on(name, changed);
  return () => {
    for (const [name, changed] of changes) model.off(name, changed);
  };
}

// biome-ignore lint/style/noDefaultExport: anywidget reads the default export.
export default { initialize, render };
