import type { Text } from '../../core';
import { answerNumber, answerWord, answerWords, isNoAnswer } from './answer-values';
import type { Exercise } from './exercise';

/** What a value is: right, wrong, no answer (skipped), or of a kind that no answer to this exercise has (unclear). */
export interface Judgement {
  readonly outcome: 'right' | 'wrong' | 'skipped' | 'unclear';
  /** Why the answer is wrong; undefined if nothing is known about it. */
  readonly reason?: Text;
}

/**
 * Judges a value. Ranks answer with a list of values: each must be right. The result depends only on the value, so that whoever
 * collects answers can judge them again.
 */
export function judge(exercise: Exercise, value: unknown): Judgement {
  const values = valuesOf(exercise, value);
  if (values.every(isNoAnswer)) return { outcome: values.length === 0 ? 'unclear' : 'skipped' };
  const kinds = values.map((answer) => judgeOne(exercise, answer));
  if (kinds.every(({ outcome }) => outcome === 'right')) return { outcome: 'right' };
  if (kinds.some(({ outcome }) => outcome === 'right')) return { outcome: 'wrong', reason: RANKS_DIFFER };
  return kinds.find(({ outcome }) => outcome === 'unclear') ?? kinds[0] ?? { outcome: 'unclear' };
}

const RANKS_DIFFER: Text = {
  en: 'Some ranks have the right value, and others have not: every rank must give it.',
  zh: '有的 rank 的值正确，有的不正确：每个 rank 都必须给出正确的值。',
};

/** Returns the values of all ranks; the words of a set are one value. */
function valuesOf(exercise: Exercise, value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) return [value];
  if ('set' in exercise && value.every((answer) => typeof answer === 'string' && !/[,;，；、]/u.test(answer)))
    return [value.join(',')];
  return value.flat(3);
}

function judgeOne(exercise: Exercise, value: unknown): Judgement {
  if (isNoAnswer(value)) return { outcome: 'unclear' };
  if ('words' in exercise) return judgeWord(exercise, value);
  if ('set' in exercise) return judgeSet(exercise, value);
  return judgeNumber(exercise, value);
}

function judgeWord(
  exercise: Extract<Exercise, { readonly words: readonly string[] }>,
  value: unknown,
): Judgement {
  const word = answerWord(value);
  if (word === undefined || word === '') return { outcome: 'unclear' };
  if (exercise.words.some((right) => answerWord(right) === word)) return { outcome: 'right' };
  const reason = exercise.wrong.find(({ value: known }) => answerWord(known) === word);
  if (reason !== undefined) return { outcome: 'wrong', reason };
  const isOffered = exercise.offers?.some((offered) => answerWord(offered) === word) ?? true;
  return { outcome: isOffered ? 'wrong' : 'unclear' };
}

function judgeSet(
  exercise: Extract<Exercise, { readonly set: readonly string[] }>,
  value: unknown,
): Judgement {
  const words = answerWords(value);
  if (words === undefined || words.length === 0) return { outcome: 'unclear' };
  if (`${words}` === `${answerWords([...exercise.set])}`) return { outcome: 'right' };
  const reason = exercise.wrong.find(({ value: known }) => `${answerWords(known)}` === `${words}`);
  return { outcome: 'wrong', ...(reason && { reason }) };
}

type NumberExercise = Exclude<
  Exercise,
  { readonly words: readonly string[] } | { readonly set: readonly string[] }
>;

function judgeNumber(exercise: NumberExercise, value: unknown): Judgement {
  const isSame = (known: unknown): boolean => answerWord(known) === answerWord(value);
  if ('number' in exercise && typeof value === 'string' && exercise.accepts?.some(isSame))
    return { outcome: 'right' };
  const number = answerNumber(value, exercise.unit ?? '');
  if (number === undefined) {
    const reason = exercise.wrong.find(({ value: known }) => typeof known === 'string' && isSame(known));
    return reason === undefined ? { outcome: 'unclear' } : { outcome: 'wrong', reason };
  }
  if (isRight(exercise, number)) return { outcome: 'right' };
  return { outcome: 'wrong', reason: knownMistake(exercise, number) ?? distance(exercise, number) };
}

function isRight(exercise: NumberExercise, number: number): boolean {
  if ('least' in exercise) return number >= exercise.least && number <= exercise.most;
  return Math.abs(number - exercise.number) <= (exercise.tolerance ?? 0);
}

/** Returns the reason of a likely wrong answer. Numbers are equal if three significant digits are. */
function knownMistake({ wrong }: NumberExercise, number: number): Text | undefined {
  return wrong.find(
    ({ value }) => typeof value === 'number' && Math.abs(number - value) <= Math.abs(value) * 5e-3,
  );
}

/** Of an answer below this number, the factor by which another number is too high would say which it is. */
const LEAST_WITH_FACTOR = 10;

/**
 * Returns whether a number is too high or too low, by no factor that would give the answer away: at most that it is more than twice
 * or ten times too high.
 */
function distance(exercise: NumberExercise, number: number): Text {
  const isHigh = number > ('least' in exercise ? exercise.most : exercise.number);
  const answer = 'least' in exercise ? (isHigh ? exercise.most : exercise.least) : exercise.number;
  const ratio = isHigh ? number / answer : answer / number;
  const size = !(answer >= LEAST_WITH_FACTOR && number > 0)
    ? ''
    : ratio > 10
      ? ' ten'
      : ratio > 2
        ? ' two'
        : '';
  return DISTANCES[`${isHigh ? 'high' : 'low'}${size}`] ?? DISTANCES.high;
}

const DISTANCES: { readonly high: Text } & Readonly<Record<string, Text>> = {
  high: { en: 'It is too high.', zh: '太大了。' },
  low: { en: 'It is too low.', zh: '太小了。' },
  'high two': { en: 'It is more than twice too high.', zh: '大了一倍以上。' },
  'low two': { en: 'It is less than half of the answer.', zh: '不到答案的一半。' },
  'high ten': { en: 'It is more than ten times too high.', zh: '大了十倍以上。' },
  'low ten': { en: 'It is less than a tenth of the answer.', zh: '不到答案的十分之一。' },
};
