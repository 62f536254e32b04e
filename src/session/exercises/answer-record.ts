import { closeSync, fstatSync, readSync, writeSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { createOutputFile, openRegularFile, readRegularFile } from '../../core';
import { ANSWERS_FILE, type Entry, inOrder, readEntries } from './entries';

/** The longest text that is recorded. */
const MOST_CHARACTERS = 200;
/** The most values of a list that are recorded: one per rank. */
const MOST_VALUES = 1024;
/** A file of answers has some kilobytes; a larger one is another file. */
const MOST_BYTES = 2 ** 24;

/** What a record needs of its process. */
export interface RecordPlace {
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  readonly now: () => Date;
}

/**
 * What a user answered: a file beside the notebook, of one line of JSON per answer. Each line is one write in append mode, so several
 * kernels can write at once. If the file cannot be written, the record is in memory only.
 */
export class AnswerRecord {
  readonly user: string;
  readonly #place: RecordPlace;
  /** Entries that could not be written. */
  readonly #unsaved: Entry[] = [];

  constructor(place: RecordPlace) {
    this.#place = place;
    this.user = userOf(place.env);
  }

  /** Whether a grader executes the notebook: nbgrader sets this variable to 'autograde' or 'validate'. Then nothing is recorded. */
  get isGrading(): boolean {
    return (this.#place.env.NBGRADER_EXECUTION ?? '') !== '';
  }

  /** Returns this user's entries, in the order of time, and the number of lines of the file that are none. */
  read(): { readonly entries: readonly Entry[]; readonly numSkipped: number } {
    if (this.isGrading) return { entries: [], numSkipped: 0 };
    const { entries, numSkipped } = this.#readFile();
    const mine = [...entries, ...this.#unsaved].filter(({ user }) => user === this.user);
    return { entries: inOrder(mine), numSkipped };
  }

  /** Appends an entry. Returns why it is in memory only; undefined if it was written. Never throws. */
  add(entry: Pick<Entry, 'exercise' | 'kind' | 'value' | 'outcome' | 'points'>): string | undefined {
    if (this.isGrading) return undefined;
    const { value, ...others } = entry;
    const time = this.#place.now().toISOString();
    const line: Entry = { shardlab: 1, time, user: this.user, ...others, value: recordedValue(value) };
    try {
      appendLine(this.#path, JSON.stringify(line));
      return undefined;
    } catch (error) {
      this.#unsaved.push(line);
      return error instanceof Error ? error.message : String(error);
    }
  }

  get #path(): string {
    return join(this.#place.folder, ANSWERS_FILE);
  }

  #readFile(): ReturnType<typeof readEntries> {
    try {
      return readEntries(readRegularFile(this.#path, MOST_BYTES));
    } catch {
      return { entries: [], numSkipped: 0 }; // there is no file yet, or it cannot be read
    }
  }
}

/** Writes a line at the end of a file by one write. If the file's last line was cut off, the new line begins below it. */
function appendLine(path: string, line: string): void {
  const descriptor = createOutputFile(path, { isAppended: true });
  try {
    writeSync(descriptor, `${endsInLine(path) ? '' : '\n'}${line}\n`);
  } finally {
    closeSync(descriptor);
  }
}

const LINE_END = 0x0a;

/** Whether a file is empty, missing or ends in a line end. */
function endsInLine(path: string): boolean {
  const descriptor = openRegularFile(path);
  try {
    const { size } = fstatSync(descriptor);
    const last = Buffer.alloc(1);
    return size === 0 || readSync(descriptor, last, 0, 1, size - 1) === 0 || last[0] === LINE_END;
  } finally {
    closeSync(descriptor);
  }
}

/** Returns a value as an entry has it: as JSON holds it, with bounds. */
export function recordedValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.flat(3).slice(0, MOST_VALUES).map(recordedScalar);
  return recordedScalar(value);
}

function recordedScalar(value: unknown): unknown {
  if (typeof value === 'string') return value.slice(0, MOST_CHARACTERS);
  if (typeof value === 'bigint') return Number(value);
  return typeof value === 'number' || typeof value === 'boolean' ? value : undefined;
}

function userOf(env: NodeJS.ProcessEnv): string {
  const name = env.JUPYTERHUB_USER ?? '';
  if (name !== '') return name.slice(0, MOST_CHARACTERS);
  try {
    return userInfo().username;
  } catch {
    return 'unknown'; // a container may have no name for its user
  }
}
