import { ConfigError, isRecord } from '../../core';

/*
 * [Note: nbgrader] nbgrader grades a notebook by executing it: each cell with `grade: true` in its metadata is worth its points unless it
 * throws. These cells are locked: nbgrader puts the teacher's text in the place of a student's. So the answer must be in a cell before. A
 * notebook's cell `await sl.check('01.world', 10)` becomes two: `const answer01World = 10;`, which students edit, and the locked
 * `await display(await sl.check('01.world', answer01World));`. This cell has no value, because nbgrader reads a cell's value as points.
 * While nbgrader executes a notebook, it sets NBGRADER_EXECUTION, and `sl.check` throws if an answer is not right (`Tutor.check`).
 */

/** A cell of a notebook in Jupyter's format 4. */
interface Cell {
  readonly cell_type: string;
  readonly source: string | readonly string[];
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly id?: string;
}

/** A notebook of Jupyter's format 4. */
type NotebookJson = Readonly<Record<string, unknown>> & { readonly cells: readonly Cell[] };

/** A notebook for nbgrader, with the names of its exercises. */
export interface Assignment {
  readonly notebook: NotebookJson;
  readonly exercises: readonly string[];
}

/**
 * Makes a notebook for nbgrader of a notebook with exercises: without outputs, with a locked cell per exercise. Throws: CONFIG if the
 * value is no notebook of format 4, or has no exercise.
 */
export function assignmentOf(name: string, value: unknown, points: number): Assignment {
  if (!isNotebook(value))
    throw new ConfigError(`${name} is not a notebook of Jupyter's format 4; name an .ipynb file`);
  const exercises: string[] = [];
  const cells = value.cells.flatMap((cell) => {
    if (cell.cell_type !== 'code') return [cell];
    const split = splitCheck(cell);
    if (split === undefined) return [withoutOutputs(cell)];
    exercises.push(split.id);
    return cellsOf(cell, split, points);
  });
  if (exercises.length === 0)
    throw new ConfigError(`${name} has no exercise: no cell that ends in await sl.check('…', …)`);
  return { notebook: { ...value, cells }, exercises };
}

function isNotebook(value: unknown): value is NotebookJson {
  return (
    isRecord(value) &&
    value.nbformat === 4 &&
    Array.isArray(value.cells) &&
    value.cells.every((cell) => isRecord(cell) && typeof cell.cell_type === 'string' && isText(cell.source))
  );
}

function isText(value: unknown): boolean {
  return (
    typeof value === 'string' || (Array.isArray(value) && value.every((line) => typeof line === 'string'))
  );
}

/** A call of `sl.check` that ends a cell. */
interface Check {
  readonly id: string;
  /** The code before the call, with its line ends. */
  readonly before: string;
  /** The expression of the answer. */
  readonly answer: string;
  readonly comment: string;
}

const CHECK = /^await sl\.check\('([\w.-]+)', (.+?)\);?\s*(\/\/.*)?$/;

function splitCheck({ source }: Cell): Check | undefined {
  const lines = [source].flat().join('').trimEnd().split('\n');
  const [, id, answer, comment = ''] = CHECK.exec(lines.at(-1) ?? '') ?? [];
  if (id === undefined || answer === undefined) return undefined;
  return {
    id,
    answer,
    comment,
    before: lines
      .slice(0, -1)
      .map((line) => `${line}\n`)
      .join(''),
  };
}

function cellsOf(cell: Cell, { id, before, answer, comment }: Check, points: number): readonly Cell[] {
  // A name is the answer of an earlier cell, which students edit; any other expression gets a cell of its own.
  const isName = /^[A-Za-z_$][\w$]*$/.test(answer) && answer !== 'NaN' && answer !== 'undefined';
  const name = isName ? answer : answerName(id);
  const code = isName
    ? before.trimEnd()
    : `${before}const ${name} = ${answer};${comment === '' ? '' : ` ${comment}`}`;
  const gradeId = id.replaceAll(/[^\w-]/g, '-');
  const check: Cell = {
    ...withoutOutputs(cell),
    id: `check-${gradeId}`.slice(0, 64),
    source: `await display(await sl.check('${id}', ${name}));`,
    metadata: {
      nbgrader: {
        ...{ grade: true, solution: false, locked: true, task: false, points },
        ...{ grade_id: gradeId, schema_version: 3, cell_type: 'code' },
      },
    },
  };
  return code === '' ? [check] : [{ ...withoutOutputs(cell), source: code }, check];
}

/** '01.world' → answer01World */
function answerName(id: string): string {
  return `answer${id
    .split(/[^A-Za-z0-9]+/)
    .map((part) => part.charAt(0).toUpperCase() + part.slice(1))
    .join('')}`;
}

function withoutOutputs(cell: Cell): Cell {
  const { execution: _, ...metadata } = cell.metadata ?? {};
  return { ...cell, metadata, ...{ outputs: [], execution_count: null } };
}
