import type { DisplaySink } from './display-sink';
import type { MimeBundle } from './mime';

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
 * A sink over the kernel that runs this process, when that is tslab.
 * tslab's `display` has one media type a call; its writer behind it takes whole bundles, so that is used.
 */
export function findTslabDisplay(): DisplaySink | undefined {
  const path = Object.keys(require.cache).find((file) => TSLAB_MODULE.test(file));
  if (path === undefined) return undefined;
  // The module is tslab's own, of the version that package.json pins; its shape is checked before use.
  const jupyter = require.cache[path]?.exports as TslabJupyter | undefined;
  if (typeof jupyter?.lastWriteDisplayData !== 'function') return undefined;
  return tslabSink(jupyter);
}

function tslabSink(jupyter: TslabJupyter): DisplaySink {
  const write = (
    data: MimeBundle,
    id: string | undefined,
    update: boolean,
    metadata: MimeBundle = {},
  ): void => jupyter.lastWriteDisplayData?.({ data, metadata, transient: { display_id: id } }, update);
  return {
    display: (bundle, options = {}) => write(bundle, options.displayId, false, options.metadata),
    update: (displayId, bundle) => write(bundle, displayId, true),
    // tslab has no message for it: what was shown stays.
    clear: () => {},
  };
}
