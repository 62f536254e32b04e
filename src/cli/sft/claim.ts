import fs from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { makeFolder, ShardlabError } from '../../core';
import { isRunning, processMark } from '../../training';

/**
 * [Note: claims] A training has a file in its output folder that names its process and its machine. Each training first
 * makes its file, and then looks for files of others. So if two trainings begin at once, at least one sees the other. A
 * killed process leaves its file; the next training deletes it. Whether a process of another machine still runs is
 * unknown, so its file is only reported.
 */
const CLAIM = /^\.training-(\d+-\d+)$/;

/**
 * Claims a training's output folder, and makes the folder if it does not exist; `note` gets a line about a claim of another
 * machine. Returns the function that ends the claim. Throws: IO if another training writes into the folder, or if the folder
 * cannot be made.
 */
export function claimFolder(folder: string, note: (line: string) => void): () => void {
  const isNew = !fs.existsSync(folder);
  try {
    makeFolder(folder);
  } catch (cause) {
    throw notWritten(folder, cause);
  }
  const own = `.training-${processMark()}`;
  const release = (): void => {
    fs.rmSync(join(folder, own), { force: true });
    if (isNew && fs.existsSync(folder) && fs.readdirSync(folder).length === 0) fs.rmdirSync(folder);
  };
  try {
    fs.writeFileSync(join(folder, own), hostname(), { flag: 'wx' });
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'EEXIST')
      throw claimed(folder, process.pid);
    throw notWritten(folder, cause);
  }
  try {
    for (const name of fs.readdirSync(folder)) if (name !== own) checkClaim(folder, name, note);
    return release;
  } catch (error) {
    release();
    throw error;
  }
}

/** Deletes a claim if its process has ended. Throws: IO if the process still runs. */
function checkClaim(folder: string, name: string, note: (line: string) => void): void {
  const [, mark] = CLAIM.exec(name) ?? [];
  if (mark === undefined) return;
  const [pid = ''] = mark.split('-');
  const host = fs.readFileSync(join(folder, name), 'utf8');
  if (host !== hostname()) {
    note(
      `process ${pid} of ${host} began a training in ${folder}; if the process still runs, end it, because both trainings would write the same files. If it has ended, delete ${name}`,
    );
  } else if (isRunning(mark)) throw claimed(folder, pid);
  else fs.rmSync(join(folder, name), { force: true });
}

function notWritten(folder: string, cause: unknown): ShardlabError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ShardlabError(
    'IO',
    `sft: --output_dir ${folder} cannot be written: ${why}; name a folder in which you may write`,
    { cause },
  );
}

function claimed(folder: string, pid: string | number): ShardlabError {
  return new ShardlabError(
    'IO',
    `sft: process ${pid} writes its training into ${folder}; wait for its end, or give another --output_dir`,
    { details: { file: folder } },
  );
}
