import { DISPLAY, type DisplayBundle, globalSlot, type Language, languages, type Text } from '../core';
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
  /** The language of what is said of the guess. */
  readonly language: Language;
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
  guess(id: string, guessed = Number.NaN, of = '', language: Language = 'en'): Guess {
    const value = ['number', 'string', 'bigint'].includes(typeof guessed) ? Number(guessed) : Number.NaN;
    const before = this.#stored.get(id);
    const isSame = before?.of === of;
    const stored: Stored = {
      ...{ id, of, value, language, isAsked: false, isNoted: isSame && before.isNoted },
      // An answer that the reader knows is that of an earlier run: a new guess waits for the next figure.
      quantity: isSame && !before.isTold ? before.quantity : undefined,
      isTold: false,
    };
    stored.isTold = stored.quantity !== undefined && !Number.isNaN(value);
    this.#stored.set(id, stored);
    return asGuess(stored);
  }

  /** Returns the answer to a guess that the user gives up; undefined if no figure has shown its quantity: the next one will. */
  giveUp(id: string, of = '', language: Language = 'en'): string | undefined {
    if (!this.#stored.has(id)) this.guess(id, Number.NaN, of, language);
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
      return languages.inLanguage(SENTENCES.ask, stored.language, [stored.id]);
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

/** What figures and displays say of guesses, with holes for values. */
const SENTENCES = {
  ask: {
    en: "Guess first: sl.guess('{0}', …) with a number, or sl.solution('{0}'), shows the answer.",
    zh: "请先猜：写 sl.guess('{0}', …) 并填一个数，或者写 sl.solution('{0}')，就会显示答案。",
  },
  none: {
    en: 'no guess: replace NaN by a number, or continue',
    zh: '还没有猜：把 NaN 换成一个数，或者继续',
  },
  waits: { en: 'your guess: {0}', zh: '你的猜测：{0}' },
  answer: { en: 'Answer: {0}.', zh: '答案：{1}。' },
  guessed: { en: 'You guessed {2}; {0}: {3}.', zh: '你猜的是 {2}，答案是 {1}：{3}。' },
  right: { en: 'right', zh: '正确' },
  close: { en: 'close, {0}', zh: '很接近，{0}' },
  highPoints: { en: '{0} percentage points too high', zh: '高了 {0} 个百分点' },
  lowPoints: { en: '{0} percentage points too low', zh: '低了 {0} 个百分点' },
  high: { en: '{0} too high', zh: '高了 {0}' },
  low: { en: '{0} too low', zh: '低了 {0}' },
  highFactor: { en: 'too high by a factor of {0}', zh: '太高，是答案的 {0} 倍' },
  lowFactor: { en: 'too low by a factor of {0}', zh: '太低，答案是它的 {0} 倍' },
} as const satisfies Record<string, Text>;

function asGuess({ id, value, of, language, quantity, isTold }: Stored): Guess {
  const isAnswered = isTold && quantity !== undefined && !Number.isNaN(value);
  const answer = isAnswered ? answerOf({ value, language }, quantity) : undefined;
  const waiting = languages.inLanguage(Number.isNaN(value) ? SENTENCES.none : SENTENCES.waits, language, [
    spoken(value),
  ]);
  return {
    ...{ id, value, of, answer },
    off: isAnswered ? distanceOf(value, quantity, language) : undefined,
    [DISPLAY]: () => ({ 'text/plain': answer ?? waiting }),
  };
}

/** Returns the sentence with the guess, if there is one, and the answer: in English the finding of the figure, in Chinese its number. */
function answerOf(
  { value: guessed, language }: Pick<Stored, 'value' | 'language'>,
  quantity: Quantity,
): string {
  const { value, unit, says } = quantity;
  const said = (number: number): string =>
    `${spoken(number)}${['%', '×', ''].includes(unit) ? '' : ' '}${unit}`;
  const truth = [says(said(value)), said(value)];
  if (Number.isNaN(guessed)) return languages.inLanguage(SENTENCES.answer, language, truth);
  const distance = distanceOf(guessed, quantity, language);
  return languages.inLanguage(SENTENCES.guessed, language, [...truth, said(guessed), distance]);
}

/** A guess that is this near to the answer is a good one. */
const NEAR = 0.1;

/** Returns how far a guess is from the answer: percentages in percentage points, all else as a ratio. */
function distanceOf(guessed: number, { value, unit }: Quantity, language: Language): string {
  const say = (text: Text, said: string): string => languages.inLanguage(text, language, [said]);
  if (spoken(guessed) === spoken(value)) return say(SENTENCES.right, '');
  const isHigh = guessed > value;
  const by = isHigh ? SENTENCES.high : SENTENCES.low;
  const ratio = isHigh ? guessed / value : value / guessed;
  const isRatio = unit !== '%' && guessed > 0 && value > 0;
  if (isRatio && ratio >= 2) return say(isHigh ? SENTENCES.highFactor : SENTENCES.lowFactor, spoken(ratio));
  const difference = spoken(Math.abs(guessed - value));
  const distance = isRatio
    ? say(by, `${spoken(Math.abs(guessed / value - 1) * 100)}%`)
    : say(unit === '%' ? (isHigh ? SENTENCES.highPoints : SENTENCES.lowPoints) : by, difference);
  return Math.abs(guessed - value) <= NEAR * Math.abs(value) ? say(SENTENCES.close, distance) : distance;
}

/** Returns a number with at most three significant digits. */
function spoken(value: number): string {
  return String(Number(value.toPrecision(3)));
}
