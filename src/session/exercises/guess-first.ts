import { DISPLAY, shown } from '../../core';
import { type Guess, sessionGuesses } from '../../figures';
import type { AnswerRecord } from './answer-record';
import { answerNumber, isNoAnswer } from './answer-values';
import { ANSWER_MIME } from './entries';
import { questionOf } from './exercise';
import type { Language } from './language';
import { say, withoutMarks } from './sentences';

/** Who guesses, and in which language. */
interface Guesser {
  readonly record: AnswerRecord;
  readonly language: Language;
}

/**
 * Stores a guess, and records it. Without a value, says what is asked. Never throws: a value that is no number is no guess. The
 * sentence with the answer is a figure's, so it is English.
 */
export function guessFirst(id: string, value: unknown, of: unknown, { record, language }: Guesser): Guess {
  const question = questionOf(id);
  const unit = question?.unit ?? '';
  const quantity = typeof of === 'string' ? of : (question?.of ?? '');
  const number = isNoAnswer(value) ? Number.NaN : (answerNumber(value, unit) ?? Number.NaN);
  const guess = sessionGuesses().guess(id, number, quantity);
  if (question !== undefined && !Number.isNaN(number))
    record.add({ exercise: id, kind: 'guess', value: number });
  const entries = record.read().entries.filter(({ exercise, kind }) => exercise === id && kind === 'guess');
  const text = withoutMarks(textOf(guess, value, language));
  return {
    ...guess,
    [DISPLAY]: () => ({
      'text/plain': text,
      ...(entries.length === 0 ? {} : { [ANSWER_MIME]: { shardlab: 1, entries } }),
    }),
  };
}

function textOf({ id, value, of, answer }: Guess, written: unknown, language: Language): string {
  if (answer !== undefined) return answer;
  if (!Number.isNaN(value)) return say('guessed', language, value);
  const question = questionOf(id);
  if (written === undefined && question !== undefined) {
    const unit = question.unit === '' ? '' : say('inUnit', language, question.unit);
    return say('askGuess', language, question.question[language], id, of, unit);
  }
  return isNoAnswer(written) ? say('noGuess', language, id) : say('unclearGuess', language, shown(written));
}

/** Returns the answer to a guess that the user gives up, or where it will be; undefined if the notebook has no such guess. */
export function giveUpGuess(id: string, language: Language): string | undefined {
  const question = questionOf(id);
  const isOwn = sessionGuesses()
    .list()
    .some((guess) => guess.id === id);
  if (question === undefined && !isOwn) return undefined;
  return sessionGuesses().giveUp(id, question?.of) ?? say('solutionOfGuess', language);
}
