import type { DisplaySink } from './display-sink';
import { findTslabDisplay } from './tslab-host';

/** Key on globalThis under which the host of the running code registers its sink. */
export const DISPLAY_SINK: unique symbol = Symbol.for('shardlab.display');

interface DisplayHost {
  [DISPLAY_SINK]?: DisplaySink | undefined;
}

/** Makes `sink` the process's sink; the returned function puts back what was there. */
export function registerDisplay(sink: DisplaySink): () => void {
  const host = displayHost();
  const previous = host[DISPLAY_SINK];
  host[DISPLAY_SINK] = sink;
  return () => {
    host[DISPLAY_SINK] = previous;
  };
}

/** The sink of the process: the registered one, else tslab's where the host is tslab, else none. */
export function currentDisplay(): DisplaySink | undefined {
  return displayHost()[DISPLAY_SINK] ?? findTslabDisplay();
}

function displayHost(): DisplayHost {
  // globalThis has no index type for symbols; the key is ours alone.
  return globalThis as DisplayHost;
}
