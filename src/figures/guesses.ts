import { DISPLAY, type DisplayBundle, globalSlot } from '../core';
import type { Figure, Quantity } from './figure';
import { safe } from './grammar/ink';
import { createTable, type Table } from './table';

/** A user's guess of a quantity before a figure shows it. NaN means no guess. */
export interface Guess {
  readonly id: string;
  readonly value: number;
  /** The guessed quantity of a figure, such as 'paramShare'; '' if there is no guess. */
  readonly of: string;
  /** The sentence with the guess and the answer; undefined: no figure has shown the quantity yet, or there is no guess. */
  readonly answer: string | undefined;
  /** How far off the guess is; undefined as `answer`. */
  readonly off: string | undefined;
  [DISPLAY](): DisplayBundle;
}

const GUESSES = globalSlot<Guesses>('shardlab.guesses');

/** Returns the guesses of this process, which is one notebook's session. Figures of runs show the guesses. */
export function sessionGuesses(): Guesses {
  GUESSES.value ??= new Guesses();
  return GUESSES.value;
}

/** What is known about one guess. */
interface Stored {
  readonly id: string;
  readonly of: string;
  readonly value: number;
  /** The quantity of the newest figure that has it. */
  quantity: Quantity | undefined;
  /** Whether a figure has shown the answer, or the user has asked for it. */
  isTold: boolean;
  /** Whether the user wants the answer without a guess. */
  isAsked: boolean;
  /** Whether a figure has asked for a guess. */
  isNoted: boolean;
}

/** Guesses of one notebook's session. */
export class Guesses {
  readonly #stored = new Map<string, Stored>();

  /**
   * Stores a guess; the next figure with the quantity `of` shows the guess and the true value. If a figure has asked for
   * the guess already, the result has the answer. Never blocks, never throws.
   */
  guess(id: string, guessed = Number.NaN, of = ''): Guess {
    const value = ['number', 'string', 'bigint'].includes(typeof guessed) ? Number(guessed) : Number.NaN;
    const before = this.#stored.get(id);
    const isSame = before?.of === of;
    const stored: Stored = {
      ...{ id, of, value, isAsked: false, isNoted: isSame && before.isNoted },
      // An answer that the reader knows is that of an earlier run: a new guess waits for the next figure.
      quantity: isSame && !before.isTold ? before.quantity : undefined,
      isTold: false,
    };
    stored.isTold = stored.quantity !== undefined && !Number.isNaN(value);
    this.#stored.set(id, stored);
    return asGuess(stored);
  }

  /** Returns the answer to a guess that the user gives up; undefined if no figure has shown its quantity: the next one will. */
  giveUp(id: string, of = ''): string | undefined {
    if (!this.#stored.has(id)) this.guess(id, Number.NaN, of);
    const stored = this.#stored.get(id);
    if (stored === undefined) return undefined;
    stored.isAsked = true;
    if (stored.quantity === undefined) return undefined;
    stored.isTold = true;
    return answerOf(stored, stored.quantity);
  }

  /**
   * Returns the figure, with a line for each guess about it that no figure has shown yet. Without a guess, the line asks for one, once;
   * the answer comes after a guess.
   */
  reveal(figure: Figure): Figure {
    let shown = figure;
    for (const stored of this.#stored.values()) {
      const note = this.#noteOf(stored, figure);
      if (note !== undefined) shown = shown.withNote(safe(note));
    }
    return shown;
  }

  #noteOf(stored: Stored, { quantities }: Figure): string | undefined {
    const quantity = Object.hasOwn(quantities, stored.of) ? quantities[stored.of] : undefined;
    if (quantity === undefined || stored.isTold) return undefined;
    stored.quantity = quantity;
    if (Number.isNaN(stored.value) && !stored.isAsked) {
      if (stored.isNoted) return undefined;
      stored.isNoted = true;
      return `Guess first: sl.guess('${stored.id}', …) with a number, or sl.solution('${stored.id}'), shows the answer.`;
    }
    stored.isTold = true;
    return answerOf(stored, quantity);
  }

  /** Returns all guesses so far. */
  list(): readonly Guess[] {
    return [...this.#stored.values()].map(asGuess);
  }

  /** Returns a table of all guesses so far. */
  all(): Table {
    return createTable(
      this.list().map(({ id, value, of }) => ({ id, of, guess: Number.isNaN(value) ? null : value })),
    );
  }
}

function asGuess({ id, value, of, quantity, isTold }: Stored): Guess {
  const isAnswered = isTold && quantity !== undefined && !Number.isNaN(value);
  const answer = isAnswered ? answerOf({ value }, quantity) : undefined;
  const waiting = Number.isNaN(value)
    ? 'no guess: replace NaN by a number, or continue'
    : `your guess: ${spoken(value)}`;
  return {
    ...{ id, value, of, answer },
    off: isAnswered ? distanceOf(value, quantity) : undefined,
    [DISPLAY]: () => ({ 'text/plain': answer ?? waiting }),
  };
}

/** Returns the sentence with the guess, if there is one, and the answer. */
function answerOf({ value: guessed }: Pick<Stored, 'value'>, quantity: Quantity): string {
  const { value, unit, says } = quantity;
  const said = (number: number): string =>
    `${spoken(number)}${['%', '×', ''].includes(unit) ? '' : ' '}${unit}`;
  const truth = says(said(value));
  if (Number.isNaN(guessed)) return `Answer: ${truth}.`;
  return `You guessed ${said(guessed)}; ${truth}: ${distanceOf(guessed, quantity)}.`;
}

/** A guess that is this near to the answer is a good one. */
const NEAR = 0.1;

/** Returns how far a guess is from the answer: percentages in percentage points, all else as a ratio. */
function distanceOf(guessed: number, { value, unit }: Quantity): string {
  if (spoken(guessed) === spoken(value)) return 'right';
  const side = guessed > value ? 'too high' : 'too low';
  const near = Math.abs(guessed - value) <= NEAR * Math.abs(value) ? 'close, ' : '';
  if (unit === '%') return `${near}${spoken(Math.abs(guessed - value))} percentage points ${side}`;
  if (guessed <= 0 || value <= 0) return `${near}${spoken(Math.abs(guessed - value))} ${side}`;
  const ratio = guessed > value ? guessed / value : value / guessed;
  return ratio >= 2
    ? `${side} by a factor of ${spoken(ratio)}`
    : `${near}${spoken(Math.abs(guessed / value - 1) * 100)}% ${side}`;
}

/** Returns a number with at most three significant digits. */
function spoken(value: number): string {
  return String(Number(value.toPrecision(3)));
}
