import { isRecord, parseJson } from '../../core';
import { EXERCISES, type Exercise } from './exercise';
import { judge } from './judge';

/** The name of the file that records answers, beside the notebook. */
export const ANSWERS_FILE = 'shardlab-answers.jsonl';

/** The MIME type under which the output of a cell has the record of an exercise, for who collects notebooks only. */
export const ANSWER_MIME = 'application/vnd.shardlab.answer+json';

const KINDS = ['try', 'hint', 'solution', 'guess'] as const;

/** One thing that a user did with an exercise or a guess: a line of the file. */
export interface Entry {
  /** The version of the format. */
  readonly shardlab: 1;
  /** When, in ISO 8601. */
  readonly time: string;
  readonly user: string;
  readonly exercise: string;
  readonly kind: (typeof KINDS)[number];
  /** The answer of a try, or the number of a guess. */
  readonly value?: unknown;
  /** For human readers: `shardlab grade` judges the value again. */
  readonly outcome?: 'right' | 'wrong';
  readonly points?: number;
}

/** Returns an entry of a value that was read from a file; undefined if it is none. */
export function entryOf(value: unknown): Entry | undefined {
  if (!isRecord(value) || value.shardlab !== 1) return undefined;
  const { time, user, exercise, kind } = value;
  const isKnown = KINDS.some((known) => known === kind);
  const texts = [time, user, exercise].every((text) => typeof text === 'string' && text.length <= 200);
  const isTime = typeof time === 'string' && Number.isFinite(Date.parse(time));
  // The four fields that decide were checked; other fields are not trusted.
  return isKnown && texts && isTime ? (value as unknown as Entry) : undefined;
}

/** Returns the entries of a file's text, and the number of lines that are none. */
export function readEntries(text: string): {
  readonly entries: readonly Entry[];
  readonly numSkipped: number;
} {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const entries = lines.flatMap((line) => entryOf(parsed(line)) ?? []);
  return { entries, numSkipped: lines.length - entries.length };
}

function parsed(line: string): unknown {
  try {
    return parseJson(line);
  } catch {
    return undefined;
  }
}

/** The number of wrong answers after which the solution is offered. */
export const TRIES_BEFORE_SOLUTION = 2;

/** How far a user is with an exercise. */
export interface Progress {
  /** Answers until the right one; the same wrong answer twice in a row counts once. */
  readonly tries: number;
  readonly hints: number;
  readonly isSolved: boolean;
  /** Whether the solution was shown before the right answer. */
  readonly isShown: boolean;
  /** What a right answer is worth: 1; 0.5 after the solution; 0 after a solution that came before two wrong answers. */
  readonly worth: number;
  readonly points: number;
}

/** Returns how far one user is with an exercise, from the user's entries about it in the order of time. Values are judged again. */
export function progressOf(exercise: Exercise, entries: readonly Entry[]): Progress {
  let [wrong, numAsked, worth] = [0, 0, 1];
  let last: string | undefined;
  let isShown = false;
  for (const { kind, value } of entries) {
    if (kind === 'hint') numAsked++;
    if (kind === 'solution' && !isShown) [isShown, worth] = [true, worthAfterSolution(wrong)];
    if (kind !== 'try') continue;
    const { outcome } = judge(exercise, value);
    const hints = hintsOf(exercise, wrong + numAsked);
    if (outcome === 'right')
      return { tries: wrong + 1, hints, isSolved: true, isShown, worth, points: worth };
    const written = JSON.stringify(value);
    if (outcome === 'wrong' && written !== last) [wrong, last] = [wrong + 1, written];
  }
  return {
    tries: wrong,
    hints: hintsOf(exercise, wrong + numAsked),
    isSolved: false,
    isShown,
    worth,
    points: 0,
  };
}

/** Each wrong answer shows a hint, as long as there are any. */
function hintsOf({ hints }: Exercise, count: number): number {
  return Math.min(hints.length, count);
}

/** Returns what a right answer is worth once the solution is shown, after this number of wrong answers. */
export function worthAfterSolution(numWrong: number): number {
  return numWrong >= TRIES_BEFORE_SOLUTION ? 0.5 : 0;
}

/** Returns the exercises of the notebooks of which the entries have one, by name. */
export function begunExercises(ids: Iterable<string>): readonly (readonly [string, Exercise])[] {
  const notebooks = new Set([...ids].map((id) => id.slice(0, id.indexOf('.'))));
  return Object.entries(EXERCISES).filter(([id]) => notebooks.has(id.slice(0, id.indexOf('.'))));
}

/** Returns entries in the order of time, each once. */
export function inOrder(entries: readonly Entry[]): readonly Entry[] {
  const unique = new Map(
    entries.map((entry) => [JSON.stringify([entry.time, entry.exercise, entry.kind, entry.value]), entry]),
  );
  return [...unique.values()].sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
}
