import type { Figure } from '../../figures/figure';
import { safe } from '../../figures/grammar/ink';
import { createTable, DISPLAY, type DisplayBundle, type Table } from '../../figures/table';

/** A user's guess of a quantity before a figure shows it. NaN means no guess. */
export interface Guess {
  readonly id: string;
  readonly value: number;
  /** The guessed quantity of a figure, as 'paramShare'; '' for none. */
  readonly of: string;
  [DISPLAY](): DisplayBundle;
}

/** Guesses of one notebook's session. */
export interface Guesses {
  /** Stores a guess; the next figure with the quantity shows the guess and the answer. Never blocks, never throws. */
  guess(id: string, value?: number, of?: string): Guess;
  /** The figure, with a line for each guess about it that no figure has shown yet. */
  reveal(figure: Figure): Figure;
  /** All guesses so far. */
  all(): Table;
}

const GUESSES: unique symbol = Symbol.for('shardlab.guesses');

interface GuessesHost {
  [GUESSES]?: Guesses | undefined;
}

/** The guesses of this process: one notebook's session. Figures of runs show the guesses. */
export function sessionGuesses(): Guesses {
  // globalThis has no index type for symbols; only we use this key.
  const host = globalThis as GuessesHost;
  host[GUESSES] ??= createGuesses();
  return host[GUESSES];
}

export function createGuesses(): Guesses {
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
    all: () =>
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
    ? 'no guess: replace NaN by a number, or continue'
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

/** At most three significant digits. */
function spoken(value: number): string {
  return String(Number(value.toPrecision(3)));
}
