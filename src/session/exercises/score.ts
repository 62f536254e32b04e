import { type Language, languages, type Text } from '../../core';
import { createTable, type Guess, sessionGuesses, type Table, type TableRow } from '../../figures';
import type { AnswerRecord } from './answer-record';
import { begunExercises, type Entry, progressOf } from './entries';
import { questionOf } from './exercise';
import { withoutMarks } from './sentences';

const WORDS = {
  title: { en: '{0} of {1} points', zh: '得分 {0}/{1}' },
  none: { en: 'No exercise was tried yet', zh: '还没有做过练习' },
  skippedLines: { en: '; {0} lines of the record cannot be read', zh: '；记录中有 {0} 行无法读取' },
  right: { en: 'right', zh: '正确' },
  shown: { en: 'right, after the solution', zh: '看过解答后答对' },
  open: { en: 'not yet', zh: '尚未答对' },
  untried: { en: 'not tried', zh: '尚未作答' },
  guess: { en: 'guess', zh: '猜测' },
  earlier: { en: 'guessed {0} in an earlier session, {1}', zh: '在较早的会话中猜了 {0}（{1}）' },
} as const satisfies Record<string, Text>;

/** The columns, with their headings. */
const COLUMNS = {
  exercise: { en: 'exercise', zh: '练习' },
  about: { en: 'about', zh: '内容' },
  tries: { en: 'tries', zh: '作答' },
  hints: { en: 'hints', zh: '提示' },
  result: { en: 'result', zh: '结果' },
  points: { en: 'points', zh: '得分' },
} as const satisfies Record<string, Text>;

/**
 * Returns the exercises of the notebooks that a user has begun, with tries, hints and points, and the guesses: the newest of each,
 * of this session or, from the record, of an earlier one. A guess has no points: it cannot be wrong.
 */
export function scoreTable(record: AnswerRecord, language: Language): Table {
  const { entries, numSkipped } = record.read();
  const answers = entries.filter(({ kind }) => kind !== 'guess');
  const rows = begunExercises(answers.map(({ exercise }) => exercise)).map(([id, exercise]): TableRow => {
    const own = answers.filter((entry) => entry.exercise === id);
    const { tries, hints, points, isSolved, isShown } = progressOf(exercise, own);
    const state = isSolved
      ? isShown
        ? WORDS.shown
        : WORDS.right
      : own.length > 0
        ? WORDS.open
        : WORDS.untried;
    return {
      exercise: id,
      about: withoutMarks(exercise.title[language]),
      tries,
      hints,
      result: state[language],
      points,
    };
  });
  const points = rows.reduce((sum, row) => sum + Number(row.points), 0);
  const lost = numSkipped === 0 ? '' : WORDS.skippedLines[language].replace('{0}', `${numSkipped}`);
  const title = WORDS[rows.length === 0 ? 'none' : 'title'][language]
    .replace('{0}', `${points}`)
    .replace('{1}', `${rows.length}`);
  return createTable([...rows, ...guessRows(language), ...earlierGuessRows(entries, language)], {
    title: `${title}${lost}`,
    columns: Object.entries<Text>(COLUMNS).map(([key, heading]) => ({
      ...{ key, title: heading[language], wraps: key === 'about' },
    })),
  });
}

function guessRows(language: Language): readonly TableRow[] {
  return guessesOfSession().map(({ id, off }) => guessRow(id, off ?? WORDS.guess[language], language));
}

/** Returns a row for each guess that the record has and this session has not. */
function earlierGuessRows(entries: readonly Entry[], language: Language): readonly TableRow[] {
  const own = new Set(guessesOfSession().map(({ id }) => id));
  const newest = new Map(
    entries
      .filter(({ kind, exercise }) => kind === 'guess' && !own.has(exercise))
      .map((entry) => [entry.exercise, entry]),
  );
  return [...newest.values()].map(({ exercise, value, time }) => {
    const day = time.slice(0, 'YYYY-MM-DD'.length);
    return guessRow(exercise, languages.inLanguage(WORDS.earlier, language, [`${value}`, day]), language);
  });
}

function guessesOfSession(): readonly Guess[] {
  return sessionGuesses()
    .list()
    .filter(({ value }) => !Number.isNaN(value));
}

function guessRow(id: string, result: string, language: Language): TableRow {
  const about = withoutMarks(questionOf(id)?.question[language] ?? WORDS.guess[language]);
  return { exercise: id, about, tries: 1, hints: 0, result, points: null };
}
