import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type ErrorJson, ShardlabError } from '../../../core';
import { failedFolder, replaceFolder, temporaryFolder } from '../format/checkpoint-folder';
import { CHECKSUM_FILE, markIn, STATE_FILE } from '../format/checkpoint-mark';
import type { CheckpointState } from '../format/checkpoint-state';
import type { Checksums, FileChecksums } from '../format/checksums';
import { type FileSystem, fileError, writeError, writeWhole } from '../format/file-system';
import { isRunning } from '../format/process-mark';
import {
  type PartReport,
  type PartSpec,
  type PartWriter,
  reportFile,
  type SaveIdentity,
} from './part-writer';

/**
 * The data with which a rank agrees with the other ranks on a save's end. The ranks agree through files, not by a collective,
 * because training may be in the middle of another collective.
 */
export interface CommitSpec extends SaveIdentity {
  /** The content of the files that only the first rank writes (indices, state); null on other ranks. */
  readonly documents: CommitDocuments | null;
}

export interface CommitDocuments {
  readonly indices: ReadonlyMap<string, string>;
  readonly state: Omit<CheckpointState, 'files'>;
  readonly blockElements: number;
}

/** One rank's work in a save, as plain data that is sent to the thread that does the work. */
export interface SaveSpec extends PartSpec, CommitSpec {}

const NO_ROOM: ErrorJson = {
  code: 'IO',
  message:
    'this rank could not write anything, not even its error: the disk is full or broken; free some space, or save to another disk',
};

/** Prefix of the names of empty files. By such a file, a rank confirms that it has read why the save failed. */
const READ = 'read-';
/** Milliseconds between two checks of the folder. */
const POLL_MS = 5;
/** Number of checks of the folder between two checks of the other processes. */
const LOOKS_A_CHECK = 40;

/**
 * Ends this rank's part and waits for the commit. Throws: the errors of `committed`. If this rank had an error that it could
 * not report to the other ranks, throws this error instead.
 */
export async function finishPart(writer: PartWriter, fs: FileSystem, spec: CommitSpec): Promise<void> {
  const unsaid = writer.finish();
  try {
    await committed(fs, spec);
  } catch (error) {
    throw unsaid ?? error;
  }
}

/**
 * Waits until all ranks have written their parts and the checkpoint is in place. Throws on all ranks: the error of the lowest
 * rank that failed, or RANK_DIED if a rank's process ended.
 */
export async function committed(fs: FileSystem, spec: CommitSpec): Promise<void> {
  if (spec.documents === null) return followed(fs, spec);
  try {
    const reports = await allReports(fs, spec);
    commit(fs, spec, spec.documents, reports);
  } catch (error) {
    giveUp(fs, spec, error);
    throw error;
  }
}

async function followed(fs: FileSystem, spec: CommitSpec): Promise<void> {
  const { folder, id } = spec;
  const failed = failedFolder(folder, id);
  await until(
    spec,
    () => [0],
    () => !fs.existsSync(temporaryFolder(folder, id)),
  );
  if (!fs.existsSync(failed) && markIn(folder)?.id === id) return;
  const report = readReport(fs, reportFile(failed, spec.members.length));
  hasRead(fs, spec);
  throw report !== undefined && 'error' in report
    ? ShardlabError.fromJSON(report.error)
    : new ShardlabError(
        'IO',
        `the save into ${folder} failed on rank 0, which could not report why; see rank 0's output`,
      );
}

async function allReports(fs: FileSystem, spec: CommitSpec): Promise<PartReport[]> {
  const temporary = temporaryFolder(spec.folder, spec.id);
  const reports = new Map<number, PartReport>();
  const lacking = (): number[] => [...spec.members.keys()].filter((rank) => !reports.has(rank));
  await until(spec, lacking, () => {
    if (!fs.existsSync(temporary)) {
      const message = `${temporary} was deleted while a checkpoint was written into it; save again`;
      throw fileError(message, { file: temporary });
    }
    for (const rank of lacking()) {
      const report = readReport(fs, reportFile(temporary, rank));
      if (report !== undefined) reports.set(rank, report);
    }
    return reports.size === spec.members.length;
  });
  return [...spec.members.keys()].flatMap((rank) => reports.get(rank) ?? []);
}

function commit(
  fs: FileSystem,
  spec: CommitSpec,
  { indices, state, blockElements }: CommitDocuments,
  reports: readonly PartReport[],
): void {
  const { folder, id, members } = spec;
  const temporary = temporaryFolder(folder, id);
  reports.forEach((report, rank) => {
    if (!('error' in report)) return;
    const { error } = report;
    throw ShardlabError.fromJSON({ ...error, message: `[rank ${rank}] ${error.message}`, rank });
  });
  const checksums: Checksums = { algorithm: 'crc32', block_elements: blockElements, files: merged(reports) };
  for (const [name, text] of indices) writeWhole(fs, join(temporary, name), text);
  writeWhole(fs, join(temporary, CHECKSUM_FILE), `${JSON.stringify(checksums)}\n`);
  for (const rank of members.keys()) fs.rmSync(reportFile(temporary, rank));
  const files = [...Object.keys(checksums.files), ...indices.keys(), CHECKSUM_FILE].sort();
  const text = `${JSON.stringify({ ...state, files }, null, 2)}\n`;
  writeWhole(fs, join(temporary, STATE_FILE), text);
  replaceFolder(fs, folder, id);
}

