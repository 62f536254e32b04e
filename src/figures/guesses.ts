import { DISPLAY, type DisplayBundle, globalSlot } from '../core';
import type { Figure } from './figure';
import { safe } from './grammar/ink';
import { createTable, type Table } from './table';

/** A user's guess of a quantity before a figure shows it. NaN means no guess. */
export interface Guess {
  readonly id: string;
  readonly value: number;
  /** The guessed quantity of a figure, such as 'paramShare'; '' if there is no guess. */
  readonly of: string;
  [DISPLAY](): DisplayBundle;
}

const GUESSES = globalSlot<Guesses>('shardlab.guesses');

/** Returns the guesses of this process, which is one notebook's session. Figures of runs show the guesses. */
export function sessionGuesses(): Guesses {
  GUESSES.value ??= new Guesses();
  return GUESSES.value;
}

/** Guesses of one notebook's session. */
export class Guesses {
  readonly #stored = new Map<string, Guess>();
  readonly #untold = new Set<string>();

  /** Stores a guess; the next figure with the quantity `of` shows the guess and the true value. Never blocks, never throws. */
  guess(id: string, guessed = Number.NaN, of = ''): Guess {
    const value = ['number', 'string', 'bigint'].includes(typeof guessed) ? Number(guessed) : Number.NaN;
    const text = Number.isNaN(value)
      ? 'no guess: replace NaN by a number, or continue'
      : `your guess: ${spoken(value)}`;
    const guess = { id, value, of, [DISPLAY]: () => ({ 'text/plain': text }) };
    this.#stored.set(id, guess);
    this.#untold.add(id);
    return guess;
  }

  /** Returns the figure, with a line for each guess about it that no figure has shown yet. */
  reveal(figure: Figure): Figure {
    let shown = figure;
    for (const id of this.#untold) {
      const note = answer(figure, this.#stored.get(id));
      if (note === undefined) continue;
      this.#untold.delete(id);
      shown = shown.withNote(note);
    }
    return shown;
  }

  /** Returns a table of all guesses so far. */
  all(): Table {
    const guesses = [...this.#stored.values()];
    return createTable(
      guesses.map(({ id, value, of }) => ({ id, of, guess: Number.isNaN(value) ? null : value })),
    );
  }
}

/** Returns the line about a guess; undefined if the figure does not show the guessed quantity. */
function answer(figure: Figure, guess: Guess | undefined): string | undefined {
  if (guess === undefined || !Object.hasOwn(figure.quantities, guess.of)) return undefined;
  const quantity = figure.quantities[guess.of];
  if (quantity === undefined) return undefined;
  const { value, unit, says } = quantity;
  const said = (number: number): string =>
    `${spoken(number)}${['%', '×', ''].includes(unit) ? '' : ' '}${unit}`;
  const truth = says(said(value));
  return safe(
    Number.isNaN(guess.value) ? `Answer: ${truth}.` : `You guessed ${said(guess.value)}; ${truth}.`,
  );
}

/** Returns a number with at most three significant digits. */
function spoken(value: number): string {
  return String(Number(value.toPrecision(3)));
}
