import type { ErrorJson } from '../../core/errors';
import { failedFolder, temporaryFolder } from '../format/checkpoint-folder';
import { type FileSystem, writeWhole } from '../format/file-system';
import { type CommitSpec, hasRead } from './commit';
import { type PartReport, reportFile } from './part-writer';
import type { SaveSink } from './save-sink';

/** A rank's part of a save that will not be written. */
interface GivenUp {
  readonly save: Pick<CommitSpec, 'folder' | 'id' | 'members' | 'rank'>;
  /** What was to write it; undefined where it was not made yet. */
  readonly sink: SaveSink | undefined;
  readonly error: ErrorJson;
}

/**
 * Ends a rank's part before it was copied, so that no other rank waits for it: through its sink, else the first rank takes the
 * folder away, and others leave a report that says why. Nobody awaits it, and it does not throw.
 */
export function giveUp(fs: FileSystem, { save, sink, error }: GivenUp): void {
  const { rank } = save;
  const temporary = temporaryFolder(save.folder, save.id);
  if (sink !== undefined) {
    sink.fail(error);
    // The other ranks are told by their own saves.
    sink.finish().catch(() => undefined);
    return;
  }
  try {
    if (rank === 0) {
      // Under another name first: what the others still write into it would outlive its deletion.
      const left = failedFolder(save.folder, `${save.id}-left`);
      fs.renameSync(temporary, left);
      fs.rmSync(left, { recursive: true, force: true });
    } else {
      const report: PartReport = { error, hasLeft: true };
      writeWhole(fs, reportFile(temporary, rank), JSON.stringify(report));
    }
  } catch {
    // The first rank has taken the folder away or given it up; else the disk is broken, and the first rank cannot commit.
    hasRead(fs, save);
  }
}
