import { registerDisplay } from '../../cell/display';
import type { MimeBundle } from '../../cell/mime';
import type { Io } from '../io';

/**
 * Shows a run's progress on stderr: on a terminal one line that is redrawn, elsewhere only the last state. The returned
 * function ends it.
 */
export function showProgress(io: Io): () => void {
  let last = '';
  const show = (bundle: MimeBundle): void => {
    // The last state has the figure's numbers below its line.
    last = String(bundle['text/plain'] ?? '').split('\n', 1)[0] ?? '';
    if (io.isTerminal) io.stderr(`\r${last}\u001b[K`);
  };
  const unregister = registerDisplay({
    display: show,
    update: (_, bundle) => show(bundle),
    clear: () => undefined,
  });
  return () => {
    unregister();
    if (last !== '') io.stderr(io.isTerminal ? '\n' : `${last}\n`);
  };
}
