import { DISPLAY, globalSlot, languages, shown } from '../../core';
import type { Guess, Table } from '../../figures';
import { Mystery } from '../../launch';
import { AnswerRecord } from './answer-record';
import { giveUpGuess, guessFirst } from './guess-first';
import { scoreTable } from './score';
import { Tutor, type Verdict } from './tutor';

/** The record and the tutor of this process, which is one notebook's session. */
interface Classroom {
  readonly record: AnswerRecord;
  readonly tutor: Tutor;
}

const CLASSROOM = globalSlot<Classroom>('shardlab.classroom');

function classroom(): Classroom {
  CLASSROOM.value ??= openClassroom();
  return CLASSROOM.value;
}

function openClassroom(): Classroom {
  const record = new AnswerRecord({ folder: process.cwd(), env: process.env, now: () => new Date() });
  return { record, tutor: new Tutor(record, languages.notebookLanguage(process.env)) };
}

/** Cells are JavaScript: a name may be any value. */
function nameOf(id: unknown): string {
  return typeof id === 'string' ? id : shown(id);
}

/** The exercises of the notebooks, as `sl.check` and the functions beside it call them. */
export const exercises = {
  check: (id: string, value: unknown): Verdict => classroom().tutor.check(nameOf(id), value),
  hint: (id: string): Verdict => classroom().tutor.hint(nameOf(id)),
  solution(id: string): Verdict {
    const name = nameOf(id);
    const answer = giveUpGuess(name, languages.notebookLanguage(process.env));
    if (answer === undefined) return classroom().tutor.solution(name);
    return { id: name, outcome: 'told', text: answer, [DISPLAY]: () => ({ 'text/plain': answer }) };
  },
  guess: (id: string, value: unknown, of: unknown): Guess =>
    guessFirst(nameOf(id), value, of, {
      record: classroom().record,
      language: languages.notebookLanguage(process.env),
    }),
  mystery: (number: number): Mystery =>
    new Mystery(number, () => classroom().tutor.revealed(number), languages.notebookLanguage(process.env)),
  score: (): Table => scoreTable(classroom().record, languages.notebookLanguage(process.env)),
} as const;
