import { currentDisplay, type DisplaySink } from './display';
import { encodeBinary, type MimeBundle, toMimeBundle } from './mime';

export interface ShowOptions {
  /** Names the display, so that `updateDisplay` can replace its content. */
  readonly displayId?: string | undefined;
  /** The value is a MIME bundle itself. */
  readonly raw?: boolean | undefined;
}

/** Functions that every cell finds on globalThis. */
export interface DisplayGlobals {
  display(value: unknown, options?: ShowOptions): Promise<void>;
  updateDisplay(displayId: string, value: unknown, options?: ShowOptions): Promise<void>;
  clearOutput(wait?: boolean): void;
}

/** Builds them over whatever sink the process has when they are called; without one they do nothing. */
export function createDisplayGlobals(sink: () => DisplaySink | undefined = currentDisplay): DisplayGlobals {
  return {
    display: (value, { displayId, raw } = {}) =>
      withBundle(value, raw, (bundle) => sink()?.display(bundle, { displayId })),
    updateDisplay: (displayId, value, { raw } = {}) =>
      withBundle(value, raw, (bundle) => sink()?.update(displayId, bundle)),
    clearOutput: (wait = false) => sink()?.clear(wait),
  };
}

// A raw bundle is shown before the call returns, so that code without `await` keeps its order.
function withBundle(
  value: unknown,
  raw: boolean | undefined,
  show: (bundle: MimeBundle) => void,
): Promise<void> {
  if (raw === true && typeof value === 'object' && value !== null) {
    show(encodeBinary({ ...value }));
    return Promise.resolve();
  }
  return toMimeBundle(value).then(show);
}