/** Records that a rank has read why the save failed; the last rank deletes the failed folder. */
function hasRead(fs: FileSystem, { folder, id, members, rank }: SaveIdentity): void {
  const failed = failedFolder(folder, id);
  try {
    fs.closeSync(fs.openSync(join(failed, `${READ}${rank}`), 'w'));
    const numRead = fs.readdirSync(failed).filter((name) => name.startsWith(READ)).length;
    if (numRead === members.length - 1) fs.rmSync(failed, { recursive: true, force: true });
  } catch {
    // The disk is full, or another rank has deleted the folder. The next save deletes the folder if it still exists.
  }
}

/**
 * Shows the other ranks why the save failed. This function deletes the written files to free space, writes the reason, and
 * renames the folder.
 */
function giveUp(fs: FileSystem, spec: CommitSpec, error: unknown): void {
  const { folder, id, members } = spec;
  const temporary = temporaryFolder(folder, id);
  const failed = failedFolder(folder, id);
  if (!fs.existsSync(temporary)) return;
  const left = ranksThatLeft(fs, temporary, members.length);
  makeRoom(fs, temporary);
  if (members.length === 1) {
    fs.rmSync(temporary, { recursive: true, force: true });
    return;
  }
  const report: PartReport = { error: writeError(error, { file: folder }).toJSON() };
  try {
    writeWhole(fs, reportFile(temporary, members.length), JSON.stringify(report));
  } catch {
    // The renamed folder shows the other ranks that the save failed, but not the reason.
  }
  fs.renameSync(temporary, failed);
  // Ranks that gave up in the meantime do not confirm, so this rank confirms in their place.
  for (const rank of new Set([...left, ...ranksThatLeft(fs, failed, members.length)])) {
    hasRead(fs, { ...spec, rank });
  }
}

/** Returns the ranks that gave up before they had a writer; these ranks do not read why the save failed. */
function ranksThatLeft(fs: FileSystem, folder: string, numRanks: number): number[] {
  return [...Array(numRanks).keys()].filter((rank) => {
    const report = readReport(fs, reportFile(folder, rank));
    return report !== undefined && 'error' in report && report.hasLeft === true;
  });
}

/** Deletes the written files. The next save deletes files that cannot be deleted now (another rank may be writing). */
function makeRoom(fs: FileSystem, temporary: string): void {
  for (const name of fs.readdirSync(temporary)) {
    try {
      fs.rmSync(join(temporary, name), { recursive: true, force: true });
    } catch {
      // An error is ignored, because the other ranks wait for the folder's new name, which says that the save failed.
    }
  }
}

/**
 * Joins the checksums of all parts. Ranks that write into one file have different ranges, and one of these ranks has the
 * header.
 */
function merged(reports: readonly PartReport[]): Record<string, FileChecksums> {
  const files: Record<string, FileChecksums> = {};
  for (const report of reports) {
    if ('error' in report) continue;
    for (const [file, part] of Object.entries(report.files)) {
      const { header = '', bytes = 0, tensors } = files[file] ?? { tensors: {} };
      const runs = { ...tensors };
      for (const [tensor, own] of Object.entries(part.tensors ?? {})) {
        runs[tensor] = [...(runs[tensor] ?? []), ...own].sort((a, b) => a.at - b.at);
      }
      files[file] = { header: part.header ?? header, bytes: part.bytes ?? bytes, tensors: runs };
    }
  }
  return files;
}

/**
 * Reads a rank's report; undefined if there is none. The report is complete, because it was renamed into place, or empty,
 * because the disk was full.
 */
function readReport(fs: FileSystem, file: string): PartReport | undefined {
  if (!fs.existsSync(file)) return undefined;
  const text = fs.readFileSync(file, 'utf8');
  try {
    // A rank has written the report with `writeWhole`.
    return JSON.parse(text) as PartReport;
  } catch {
    return { error: NO_ROOM };
  }
}

async function until(
  spec: CommitSpec,
  awaited: () => readonly number[],
  isDone: () => boolean,
): Promise<void> {
  for (let look = 1; !isDone(); look++) {
    if (look % LOOKS_A_CHECK === 0) {
      const rank = awaited().find((index) => !isRunning(spec.members[index] ?? ''));
      // The process may have written its report just before it ended.
      if (rank !== undefined && !isDone()) {
        throw new ShardlabError(
          'RANK_DIED',
          `rank ${rank}'s process ended before the save into ${spec.folder} was complete; the previous checkpoint is unchanged`,
          { rank, details: { rank, file: spec.folder } },
        );
      }
    }
    await setTimeout(POLL_MS);
  }
}

/**
 * Ends the part of a rank that has no writer yet, so that no other rank waits for this rank. The first rank removes the folder;
 * other ranks leave a report with the reason. Does not throw.
 */
export function leaveSave(fs: FileSystem, save: SaveIdentity, error: ErrorJson): void {
  const temporary = temporaryFolder(save.folder, save.id);
  try {
    if (save.rank === 0) {
      // The folder is renamed first; otherwise files that other ranks write now would survive the folder's deletion.
      const left = failedFolder(save.folder, `${save.id}-left`);
      fs.renameSync(temporary, left);
      fs.rmSync(left, { recursive: true, force: true });
    } else {
      const report: PartReport = { error, hasLeft: true };
      writeWhole(fs, reportFile(temporary, save.rank), JSON.stringify(report));
    }
  } catch {
    // The first rank has removed or renamed the folder, or the disk is broken, so that the first rank cannot commit.
    hasRead(fs, save);
  }
}
