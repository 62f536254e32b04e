import { clearTimeout, setTimeout } from 'node:timers';
import { globalSlot, now, type Seconds } from '../core';
import type { CellError } from './cell-error';
import type { StreamName } from './console-capture';
import { type MimeBundle, toMimeBundle } from './mime';

type Data = Readonly<Record<string, unknown>>;

/** A channel between this process and the front end. Source: Jupyter protocol, custom messages */
export interface WidgetComm {
  readonly id: string;
  send(data: Data): void;
  close(): void;
  onMessage: (data: Data, buffers: readonly Uint8Array[]) => void;
  onClose: (data: Data) => void;
}

/** An output of a cell or of a widget's callback. */
export type CellOutput =
  | { readonly kind: 'stream'; readonly name: StreamName; readonly text: string }
  | {
      readonly kind: 'display' | 'update';
      readonly bundle: MimeBundle;
      readonly metadata: MimeBundle;
      readonly displayId: string | undefined;
    }
  | { readonly kind: 'clear'; readonly wait: boolean };

/** How a callback has ended: with a value to show, or with an error. */
export type CallbackOutcome =
  | { readonly ok: true; readonly result: MimeBundle | undefined }
  | { readonly ok: false; readonly error: CellError };

/** Opens channels to the front end, and runs callbacks; the kernel's executor has such an object. */
export interface WidgetComms {
  open(target: string, data: Data, metadata: Data): WidgetComm;
  /** Calls `opened` with each channel that the front end opens for this target. */
  register(target: string, opened: (comm: WidgetComm) => void): void;
  /** Is called when a page that shows widgets has connected, before it gets the states of open widgets. */
  connected?(): void;
  /** Runs a callback; `heard` gets its outputs, and an interrupt ends it. Never rejects. */
  call(work: () => unknown, heard: (output: CellOutput) => void): Promise<CallbackOutcome>;
}

/** The channels of a process, and its open widgets by the names of their channels. */
interface Widgets {
  readonly comms: WidgetComms;
  readonly open: Map<string, RestorableWidget>;
  /** Whether a page that shows widgets has connected to the kernel. */
  hasPage: boolean;
}

interface RestorableWidget {
  readonly state: Data;
  isRestored: boolean;
}

const WIDGETS = globalSlot<Widgets>('shardlab.widgets');

/** Makes `comms` the channels of the process's widgets. */
export function registerComms(comms: WidgetComms): void {
  const open = new Map<string, RestorableWidget>();
  const widgets: Widgets = { comms, open, hasPage: false };
  WIDGETS.value = widgets;
  comms.register('jupyter.widget.control', (comm) => {
    widgets.hasPage = true;
    comm.onMessage = ({ method }) => {
      if (method !== 'request_states') return;
      comms.connected?.();
      comm.send(statesOf(open));
    };
  });
}

/** Whether a page that shows widgets has connected to this process; programs without widgets never do. */
export function hasWidgetPage(): boolean {
  return WIDGETS.value?.hasPage === true;
}

/**
 * Runs a callback of a widget and shows its value: `heard` gets its outputs. In a process without channels, outputs go where the
 * process writes them. Throws: the callback's error, in a process without channels.
 */
export async function runCallback(
  work: () => unknown,
  heard: (output: CellOutput) => void,
): Promise<CallbackOutcome> {
  const widgets = WIDGETS.value;
  if (widgets !== undefined) return await widgets.comms.call(work, heard);
  const value = await work();
  return { ok: true, result: value === undefined ? undefined : await toMimeBundle(value) };
}

/**
 * Returns the states of all open widgets, which a page asks for when it is loaded again. Source: ipywidgets,
 * packages/schema/messages.md, "Control Widget messaging protocol"
 */
function statesOf(open: Widgets['open']): Data {
  const states = [...open].map(([id, widget]) => {
    widget.isRestored = true;
    const { _model_name, _model_module, _model_module_version } = ANYWIDGET;
    const model = {
      model_name: _model_name,
      model_module: _model_module,
      model_module_version: _model_module_version,
    };
    return [id, { ...model, state: widget.state }];
  });
  return { method: 'update_states', states: Object.fromEntries(states), buffer_paths: [] };
}

