import { globalSlot } from '../core';
import type { MimeBundle } from './mime';

type Data = Readonly<Record<string, unknown>>;

/** A channel between this process and the front end. Source: Jupyter protocol, custom messages */
export interface WidgetComm {
  readonly id: string;
  send(data: Data): void;
  close(): void;
  onMessage: (data: Data, buffers: readonly Uint8Array[]) => void;
  onClose: (data: Data) => void;
}

/** Opens channels to the front end; the kernel's executor has such an object. */
export interface WidgetComms {
  open(target: string, data: Data, metadata: Data): WidgetComm;
}

const COMMS = globalSlot<WidgetComms>('shardlab.comms');

/** Makes `comms` the channels of the process's widgets. */
export function registerComms(comms: WidgetComms): void {
  COMMS.value = comms;
}

export interface WidgetOptions {
  /** The code of the widget: an ES module whose default export has anywidget's `render({ model, el })`. */
  readonly esm: string;
  /** The model's values by name, as JSON. */
  readonly state: Data;
  /** Is called with each message that the code sends by `model.send`. */
  readonly heard: (message: Data) => void;
}

/** An open widget. */
export interface Widget {
  /** The content of an output that shows the widget, for front ends that have anywidget. */
  readonly bundle: MimeBundle;
  /** Whether a page was loaded again and has asked for the widget's state. */
  readonly isRestored: boolean;
  /** Changes values of the model. */
  set(changes: Data): void;
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
export function openWidget({ esm, state, heard }: WidgetOptions): Widget | undefined {
  const comms = COMMS.value;
  if (comms === undefined) return undefined;
  let current: Data = { ...ANYWIDGET, _anywidget_id: 'shardlab', _esm: esm, ...state };
  let [isOpen, isRestored] = [true, false];
  const version = `${PROTOCOL.major}.${PROTOCOL.minor}.0`;
  const comm = comms.open('jupyter.widget', { state: current, buffer_paths: [] }, { version });
  comm.onClose = () => {
    isOpen = false;
  };
  comm.onMessage = ({ method, content, state: changed }) => {
    if (method === 'custom' && isData(content)) heard(content);
    if (method === 'update' && isData(changed)) current = { ...current, ...changed };
    if (method === 'request_state') {
      isRestored = true;
      comm.send({ method: 'update', state: current, buffer_paths: [] });
    }
  };
  const { major: version_major, minor: version_minor } = PROTOCOL;
  return {
    bundle: {
      'application/vnd.jupyter.widget-view+json': { version_major, version_minor, model_id: comm.id },
    },
    get isRestored() {
      return isRestored;
    },
    set: (changes) => {
      current = { ...current, ...changes };
      if (isOpen) comm.send({ method: 'update', state: changes, buffer_paths: [] });
    },
    close: () => {
      if (isOpen) comm.close();
      isOpen = false;
    },
  };
}

function isData(value: unknown): value is Data {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
