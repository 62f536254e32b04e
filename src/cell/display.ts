import { randomUUID } from 'node:crypto';
import { globalSlot } from '../core';
import { encodeBinary, type MimeBundle, toMimeBundle } from './mime';

export interface DisplayOptions {
  /** Names the display so that `update` can replace its content later. */
  readonly displayId?: string | undefined;
  readonly metadata?: MimeBundle | undefined;
}

/** Receives a process's rich output: the kernel's executor, a rank's courier, or a stock tslab kernel. */
export interface DisplaySink {
  display(bundle: MimeBundle, options?: DisplayOptions): void;
  /** Replaces the content of every display with this id, in any cell. */
  update(displayId: string, bundle: MimeBundle): void;
  /** Empties the running cell's output; with `wait`, only when the next output comes. */
  clear(wait?: boolean): void;
  /**
   * Calls `end` once, when the running cell ends; returns false if no cell runs. Hosts that do not know when a cell ends omit
   * this method.
   */
  atEnd?(end: () => void): boolean;
  /** Whether an output may be a widget; the output of a widget's callback is part of that widget. Default false. */
  readonly showsWidgets?: boolean;
  /** Returns the sink of the code that calls it, in hosts that run several cells at once. */
  bound?(): DisplaySink;
}

/** The slot in which the kernel's executor or a rank registers the sink of its process. */
const DISPLAY_SINK = globalSlot<DisplaySink>('shardlab.display');

/** Makes `sink` the process's sink; the returned function restores the previous sink. */
export function registerDisplay(sink: DisplaySink): () => void {
  const previous = DISPLAY_SINK.value;
  DISPLAY_SINK.value = sink;
  return () => {
    DISPLAY_SINK.value = previous;
  };
}

/** Returns the sink of the code that calls it: the registered one, else tslab's if tslab runs this process, else undefined. */
export function currentDisplay(): DisplaySink | undefined {
  const sink = DISPLAY_SINK.value;
  return sink?.bound?.() ?? sink ?? findTslabDisplay();
}

/** Returns a function that shows a bundle in place of the bundle that it showed before. Without a sink, it shows nothing. */
export function replacingDisplay(sink = currentDisplay(), name = 'shardlab'): (bundle: MimeBundle) => void {
  const displayId = `${name}-${randomUUID()}`;
  let isDisplayed = false;
  return (bundle) => {
    if (isDisplayed) sink?.update(displayId, bundle);
    else sink?.display(bundle, { displayId });
    isDisplayed = true;
  };
}

interface ShowOptions {
  /** Names the display, so that `updateDisplay` can replace its content. */
  readonly displayId?: string | undefined;
  /** Whether the value is a MIME bundle, which is shown as it is. */
  readonly raw?: boolean | undefined;
}

/**
 * Creates the functions that every cell finds on globalThis. The functions use the process's sink; without a sink they do
 * nothing.
 */
export function createDisplayGlobals() {
  return {
    display: (value: unknown, { displayId, raw }: ShowOptions = {}): Promise<void> =>
      withBundle(value, raw, (bundle) => currentDisplay()?.display(bundle, { displayId })),
    updateDisplay: (displayId: string, value: unknown, { raw }: ShowOptions = {}): Promise<void> =>
      withBundle(value, raw, (bundle) => currentDisplay()?.update(displayId, bundle)),
    clearOutput: (wait = false): void => currentDisplay()?.clear(wait),
  };
}

// A raw bundle is shown before the call returns, so that displays without `await` keep their order.
function withBundle(
  value: unknown,
  raw: boolean | undefined,
  show: (bundle: MimeBundle) => void,
): Promise<void> {
  if (raw === true && typeof value === 'object' && value !== null) {
    show(encodeBinary({ ...value }));
    return Promise.resolve();
  }
  return toMimeBundle(value).then((bundle) => {
    // A value that shows itself (a live player) returns an empty bundle.
    if (Object.keys(bundle).length > 0) show(bundle);
  });
}

interface TslabMessage {
  readonly data: MimeBundle;
  readonly metadata: MimeBundle;
  readonly transient: { readonly display_id?: string | undefined };
}

interface TslabJupyter {
  readonly lastWriteDisplayData: ((message: TslabMessage, update: boolean) => void) | null;
}

const TSLAB_MODULE = /[\\/]tslab[\\/]dist[\\/]jupyter\.js$/;

/**
 * Returns a sink of the tslab kernel that runs this process; undefined if another kernel runs it. The sink uses tslab's
 * internal writer, which accepts whole bundles; tslab's `display` accepts one media type per call.
 */
function findTslabDisplay(): DisplaySink | undefined {
  const path = Object.keys(require.cache).find((file) => TSLAB_MODULE.test(file));
  if (path === undefined) return undefined;
  // The module is tslab's own, of the version that package.json pins; its shape is checked before use.
  const jupyter = require.cache[path]?.exports as TslabJupyter | undefined;
  if (typeof jupyter?.lastWriteDisplayData !== 'function') return undefined;
  const write = (
    data: MimeBundle,
    id: string | undefined,
    update: boolean,
    metadata: MimeBundle = {},
  ): void => jupyter.lastWriteDisplayData?.({ data, metadata, transient: { display_id: id } }, update);
  return {
    display: (bundle, options = {}) => write(bundle, options.displayId, false, options.metadata),
    update: (displayId, bundle) => write(bundle, displayId, true),
    // tslab cannot clear an output.
    clear: () => {},
  };
}
