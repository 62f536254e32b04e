import { resolve } from 'node:path';
import type { Command } from 'commander';
import { ConfigError } from '../../core';
import { counted, createTable, type Table, type TableRow } from '../../figures';
import { type CollectedAnswers, collectAnswers, type StudentAnswers } from '../../session';
import { addTableOptions, type TableOptions, tableForm } from '../arguments';
import type { Io, Perform } from '../io';

/** `shardlab grade FOLDER`: collects the answers of all students, and judges them again. */
export function declareGrade(command: Command, perform: Perform, io: Io): void {
  command.argument(
    '<folder>',
    "what students handed in, as nbgrader's submitted/STUDENT/ASSIGNMENT, or files side by side",
  );
  addTableOptions(command).addHelpText(
    'after',
    `
Reads the files shardlab-answers.jsonl, and notebooks with outputs. Verdicts and
points are worked out again from the answers. Exit status 1: no answers found.`,
  );
  perform<TableOptions>(command, async ([folder = ''], options, output) => {
    if (folder.trim() === '') throw new ConfigError('name the folder of what students handed in');
    const form = tableForm(options, output);
    const collected = collectAnswers(resolve(io.cwd, folder));
    for (const note of collected.notes) output.note(note);
    if (collected.students.length === 0)
      output.note(`no answers below ${folder}: no shardlab-answers.jsonl, and no notebook with sl.check`);
    const table = tableOf(collected);
    output.answer(asJson(collected), () =>
      form === undefined ? table.toText(table.rows.length) : form(table),
    );
    return collected.students.length === 0 ? 1 : 0;
  });
}

/** Returns a row per student, a column per exercise, and the sums. */
function tableOf({ students, exercises }: CollectedAnswers): Table {
  const rows = students.map(
    ({ student, exercises: own, numGuesses, points }): TableRow => ({
      student,
      ...Object.fromEntries(exercises.map((id) => [id, own.get(id)?.points ?? null])),
      guesses: numGuesses,
      points,
      of: exercises.length,
    }),
  );
  return createTable(rows, {
    title: `${counted(students.length, 'student')}, ${counted(exercises.length, 'exercise')}; —: not tried`,
    columns: ['student', ...exercises, 'guesses', 'points', 'of'].map((key) => ({ key })),
  });
}

function asJson({
  students,
  exercises,
  numFiles,
  notes,
}: CollectedAnswers): Readonly<Record<string, unknown>> {
  return {
    exercises,
    files: numFiles,
    notes,
    students: students.map(({ student, points, numGuesses, exercises: own }: StudentAnswers) => ({
      student,
      points,
      of: exercises.length,
      guesses: numGuesses,
      exercises: Object.fromEntries(
        [...own].map(([id, { tries, hints, isSolved, isShown, points: earned }]) => [
          id,
          { points: earned, tries, hints, solved: isSolved, solution_shown: isShown },
        ]),
      ),
    })),
  };
}
