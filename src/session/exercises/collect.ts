import { type Dirent, readdirSync, statSync } from 'node:fs';
import { basename, join, relative, sep } from 'node:path';
import { isFolder, isRecord, parseJson, readRegularFile } from '../../core';
import {
  ANSWER_MIME,
  ANSWERS_FILE,
  begunExercises,
  type Entry,
  entryOf,
  inOrder,
  type Progress,
  progressOf,
  readEntries,
} from './entries';

/** The answers of one student. */
export interface StudentAnswers {
  readonly student: string;
  /** Of the exercises that the student tried, or asked a hint or the solution of. */
  readonly exercises: ReadonlyMap<string, Progress>;
  readonly numGuesses: number;
  readonly points: number;
}

/** What a folder of submissions has. */
export interface CollectedAnswers {
  readonly students: readonly StudentAnswers[];
  /** All exercises of the notebooks that some student began. */
  readonly exercises: readonly string[];
  readonly numFiles: number;
  /** What a teacher should look at: lines that cannot be read, and entries that two students share. */
  readonly notes: readonly string[];
}

/** Folders that have copies of submissions, or no submissions. */
const OTHER_FOLDERS: readonly string[] = ['node_modules', '__pycache__'];
/** nbgrader's folder of what students handed in. */
const SUBMITTED = 'submitted';
/** Levels of folders below which nothing is looked for. */
const MOST_LEVELS = 12;
/** Larger files are no submissions. */
const MOST_BYTES = 2 ** 27;

/**
 * Collects all students' answers below a folder: files shardlab-answers.jsonl (or other .jsonl files with such lines), and notebooks whose
 * outputs have the record. The first folder below is the student, as in nbgrader's submitted/STUDENT/ASSIGNMENT; for a file
 * that is in no such folder, the user's name of each entry is. Verdicts and points are worked out again from the values. Throws: errors of
 * readdirSync.
 */
export function collectAnswers(folder: string): CollectedAnswers {
  const root = isFolder(join(folder, SUBMITTED)) ? join(folder, SUBMITTED) : folder;
  const notes: string[] = [];
  const byStudent = new Map<string, Entry[]>();
  let numFiles = 0;
  for (const path of filesBelow(root, MOST_LEVELS, notes)) {
    const recorded = answersIn(path, notes);
    if (recorded === undefined) continue;
    numFiles++;
    const [first = '', ...others] = relative(root, path).split(sep);
    const student = others.length > 0 ? first : undefined;
    if (student !== undefined) entriesOf(byStudent, student);
    for (const entry of recorded) entriesOf(byStudent, student ?? entry.user).push(entry);
  }
  const all = [...byStudent].map(([student, entries]) => ({ student, entries: inOrder(entries) }));
  notes.push(...strangers(all), ...copies(all));
  const ids = all.flatMap(({ entries }) =>
    entries.filter(({ kind }) => kind !== 'guess').map(({ exercise }) => exercise),
  );
  const exercises = begunExercises(ids);
  const unknown = new Set(ids.filter((id) => !exercises.some(([known]) => known === id)));
  if (unknown.size > 0)
    notes.push(`not counted, because there is no such exercise: ${[...unknown].slice(0, 10).join(', ')}`);
  const students = all
    .map(({ student, entries }) => gradeOf(student, entries, exercises))
    .sort((a, b) => (a.student < b.student ? -1 : 1));
  return { students, exercises: exercises.map(([id]) => id), numFiles, notes };
}

/** Returns a student's list, which is made if there is none. */
function entriesOf(byStudent: Map<string, Entry[]>, student: string): Entry[] {
  const entries = byStudent.get(student) ?? [];
  byStudent.set(student, entries);
  return entries;
}

function* filesBelow(folder: string, levels: number, notes: string[]): Generator<string> {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isFile() && /\.(?:jsonl|ipynb)$/.test(entry.name)) yield path;
    if (!entry.isDirectory() || levels === 0 || !isLookedAt(entry)) continue;
    try {
      yield* filesBelow(path, levels - 1, notes);
    } catch (error) {
      notes.push(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

function isLookedAt({ name }: Dirent): boolean {
  return !name.startsWith('.') && !OTHER_FOLDERS.includes(name);
}

/** Returns the entries of a file; undefined if the file has nothing to do with exercises. */
function answersIn(path: string, notes: string[]): readonly Entry[] | undefined {
  const isRecordFile = basename(path).includes(ANSWERS_FILE.replace('.jsonl', ''));
  try {
    if (statSync(path).size > MOST_BYTES) return undefined;
    const text = readRegularFile(path, MOST_BYTES);
    if (path.endsWith('.ipynb'))
      return text.includes('sl.check(') ? notebookEntries(parseJson(text)) : undefined;
    const { entries, numSkipped } = readEntries(text);
    if (entries.length === 0 && !isRecordFile) return undefined;
    if (numSkipped > 0) notes.push(`${path}: ${numSkipped} lines are no answers, and were skipped`);
    return entries;
  } catch (error) {
    notes.push(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

/** Returns the entries that a notebook's outputs have. */
function notebookEntries(notebook: unknown): readonly Entry[] {
  const cells: unknown[] = isRecord(notebook) && Array.isArray(notebook.cells) ? notebook.cells : [];
  return cells
    .flatMap((cell): unknown[] => (isRecord(cell) && Array.isArray(cell.outputs) ? cell.outputs : []))
    .flatMap((output) => {
      const data = isRecord(output) && isRecord(output.data) ? output.data[ANSWER_MIME] : undefined;
      return isRecord(data) && Array.isArray(data.entries) ? data.entries : [];
    })
    .flatMap((entry) => entryOf(entry) ?? []);
}

function gradeOf(
  student: string,
  entries: readonly Entry[],
  exercises: ReturnType<typeof begunExercises>,
): StudentAnswers {
  const graded = exercises.flatMap(([id, exercise]): [string, Progress][] => {
    const own = entries.filter((entry) => entry.exercise === id && entry.kind !== 'guess');
    return own.length === 0 ? [] : [[id, progressOf(exercise, own)]];
  });
  const guesses = new Set(entries.filter(({ kind }) => kind === 'guess').map(({ exercise }) => exercise));
  const points = graded.reduce((sum, [, progress]) => sum + progress.points, 0);
  return { student, exercises: new Map(graded), numGuesses: guesses.size, points };
}

interface Handed {
  readonly student: string;
  readonly entries: readonly Entry[];
}

/** Notes students whose entries were made by several users. */
function strangers(all: readonly Handed[]): readonly string[] {
  return all.flatMap(({ student, entries }) => {
    const users = [...new Set(entries.map(({ user }) => user))];
    return users.length > 1
      ? [`${student}: the answers were recorded by ${users.length} users: ${users.slice(0, 5).join(', ')}`]
      : [];
  });
}

/** Notes entries that two students have with the same time and value: one is a copy. */
function copies(all: readonly Handed[]): readonly string[] {
  const owners = new Map<string, string>();
  const shared = new Map<string, number>();
  for (const { student, entries } of all) {
    for (const { time, exercise, kind, value } of entries) {
      const key = JSON.stringify([time, exercise, kind, value]);
      const owner = owners.get(key) ?? student;
      owners.set(key, owner);
      const pair = `${owner} and ${student}`;
      if (owner !== student) shared.set(pair, (shared.get(pair) ?? 0) + 1);
    }
  }
  return [...shared].map(
    ([pair, count]) =>
      `${pair} have ${count === 1 ? 'an entry' : `${count} entries`} in common, with the same time`,
  );
}
