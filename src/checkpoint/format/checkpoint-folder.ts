import { basename, dirname, join } from 'node:path';
import { ShardlabError } from '../../core/errors';
import { readRegularFile } from '../../core/regular-file';
import { parseCheckpointState, STATE_FILE } from './checkpoint-state';
import { type FileSystem, syncFolder, writeError } from './file-system';
import { isRunning } from './process-mark';

/**
 * [Note: how a checkpoint is replaced] A save writes into <folder>.saving-<id> beside the folder; trainer_state.json comes
 * last, when all else is on the disk, and makes it complete. Then the old folder is renamed to <folder>.previous-<id>, the new
 * one takes its name, and the old one is deleted. Whenever it is killed, one of the three is complete: a loader takes the
 * folder, else a complete new one, else the old one; the next save brings that in order and deletes the rest.
 * The id begins with the mark of the process that commits, so a save that is running is told from one that was killed.
 */
type Leftover = 'saving' | 'failed' | 'previous';

/** Where a save writes before it is complete. */
export function temporaryFolder(folder: string, id: string): string {
  return `${folder}.saving-${id}`;
}

/** What a save that failed leaves for the others to see. */
export function failedFolder(folder: string, id: string): string {
  return `${folder}.failed-${id}`;
}

/**
 * Brings the place of a save in order: finishes what a killed one began, deletes what it left, makes the temporary folder.
 * Throws: IO when another process saves there, when the folder holds something else, or cannot be written.
 */
export function prepareFolder(fs: FileSystem, folder: string, id: string): void {
  try {
    refuseBeside(fs, folder);
    recover(fs, folder);
    requireOwn(fs, folder);
    makeFolder(fs, temporaryFolder(folder, id));
  } catch (cause) {
    throw writeError(cause, { file: folder });
  }
}

/** Throws: IO while another process saves there. */
function refuseBeside(fs: FileSystem, folder: string): void {
  const running = leftoversOf(fs, folder, 'saving').find((path) => isRunning(markOf(path)));
  if (running === undefined) return;
  throw refusal(
    folder,
    `a save into ${folder} is running in process ${markOf(running).split('-')[0]}; wait for its end, or save elsewhere`,
  );
}

/** Makes a folder and those above it, one by one: Node's recursive mkdir never returns below /proc. */
function makeFolder(fs: FileSystem, folder: string): void {
  if (fs.existsSync(folder)) return;
  makeFolder(fs, dirname(folder));
  fs.mkdirSync(folder);
}

/** Puts a complete temporary folder in the folder's place. */
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
    // The checkpoint is in place; what could not be deleted now, the next save deletes.
  }
}

/** The folder to read: the one that was asked for, or what a killed save left complete beside it. Throws: IO. */
export function folderToRead(fs: FileSystem, folder: string): string {
  if (fs.existsSync(folder)) return folder;
  const complete = completeLeftover(fs, folder);
  if (complete !== undefined) return complete;
  const others = listed(fs, dirname(folder)).filter((name) => !name.startsWith('.'));
  const there = others.length === 0 ? 'nothing' : others.slice(0, 5).join(', ');
  throw refusal(folder, `there is no folder ${folder}; in ${dirname(folder)} there is ${there}`);
}

/** Whether trainer_state.json is there and whole. */
export function isComplete(folder: string): boolean {
  return idOf(folder) !== undefined;
}

/** The id of the save that a folder holds; undefined where it holds none. */
export function idOf(folder: string): string | undefined {
  return stateOf(folder)?.id;
}

function stateOf(folder: string): ReturnType<typeof parseCheckpointState> | undefined {
  const file = join(folder, STATE_FILE);
  try {
    return parseCheckpointState(readRegularFile(file), file);
  } catch {
    return undefined;
  }
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

/** What no save wrote (a config, a tokenizer) moves on to the new folder. Where the state is gone, it had moved before. */
function keepOthersFiles(fs: FileSystem, previous: string, folder: string): void {
  const state = stateOf(previous);
  if (state === undefined) return;
  const own = new Set([STATE_FILE, ...state.files]);
  for (const name of listed(fs, previous)) {
    const target = join(folder, name);
    if (!own.has(name) && !fs.existsSync(target)) fs.renameSync(join(previous, name), target);
  }
}

/** Throws: IO for a folder with files that is no checkpoint: it would be replaced. */
function requireOwn(fs: FileSystem, folder: string): void {
  if (!fs.existsSync(folder)) return;
  const names = fs.readdirSync(folder);
  if (names.length === 0 || isComplete(folder)) return;
  throw refusal(
    folder,
    `${folder} holds ${names.slice(0, 3).join(', ')}${names.length > 3 ? ', …' : ''} and no checkpoint of ours, ` +
      'and a save replaces the whole folder; choose another',
  );
}

function completeLeftover(fs: FileSystem, folder: string): string | undefined {
  return [...leftoversOf(fs, folder, 'saving'), ...leftoversOf(fs, folder, 'previous')].find((path) =>
    isComplete(path),
  );
}

function leftoversOf(fs: FileSystem, folder: string, kind: Leftover): string[] {
  const prefix = `${basename(folder)}.${kind}-`;
  return listed(fs, dirname(folder))
    .filter((name) => name.startsWith(prefix))
    .map((name) => join(dirname(folder), name));
}

/** The mark of the process that an id begins with: '<pid>-<start>-<number>'. */
function markOf(path: string): string {
  const id = path.slice(path.lastIndexOf('.saving-') + '.saving-'.length);
  return id.split('-').slice(0, 2).join('-');
}

function listed(fs: FileSystem, folder: string): string[] {
  return fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
}

function refusal(folder: string, what: string): ShardlabError {
  return new ShardlabError('IO', what, { details: { file: folder } });
}
