import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { makeFolder } from '../../core';
import { isRunning, processMark } from '../../training';

/**
 * [Note: partial folders] A bundle is written into a hidden folder, whose entries move to `out` at the end. So a
 * process that is killed while it writes (Ctrl-C) leaves no incomplete bundle in `out`. The next export to `out`
 * removes the hidden folder. The hidden folder is in `out` if `out` exists, because only `out` itself may be writable;
 * otherwise, it is beside `out`.
 */
const PARTIAL = /^\..*partial-(\d+-\d+)$/;

/** Fills a new or empty folder. If filling fails, no new folder is made, and an empty folder stays empty. */
export function fillFolder<Result>(out: string, fill: (folder: string) => Result): Result {
  const isNew = !fs.existsSync(out);
  const base = isNew ? dirname(out) : out;
  makeFolder(base);
  removeStale(base, isNew ? `.${basename(out)}.` : '.');
  const folder = join(base, `.${isNew ? `${basename(out)}.` : ''}partial-${processMark()}`);
  try {
    fs.mkdirSync(folder);
    const result = fill(folder);
    if (isNew) fs.renameSync(folder, out);
    else for (const name of fs.readdirSync(folder)) fs.renameSync(join(folder, name), join(out, name));
    return result;
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** Whether a folder is empty except for the hidden folders of killed exports. */
export function isEmptyFolder(folder: string): boolean {
  return fs.statSync(folder).isDirectory() && fs.readdirSync(folder).every(isStale);
}

function removeStale(base: string, start: string): void {
  for (const name of fs.readdirSync(base))
    if (name.startsWith(start) && isStale(name))
      fs.rmSync(join(base, name), { recursive: true, force: true });
}

/** Whether a name belongs to a partial folder whose process has ended. */
function isStale(name: string): boolean {
  const mark = PARTIAL.exec(name)?.[1];
  return mark !== undefined && !isRunning(mark);
}
