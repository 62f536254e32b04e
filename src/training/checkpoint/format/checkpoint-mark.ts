import { join } from 'node:path';
import { readRegularFile } from '../../../core';

/** The file that makes a folder a checkpoint. A save writes this file last. */
export const STATE_FILE = 'trainer_state.json';
export const CHECKSUM_FILE = 'checksums.json';
export const CHECKPOINT_FORMAT = 'shardlab checkpoint';

/** The part of a checkpoint's state that a save reads before it replaces the checkpoint's folder. */
export interface CheckpointMark {
  readonly id: string;
  /** Every file of the checkpoint except the state file. */
  readonly files: readonly string[];
}

/**
 * Returns the mark of the checkpoint in a folder; undefined if the folder has no complete checkpoint. This function does not
 * use the schema of the state, which loaders use, because loading the schema would take a save's thread longer than most saves.
 */
export function markIn(folder: string): CheckpointMark | undefined {
  try {
    // The file may have any JSON; the code below checks each field that it uses.
    const state = JSON.parse(readRegularFile(join(folder, STATE_FILE))) as Record<string, unknown>;
    const { format, id, files } = state;
    if (format !== CHECKPOINT_FORMAT || typeof id !== 'string' || !Array.isArray(files)) return undefined;
    return { id, files: files.map(String) };
  } catch {
    return undefined;
  }
}
