import { ownValue, type Text } from '../../core';
import questions00 from './questions/00.json';
import questions01 from './questions/01.json';
import questions02 from './questions/02.json';
import questions03 from './questions/03.json';
import questions04 from './questions/04.json';
import questions05 from './questions/05.json';
import questions06 from './questions/06.json';
import questions07 from './questions/07.json';
import questions08 from './questions/08.json';
import questions09 from './questions/09.json';
import questions10 from './questions/10.json';
import questions11 from './questions/11.json';
import questions12 from './questions/12.json';
import questions13 from './questions/13.json';
import questions14 from './questions/14.json';
import questions15 from './questions/15.json';
import guesses from './questions/guesses.json';

/** What is right: a number, a range of numbers, one of several words, or a set of words in any order. */
type Answer =
  | {
      readonly number: number;
      readonly tolerance?: number;
      /** Why the tolerance is as large as it is. */
      readonly toleranceWhy?: string;
      /** Words that are right in place of the number. */
      readonly accepts?: readonly string[];
    }
  | { readonly least: number; readonly most: number; readonly toleranceWhy: string }
  | {
      readonly words: readonly string[];
      /** All words that the exercise offers; undefined: any word may be an answer. */
      readonly offers?: readonly string[];
    }
  | { readonly set: readonly string[] };

/** An exercise of a notebook. A row of `questions/NN.json`, where NN is the notebook's number. */
export type Exercise = Answer & {
  readonly title: Text;
  /** What kind of value is an answer, as the end of "Give …". */
  readonly expects: Text;
  /** Of a number: '%' and 'bytes' decide how texts are read; other units are only words. */
  readonly unit?: string;
  /** The number of the mystery that it asks for: to reveal it is to see the solution. */
  readonly mystery?: number;
  /** Three hints, from general to particular. */
  readonly hints: readonly Text[];
  /** Likely wrong answers, each with its reason. */
  readonly wrong: readonly (Text & { readonly value: number | string })[];
  readonly solution: Text;
};

/** A quantity that a notebook lets its reader guess before a figure shows it. */
export interface GuessQuestion {
  /** The name of the quantity among the figure's `quantities`. */
  readonly of: string;
  readonly unit: string;
  readonly question: Text;
}

/** The exercises of all notebooks, by name, in the order of the notebooks. */
export const EXERCISES: Readonly<Record<string, Exercise>> = {
  ...questions00,
  ...questions01,
  ...questions02,
  ...questions03,
  ...questions04,
  ...questions05,
  ...questions06,
  ...questions07,
  ...questions08,
  ...questions09,
  ...questions10,
  ...questions11,
  ...questions12,
  ...questions13,
  ...questions14,
  ...questions15,
};

/** The guesses of all notebooks, by name. */
export const GUESSES: Readonly<Record<string, GuessQuestion>> = guesses;

/** Returns an exercise; undefined if there is none of this name. */
export function exerciseOf(id: string): Exercise | undefined {
  return ownValue(EXERCISES, id);
}

/** Returns the name of the exercise that asks for a mystery; undefined if none does. */
export function exerciseOnMystery(number: number): string | undefined {
  return Object.keys(EXERCISES).find((id) => EXERCISES[id]?.mystery === number);
}

/** Returns a guess of a notebook; undefined if there is none of this name. */
export function questionOf(id: string): GuessQuestion | undefined {
  return ownValue(GUESSES, id);
}