export interface WidgetOptions {
  /** The code of the widget: an ES module whose default export has anywidget's `render({ model, el })`. */
  readonly esm: string;
  /** The model's values by name, as JSON. */
  readonly state: Data;
  /** Is called with each message that the code sends by `model.send`. */
  readonly heard: (message: Data) => void;
  /** Is called with the values of the model that the code has changed by `model.save_changes`. */
  readonly changed?: (changes: Data) => void;
}

/** An open widget. */
export interface Widget {
  /** The name of the widget's channel and model. */
  readonly id: string;
  /** The content of an output that shows the widget, for front ends that have anywidget. */
  readonly bundle: MimeBundle;
  /** Whether a page was loaded again and has asked for the widget's state. */
  readonly isRestored: boolean;
  /** Changes values of the model. */
  set(changes: Data): void;
  /** Sends a message to the code, which listens to it by `model.on('msg:custom')`. */
  send(message: Data): void;
  /** Closes the channel; front ends then remove the widget from their pages. */
  close(): void;
}

/** The version of the protocol of Jupyter's widgets. Source: ipywidgets, packages/schema/messages.md */
const PROTOCOL = { major: 2, minor: 1 };
/** The model and view of the package anywidget that run the code of `_esm`. Source: https://anywidget.dev */
const ANYWIDGET = {
  _model_module: 'anywidget',
  _model_name: 'AnyModel',
  _model_module_version: '*',
  _view_module: 'anywidget',
  _view_name: 'AnyView',
  _view_module_version: '*',
  _view_count: null,
};

/**
 * Opens a widget in the front end; undefined if this process has no channel to one (ranks, scripts, other kernels). The widget
 * appears where an output has its `bundle`. A page that is loaded again gets the present state.
 */
export function openWidget({ esm, state, heard, changed }: WidgetOptions): Widget | undefined {
  const widgets = WIDGETS.value;
  if (widgets === undefined) return undefined;
  const widget = {
    state: { ...ANYWIDGET, _anywidget_id: 'shardlab', _esm: esm, ...state } as Data,
    isRestored: false,
  };
  const version = `${PROTOCOL.major}.${PROTOCOL.minor}.0`;
  const comm = widgets.comms.open('jupyter.widget', { state: widget.state, buffer_paths: [] }, { version });
  widgets.open.set(comm.id, widget);
  const update = (changes: Data): void => comm.send({ method: 'update', state: changes, buffer_paths: [] });
  comm.onClose = () => void widgets.open.delete(comm.id);
  comm.onMessage = ({ method, content, state: changes }) => {
    if (method === 'custom' && isData(content)) heard(content);
    if (method === 'update' && isData(changes)) {
      widget.state = { ...widget.state, ...changes };
      changed?.(changes);
    }
    if (method === 'request_state') {
      widget.isRestored = true;
      update(widget.state);
    }
  };
  const { major: version_major, minor: version_minor } = PROTOCOL;
  return {
    id: comm.id,
    bundle: {
      'application/vnd.jupyter.widget-view+json': { version_major, version_minor, model_id: comm.id },
    },
    get isRestored() {
      return widget.isRestored;
    },
    set: (changes) => {
      widget.state = { ...widget.state, ...changes };
      if (widgets.open.has(comm.id)) update(changes);
    },
    send: (content) => {
      if (widgets.open.has(comm.id)) comm.send({ method: 'custom', content });
    },
    close: () => {
      if (widgets.open.delete(comm.id)) comm.close();
    },
  };
}

/**
 * Limits how often `send` is called: a request within `between` after the call before (`last`) is answered later, and several such
 * requests once.
 */
export function limited(send: () => void, between: Seconds, last: Seconds = Number.NEGATIVE_INFINITY) {
  let timer: NodeJS.Timeout | undefined;
  const stop = (): void => {
    clearTimeout(timer);
    timer = undefined;
  };
  const sendNow = (): void => {
    stop();
    last = now();
    send();
  };
  return {
    now: sendNow,
    request: (): void => {
      const left = last + between - now();
      if (left <= 0) sendNow();
      else timer ??= setTimeout(sendNow, left * 1000);
    },
    stop,
  };
}

function isData(value: unknown): value is Data {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
