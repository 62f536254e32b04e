import type { ErrorJson } from '../../core/errors';
import { failedFolder, temporaryFolder } from '../format/checkpoint-folder';
import { type FileSystem, writeWhole } from '../format/file-system';
import { type CommitSpec, hasRead } from './commit';
import { type PartReport, reportFile } from './part-writer';
import type { SaveSink } from './save-sink';

/** A rank's part of a save that will not be written. */
interface GivenUp {
  readonly save: Pick<CommitSpec, 'folder' | 'id' | 'members' | 'rank'>;
  /** The sink of the part; undefined if it was not made yet. */
  readonly sink: SaveSink | undefined;
  readonly error: ErrorJson;
}

/**
 * Ends a rank's part before it was copied, so that no other rank waits for it: through its sink; without a sink, the
 * first rank removes the folder, and other ranks leave a report with the reason. Nobody awaits it, and it does not
 * throw.
 */
export function giveUp(fs: FileSystem, { save, sink, error }: GivenUp): void {
  const { rank } = save;
  const temporary = temporaryFolder(save.folder, save.id);
  if (sink !== undefined) {
    sink.fail(error);
    // The other ranks learn it from their own saves.
    sink.finish().catch(() => undefined);
    return;
  }
  try {
    if (rank === 0) {
      // Rename first: files that other ranks still write into it would survive its deletion.
      const left = failedFolder(save.folder, `${save.id}-left`);
      fs.renameSync(temporary, left);
      fs.rmSync(left, { recursive: true, force: true });
    } else {
      const report: PartReport = { error, hasLeft: true };
      writeWhole(fs, reportFile(temporary, rank), JSON.stringify(report));
    }
  } catch {
    // The first rank has removed the folder or given it up; otherwise the disk is broken, and the first rank cannot
    // commit.
    hasRead(fs, save);
  }
}
