import { escapeHtml } from './escape';
import type { Figure } from './figure';
import { safe } from './ink';
import { createTable, DISPLAY, type DisplayBundle, type Table } from './table';

/** What someone expected, before the figure shows it. NaN is no guess. */
export interface Guess {
  readonly id: string;
  readonly value: number;
  /** The figure's quantity that is guessed, as 'paramShare'; '' for none. */
  readonly of: string;
  [DISPLAY](): DisplayBundle;
}

export type Answer =
  /** A number, within `tolerance`; a list is right when each of its numbers is. */
  | { readonly kind: 'number'; readonly value: number; readonly tolerance: number; readonly because: string }
  /** A number from `least` to `most`. */
  | { readonly kind: 'range'; readonly least: number; readonly most: number; readonly because: string }
  /** One of some words. */
  | { readonly kind: 'word'; readonly values: readonly string[]; readonly because: string };

/** How a check came out; a wrong answer is not an error. */
export interface Verdict {
  readonly id: string;
  readonly outcome: 'right' | 'wrong' | 'skipped' | 'unknown';
  readonly text: string;
  [DISPLAY](): DisplayBundle;
}

/** Guesses and exercises of one notebook's session. */
export interface Lesson {
  /** Stores a guess; the next figure that shows the quantity tells both. Never blocks, never throws. */
  guess(id: string, value?: number, of?: string): Guess;
  /** The figure with a line for each guess about it that was not told yet. */
  reveal(figure: Figure): Figure;
  /** Compares with the exercise's answer. A promise's value is awaited by the caller. Never throws. */
  check(id: string, value?: unknown): Verdict;
  /** All guesses so far. */
  guesses(): Table;
}

/** Starts a lesson over some exercises. */
export function createLesson(answers: Readonly<Record<string, Answer>>): Lesson {
  const stored = new Map<string, Guess>();
  const untold = new Set<string>();
  return {
    guess(id, value = Number.NaN, of = '') {
      const guess = guessOf(id, Number(value), of);
      stored.set(id, guess);
      untold.add(id);
      return guess;
    },
    reveal(figure) {
      const told = [...untold].flatMap((id) => tellOne(figure, stored.get(id)));
      for (const { id } of told) untold.delete(id);
      return told.reduce((shown, { note }) => shown.withNote(note), figure);
    },
    check: (id, value) => checkAnswer(id, value, Object.hasOwn(answers, id) ? answers[id] : undefined),
    guesses: () =>
      createTable(
        [...stored.values()].map(({ id, value, of }) => ({
          id,
          of,
          guess: Number.isNaN(value) ? null : value,
        })),
      ),
  };
}

function guessOf(id: string, value: number, of: string): Guess {
  const text = Number.isNaN(value)
    ? 'no guess: put a number in place of NaN, or go on'
    : `your guess: ${spoken(value)}`;
  return { id, value, of, [DISPLAY]: () => ({ 'text/plain': text }) };
}

function tellOne(figure: Figure, guess: Guess | undefined): { id: string; note: string }[] {
  if (guess === undefined || !Object.hasOwn(figure.quantities, guess.of)) return [];
  const quantity = figure.quantities[guess.of];
  if (quantity === undefined) return [];
  const { value, unit, says } = quantity;
  const said = (number: number): string =>
    `${spoken(number)}${['%', '×', ''].includes(unit) ? '' : ' '}${unit}`;
  const truth = says(said(value));
  const note = Number.isNaN(guess.value)
    ? `Answer: ${truth}.`
    : `You guessed ${said(guess.value)}; ${truth}.`;
  return [{ id: guess.id, note: safe(note) }];
}

/** Three digits, none made up. */
function spoken(value: number): string {
  return String(Number(value.toPrecision(3)));
}

function checkAnswer(id: string, value: unknown, answer: Answer | undefined): Verdict {
  if (answer === undefined) return verdict(id, 'unknown', `there is no exercise '${id}'`);
  const given = Array.isArray(value) ? value.flat(3) : [value];
  if (given.length > 0 && given.every(isSkipped)) {
    return verdict(id, 'skipped', 'skipped; the notebook goes on without it');
  }
  const isRight = given.length > 0 && given.every((one) => matches(one, answer));
  if (isRight) return verdict(id, 'right', `right: ${answer.because}`);
  return verdict(id, 'wrong', `not yet: ${shown(value)}. ${hint(answer)}`);
}

function isSkipped(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    value === '' ||
    (typeof value === 'number' && Number.isNaN(value))
  );
}

function matches(value: unknown, answer: Answer): boolean {
  switch (answer.kind) {
    case 'number':
      return typeof value === 'number' && Math.abs(value - answer.value) <= answer.tolerance;
    case 'range':
      return typeof value === 'number' && value >= answer.least && value <= answer.most;
    case 'word':
      return typeof value === 'string' && answer.values.includes(value.trim().toLowerCase());
    default:
      return answer satisfies never;
  }
}

function hint(answer: Answer): string {
  return answer.kind !== 'word'
    ? 'A number is wanted, the same on every rank where ranks answer.'
    : 'A word is wanted, as the figure writes it.';
}

function shown(value: unknown): string {
  try {
    return (JSON.stringify(value) ?? String(value)).slice(0, 80);
  } catch {
    return typeof value;
  }
}

const MARKS = { right: '✓', wrong: '✗', skipped: '–', unknown: '?' } as const;

function verdict(id: string, outcome: Verdict['outcome'], text: string): Verdict {
  const line = `${MARKS[outcome]} ${id}: ${text}`;
  return {
    id,
    outcome,
    text,
    [DISPLAY]: () => ({ 'text/html': `<div>${escapeHtml(line)}</div>`, 'text/plain': line }),
  };
}
