import { escapeHtml } from '../../figures/grammar/ink';
import { DISPLAY, type DisplayBundle } from '../../figures/table';
import { ANSWERS, type Answer } from './answers';

/** How a check came out; a wrong answer is not an error. */
export interface Verdict {
  readonly id: string;
  readonly outcome: 'right' | 'wrong' | 'skipped' | 'unknown';
  readonly text: string;
  [DISPLAY](): DisplayBundle;
}

/** Compares a value with the exercise's answer. A promise's value is awaited by the caller. Never throws. */
export function checkExercise(id: string, value?: unknown): Verdict {
  return checkAnswer(id, value, Object.hasOwn(ANSWERS, id) ? ANSWERS[id] : undefined);
}

function checkAnswer(id: string, value: unknown, answer: Answer | undefined): Verdict {
  if (answer === undefined) return verdict(id, 'unknown', `there is no exercise '${id}'`);
  const given = Array.isArray(value) ? value.flat(3) : [value];
  if (given.length > 0 && given.every(isSkipped)) {
    return verdict(id, 'skipped', 'skipped; the notebook continues without it');
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
