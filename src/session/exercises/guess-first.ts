import { DISPLAY, type Language, shown } from '../../core';
import { type Guess, sessionGuesses } from '../../figures';
import type { AnswerRecord } from './answer-record';
import { answerNumber, isNoAnswer } from './answer-values';
import { ANSWER_MIME } from './entries';
import { exerciseOf, GUESSES, type GuessQuestion, questionOf } from './exercise';
import { say, withoutMarks } from './sentences';

/** Who guesses, and in which language. */
interface Guesser {
  readonly record: AnswerRecord;
  readonly language: Language;
}

/**
 * Stores a guess, and records it. Without a value, says what is asked. Never throws: a value that is no number, or has
 * the unit of another quantity, is no guess.
 */
export function guessFirst(id: string, value: unknown, of: unknown, { record, language }: Guesser): Guess {
  const question = questionOf(id);
  const refusal = refusalOf({ id, value, of }, question, language);
  if (refusal !== undefined) return refused(id, refusal);
  const unit = unitOf(question, value);
  const quantity = typeof of === 'string' ? of : (question?.of ?? '');
  const number = isNoAnswer(value) ? Number.NaN : (answerNumber(value, unit) ?? Number.NaN);
  const guess = sessionGuesses().guess(id, number, quantity, language);
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

/** Returns why a guess cannot be stored: it names an exercise, or a quantity that is not its own, or none. */
function refusalOf(
  { id, value, of }: { readonly id: string; readonly value: unknown; readonly of: unknown },
  question: GuessQuestion | undefined,
  language: Language,
): string | undefined {
  if (exerciseOf(id) !== undefined) return say('guessesExercise', language, id);
  if (question !== undefined) {
    if (of === undefined || of === question.of) return undefined;
    return say('otherQuantity', language, id, question.of, shown(of));
  }
  if (isNoAnswer(value) || (typeof of === 'string' && of.trim() !== '')) return undefined;
  return say('noQuantity', language, id, knownQuantities().join(', '));
}

/** Returns the quantities that the notebooks ask for. Other figures may have more. */
function knownQuantities(): readonly string[] {
  return [...new Set(Object.values(GUESSES).map((guess) => guess.of))];
}

function refused(id: string, text: string): Guess {
  const nothing = { value: Number.NaN, of: '', answer: undefined, off: undefined };
  return { id, ...nothing, [DISPLAY]: () => ({ 'text/plain': text }) };
}

/** Returns the unit in which a value is read. A guess of the user's own has the unit of its figure, which may be a percentage. */
function unitOf(question: GuessQuestion | undefined, value: unknown): string {
  const isPercentage = typeof value === 'string' && /[%％]\s*$/u.test(value);
  return question?.unit ?? (isPercentage ? '%' : '');
}

function textOf({ id, value, of, answer }: Guess, written: unknown, language: Language): string {
  if (answer !== undefined) return answer;
  const question = questionOf(id);
  const unit = question?.unit ?? '';
  if (!Number.isNaN(value)) {
    const guessed = say('guessed', language, withUnit(value, unit));
    const quantities = knownQuantities();
    if (quantities.includes(of)) return guessed;
    return `${guessed}\n${say('unusualQuantity', language, of, quantities.join(', '))}`;
  }
  const inUnit = unit === '' ? '' : say('inUnit', language, unit);
  if (written === undefined && question !== undefined)
    return say('askGuess', language, question.question[language], id, of, inUnit);
  if (isNoAnswer(written)) return say('noGuess', language, id);
  const isNumber = typeof written === 'string' && /^[-+]?\.?\d/.test(written.normalize('NFKC').trim());
  return isNumber
    ? say('otherUnit', language, shown(written), inUnit)
    : say('unclearGuess', language, shown(written));
}

function withUnit(value: number, unit: string): string {
  return `${value}${['%', '×', ''].includes(unit) ? '' : ' '}${unit}`;
}

/** Returns the answer to a guess that the user gives up, or where it will be; undefined if the notebook has no such guess. */
export function giveUpGuess(id: string, language: Language): string | undefined {
  const question = questionOf(id);
  const isOwn = sessionGuesses()
    .list()
    .some((guess) => guess.id === id);
  if (question === undefined && !isOwn) return undefined;
  return sessionGuesses().giveUp(id, question?.of, language) ?? say('solutionOfGuess', language);
}
