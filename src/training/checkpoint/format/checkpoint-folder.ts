import { basename, dirname, join } from 'node:path';
import { makeFolder } from '../../../core';
import { markIn, STATE_FILE } from './checkpoint-mark';
import { type FileSystem, fileError, syncFolder, writeError } from './file-system';
import { isRunning } from './process-mark';

/**
 * [Note: how a checkpoint is replaced] A save writes into <folder>.saving-<id> beside the folder; trainer_state.json is written
 * last, when all other files are on the disk. This file makes the save complete. Then the old folder is renamed to
 * <folder>.previous-<id>, the new folder is renamed to <folder>, and the old folder is deleted. Whenever the process is killed,
 * one of the three folders is complete. A loader reads <folder>, else a complete new folder, else the old folder. The next save
 * repairs the names and deletes the other folders. The id begins with the mark of the process that renames the folders, so that a
 * running save can be distinguished from a killed save.
 */
type Leftover = 'saving' | 'failed' | 'previous';

/** Returns the folder of an incomplete save. */
export function temporaryFolder(folder: string, id: string): string {
  return `${folder}.saving-${id}`;
}

/** Returns the folder that a failed save leaves, so that the other ranks see the failure. */
export function failedFolder(folder: string, id: string): string {
  return `${folder}.failed-${id}`;
}

/**
 * Prepares the folder for a save: finishes the renaming that a killed save began, deletes the rest of that save, and makes the
 * temporary folder. Throws: IO if another process saves into the folder, if the folder has files but is not a checkpoint, or if
 * it is not writable.
 */
export function prepareFolder(fs: FileSystem, folder: string, id: string): void {
  try {
    refuseBeside(fs, folder);
    recover(fs, folder);
    requireOwn(fs, folder);
    makeFolder(temporaryFolder(folder, id), fs);
  } catch (cause) {
    throw writeError(cause, { file: folder });
  }
}

/**
 * Cleans up after a killed save: if the folder is missing, a complete checkpoint beside it gets the folder's name. Other
 * folders of killed saves are deleted. Throws: IO if a process saves into the folder.
 */
export function recoverFolder(fs: FileSystem, folder: string): void {
  try {
    refuseBeside(fs, folder);
    recover(fs, folder);
  } catch (cause) {
    throw writeError(cause, { file: folder });
  }
}

/** Throws IO if another process saves into the same folder. */
function refuseBeside(fs: FileSystem, folder: string): void {
  const running = leftoversOf(fs, folder, 'saving').find((path) => isRunning(markOf(path)));
  if (running === undefined) return;
  throw fileError(
    `a save into ${folder} is running in process ${markOf(running).split('-')[0]}; wait for its end, or save elsewhere`,
    { file: folder },
  );
}

/** Replaces the folder by the save's temporary folder, which is complete. */
export function replaceFolder(fs: FileSystem, folder: string, id: string): void {
  const temporary = temporaryFolder(folder, id);
  const parent = dirname(folder);
  try {
    syncFolder(fs, temporary);
    syncFolder(fs, parent);
    if (fs.existsSync(folder)) fs.renameSync(folder, `${folder}.previous-${id}`);
    fs.renameSync(temporary, folder);
    syncFolder(fs, parent);
  } catch (cause) {
    throw writeError(cause, { file: folder });
  }
  try {
    recover(fs, folder);
  } catch {
    // The checkpoint is in place; the next save deletes files that could not be deleted now.
  }
}

/** Returns the folder to read: `folder`, or a complete checkpoint that a killed save left beside it. Throws: IO. */
export function folderToRead(fs: FileSystem, folder: string): string {
  if (fs.existsSync(folder)) return folder;
  const complete = completeLeftover(fs, folder);
  if (complete !== undefined) return complete;
  // A save may have put its folder in place since the first look.
  if (fs.existsSync(folder)) return folder;
  const others = listed(fs, dirname(folder)).filter((name) => !name.startsWith('.'));
  const there = others.length === 0 ? 'nothing' : others.slice(0, 5).join(', ');
  const message = `there is no folder ${folder}; in ${dirname(folder)} there is ${there}`;
  throw fileError(message, { file: folder });
}

function recover(fs: FileSystem, folder: string): void {
  if (!fs.existsSync(folder)) {
    const complete = completeLeftover(fs, folder);
    if (complete !== undefined) fs.renameSync(complete, folder);
  }
  for (const previous of leftoversOf(fs, folder, 'previous')) {
    keepOthersFiles(fs, previous, folder);
    fs.rmSync(previous, { recursive: true, force: true });
  }
  for (const kind of ['saving', 'failed'] as const) {
    for (const path of leftoversOf(fs, folder, kind)) fs.rmSync(path, { recursive: true, force: true });
  }
}

/**
 * Moves the user's files (a config, a tokenizer) from the old folder to the new folder. If the old folder has no state file, an
 * earlier call has moved the files.
 */
function keepOthersFiles(fs: FileSystem, previous: string, folder: string): void {
  const mark = markIn(previous);
  if (mark === undefined) return;
  const own = new Set([STATE_FILE, ...mark.files]);
  for (const name of listed(fs, previous)) {
    const target = join(folder, name);
    if (!own.has(name) && !fs.existsSync(target)) fs.renameSync(join(previous, name), target);
  }
}

/** Throws IO if the folder has files but is not a checkpoint, because the save would replace these files. */
function requireOwn(fs: FileSystem, folder: string): void {
  if (!fs.existsSync(folder)) return;
  const names = fs.readdirSync(folder);
  if (names.length === 0 || markIn(folder) !== undefined) return;
  throw fileError(
    `${folder} holds ${names.slice(0, 3).join(', ')}${names.length > 3 ? ', …' : ''} and no checkpoint of shardlab; ` +
      'a save replaces the whole folder, so these files would be lost: choose another folder',
    { file: folder },
  );
}

function completeLeftover(fs: FileSystem, folder: string): string | undefined {
  const leftovers = [...leftoversOf(fs, folder, 'saving'), ...leftoversOf(fs, folder, 'previous')];
  return leftovers.find((path) => markIn(path) !== undefined);
}

function leftoversOf(fs: FileSystem, folder: string, kind: Leftover): string[] {
  const prefix = `${basename(folder)}.${kind}-`;
  return listed(fs, dirname(folder))
    .filter((name) => name.startsWith(prefix))
    .map((name) => join(dirname(folder), name));
}

/** Returns the process mark '<pid>-<start>', with which the id of a save '<pid>-<start>-<number>' begins. */
function markOf(path: string): string {
  const id = path.slice(path.lastIndexOf('.saving-') + '.saving-'.length);
  return id.split('-').slice(0, 2).join('-');
}

function listed(fs: FileSystem, folder: string): string[] {
  return fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
}
