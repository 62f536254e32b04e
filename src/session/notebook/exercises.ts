import { DISPLAY, type DisplayBundle } from '../../core';
import { ink } from '../../figures';
import answers from './answers.json';

type Answer = { readonly because: string } & (
  | { readonly number: number; readonly tolerance?: number }
  | { readonly least: number; readonly most: number }
  | { readonly words: readonly string[] }
);

/** Answers to the notebooks' exercises, by the exercise's name. */
const ANSWERS: Readonly<Record<string, Answer>> = answers;

/** The result of a check; a wrong answer is not an error. */
export interface Verdict {
  readonly id: string;
  readonly outcome: 'right' | 'wrong' | 'skipped' | 'unknown';
  readonly text: string;
  [DISPLAY](): DisplayBundle;
}

/**
 * Compares a value with the exercise's answer; a list is right if each of its values is right. A promise must be
 * awaited before this call. Never throws.
 */
export function checkExercise(id: string, value?: unknown): Verdict {
  const answer = Object.hasOwn(ANSWERS, id) ? ANSWERS[id] : undefined;
  if (answer === undefined) return verdict(id, 'unknown', `there is no exercise '${id}'`);
  const answers = Array.isArray(value) ? value.flat(3) : [value];
  if (answers.length > 0 && answers.every(isSkipped)) {
    return verdict(id, 'skipped', 'skipped; the notebook continues without it');
  }
  const isRight = answers.length > 0 && answers.every((one) => matches(one, answer));
  if (isRight) return verdict(id, 'right', `right: ${answer.because}`);
  return verdict(id, 'wrong', `${shown(value)} is not right yet.${hintOf(answers, answer)}`);
}

/** Returns a sentence about the form that an answer must have; '' if the user gave one number and the answer is a number. */
function hintOf(answers: readonly unknown[], answer: Answer): string {
  if ('words' in answer)
    return ' Give a word that the exercise or its figure offers, or a name as it is written in the code of the exercise.';
  const isOneNumber = typeof answers[0] === 'number' && new Set(answers).size === 1;
  return isOneNumber ? '' : ' Give a number; if ranks answer, every rank must give the same number.';
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
  if ('words' in answer)
    return typeof value === 'string' && answer.words.includes(value.trim().toLowerCase());
  if (typeof value !== 'number') return false;
  if ('least' in answer) return value >= answer.least && value <= answer.most;
  return Math.abs(value - answer.number) <= (answer.tolerance ?? 0);
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
    [DISPLAY]: () => ({ 'text/html': `<div>${ink.escapeHtml(line)}</div>`, 'text/plain': line }),
  };
}
