import { DISPLAY, type DisplayBundle, type Language, ShardlabError, shortened, shown } from '../../core';
import { ink } from '../../figures';
import { type AnswerRecord, recordedValue } from './answer-record';
import { isNothing } from './answer-values';
import { ANSWER_MIME, type Entry, type Progress, progressOf, TRIES_BEFORE_SOLUTION } from './entries';
import { type Exercise, exerciseOf, exerciseOnMystery, questionOf } from './exercise';
import { type Judgement, judge } from './judge';
import { say, withCode, withoutMarks } from './sentences';

/** The result of a check, a hint or a solution; a wrong answer is not an error. */
export interface Verdict {
  readonly id: string;
  /** 'skipped': there is no answer yet; 'unclear': a value of another kind, which is no try; 'told': a hint or a solution. */
  readonly outcome: Judgement['outcome'] | 'told' | 'unknown';
  readonly text: string;
  [DISPLAY](): DisplayBundle;
}

/** Checks answers, and gives hints and solutions, from the record of what a user has done before. */
export class Tutor {
  readonly #record: AnswerRecord;
  readonly #language: Language;
  #hasWarned = false;

  constructor(record: AnswerRecord, language: Language) {
    this.#record = record;
    this.#language = language;
  }

  /**
   * Compares a value with the exercise's answer. A wrong answer gets a reason and the next hint. Throws: CHECK if a grader executes
   * the notebook and the answer is not right, because graders count a cell that throws as failed; otherwise never.
   */
  check(id: string, value: unknown): Verdict {
    const exercise = exerciseOf(id);
    if (exercise === undefined) return this.#unknown(id);
    const judgement = judge(exercise, value);
    const { outcome } = judgement;
    const before = this.#progress(id, exercise);
    const note = this.#add(id, judgement, value, before);
    const progress = this.#progress(id, exercise);
    const lines = this.#checked(id, exercise, { judgement, value, progress, before });
    if (this.#record.isGrading && outcome !== 'right')
      throw new ShardlabError('CHECK', `${id}: the answer ${shown(value)} is not right`);
    return this.#verdict(id, outcome, [...lines, ...note]);
  }

  /** Shows the next hint; after the last one, shows all of them again. */
  hint(id: string): Verdict {
    const exercise = exerciseOf(id);
    if (exercise === undefined) return this.#unknown(id);
    const { hints } = this.#progress(id, exercise);
    if (hints >= exercise.hints.length) {
      const all = exercise.hints.map((_, i) => this.#hintLine(exercise, i + 1));
      return this.#verdict(id, 'told', all);
    }
    const note = this.#write({ exercise: id, kind: 'hint' });
    return this.#verdict(id, 'told', [this.#hintLine(exercise, hints + 1), ...note]);
  }

  /** Shows the solution, and says what a right answer is worth after it. */
  solution(id: string): Verdict {
    const exercise = exerciseOf(id);
    if (exercise === undefined) return this.#unknown(id);
    const before = this.#progress(id, exercise);
    const line = say('solution', this.#language, exercise.solution[this.#language]);
    if (before.isSolved) return this.#verdict(id, 'told', [line]);
    const note = before.isShown ? [] : this.#write({ exercise: id, kind: 'solution' });
    const { worth } = this.#progress(id, exercise);
    const cost = say(worth > 0 ? 'worthHalf' : 'worthNothing', this.#language);
    return this.#verdict(id, 'told', [line, cost, ...note]);
  }

  /** Records that a mystery was revealed: the solution of the exercise that asks for it, if there is one, is then shown. */
  revealed(number: number): void {
    const id = exerciseOnMystery(number);
    if (id !== undefined) this.solution(id);
  }

  #progress(id: string, exercise: Exercise): Progress {
    return progressOf(exercise, this.#entries(id));
  }

  #entries(id: string): readonly Entry[] {
    return this.#record.read().entries.filter((entry) => entry.exercise === id);
  }

  /** Records a try. A second run of the same cell is no further try. Returns the line of a warning, if any. */
  #add(id: string, { outcome }: Judgement, value: unknown, { isSolved, worth }: Progress): readonly string[] {
    if (outcome !== 'right' && outcome !== 'wrong') return [];
    if (isSolved) return [];
    const last = this.#entries(id).findLast(({ kind }) => kind === 'try');
    if (last !== undefined && JSON.stringify(last.value) === JSON.stringify(recordedValue(value))) return [];
    return this.#write({
      exercise: id,
      kind: 'try',
      value,
      outcome,
      points: outcome === 'right' ? worth : 0,
    });
  }

  #write(entry: Parameters<AnswerRecord['add']>[0]): readonly string[] {
    const reason = this.#record.add(entry);
    if (reason === undefined || this.#hasWarned) return [];
    this.#hasWarned = true;
    return [say('unsaved', this.#language, reason)];
  }

  #checked(
    id: string,
    exercise: Exercise,
    {
      judgement: { outcome, reason },
      value,
      progress,
      before,
    }: {
      readonly judgement: Judgement;
      readonly value: unknown;
      readonly progress: Progress;
      readonly before: Progress;
    },
  ): readonly string[] {
    const language = this.#language;
    const expects = exercise.expects[language];
    if (outcome === 'skipped') return [say(isNothing(value) ? 'nothing' : 'skipped', language, expects, id)];
    if (outcome === 'unclear') return [say('unclear', language, shown(value), expects)];
    if (outcome === 'right') {
      const tries = say(progress.tries === 1 ? 'oneTry' : 'tries', language, progress.tries);
      const points = say('points', language, progress.points, tries);
      return [say('right', language, exercise.solution[language]), ...(progress.isSolved ? [points] : [])];
    }
    const lines = [say('wrong', language, shown(value), reason?.[language] ?? '').trim()];
    if (before.isSolved) return lines;
    if (progress.hints > 0) lines.push(this.#hintLine(exercise, progress.hints));
    if (progress.tries >= TRIES_BEFORE_SOLUTION && !progress.isShown) lines.push(say('offer', language, id));
    return lines;
  }

  #hintLine({ hints }: Exercise, number: number): string {
    return say('hint', this.#language, number, hints.length, hints[number - 1]?.[this.#language] ?? '');
  }

  #unknown(id: string): Verdict {
    const sentence = questionOf(id) === undefined ? 'noExercise' : 'checksGuess';
    return this.#verdict(id, 'unknown', [say(sentence, this.#language, shortened(id))]);
  }

  #verdict(id: string, outcome: Verdict['outcome'], lines: readonly string[]): Verdict {
    const entries = this.#entries(id);
    const [first = '', ...others] = lines;
    const marked = [`${MARKS[outcome]} ${shortened(id)}: ${first}`, ...others];
    const html = marked.map((line) => `<div>${withCode(ink.escapeHtml(line))}</div>`).join('');
    return {
      id,
      outcome,
      text: withoutMarks(lines.join('\n')),
      [DISPLAY]: () => ({
        'text/html': html,
        'text/plain': withoutMarks(marked.join('\n')),
        ...(entries.length === 0 ? {} : { [ANSWER_MIME]: { shardlab: 1, entries } }),
      }),
    };
  }
}

const MARKS = { right: '✓', wrong: '✗', skipped: '–', unclear: '?', told: '→', unknown: '?' } as const;
