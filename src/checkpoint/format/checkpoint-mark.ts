import { join } from 'node:path';
import { readRegularFile } from '../../core/regular-file';

/** The file that makes a folder a checkpoint: it is written last. */
export const STATE_FILE = 'trainer_state.json';
export const CHECKSUM_FILE = 'checksums.json';
export const CHECKPOINT_FORMAT = 'shardlab checkpoint';

/** The part of a checkpoint's state that is needed to replace its folder. */
export interface CheckpointMark {
  readonly id: string;
  /** Every file of the checkpoint except the state file. */
  readonly files: readonly string[];
}

/**
 * Returns the mark of the checkpoint in a folder; undefined if the folder has no complete checkpoint. A loader checks the rest of
 * the state with its schema, which the thread of a save does not load, because loading the schema would take longer than most
 * saves.
 */
export function markIn(folder: string): CheckpointMark | undefined {
  try {
    // Any JSON; each part that is used is checked.
    const state = JSON.parse(readRegularFile(join(folder, STATE_FILE))) as Record<string, unknown>;
    const { format, id, files } = state;
    if (format !== CHECKPOINT_FORMAT || typeof id !== 'string' || !Array.isArray(files)) return undefined;
    return { id, files: files.map(String) };
  } catch {
    return undefined;
  }
}
