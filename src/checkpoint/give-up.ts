import type { ErrorJson } from '../core/errors';
import { type FileSystem, writeWhole } from './file-system';
import { type PartReport, reportFile } from './part-writer';
import type { SaveSink } from './save-sink';

/** A rank's part of a save that will not be written. */
interface GivenUp {
  readonly temporary: string;
  readonly rank: number;
  /** What was to write it; undefined where it was not made yet. */
  readonly sink: SaveSink | undefined;
  readonly error: ErrorJson;
}

/**
 * Ends a rank's part before it was copied, so that no other rank waits for it: through its sink, else the first rank takes the
 * folder away, and others leave a report that says why. Nobody awaits it, and it does not throw.
 */
export function giveUp(fs: FileSystem, { temporary, rank, sink, error }: GivenUp): void {
  if (sink !== undefined) {
    sink.fail(error);
    // The other ranks are told by their own saves.
    sink.finish().catch(() => undefined);
    return;
  }
  try {
    if (rank === 0) fs.rmSync(temporary, { recursive: true, force: true, maxRetries: 3 });
    else if (fs.existsSync(temporary)) {
      writeWhole(fs, reportFile(temporary, rank), JSON.stringify({ error } satisfies PartReport));
    }
  } catch {
    // The first rank has taken the folder away meanwhile, or its disk is broken: it then finds no folder, or cannot commit.
  }
}
