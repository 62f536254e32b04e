import { nearest } from '../../src/core';

/**
 * [Note: magics] A magic is a line that is not TypeScript: a cell magic (`%%bash`) is the first line of a cell and decides how the
 * cell runs, and a line magic (`%cd data`) stands between the statements of a cell. This table has all magics: `%lsmagic`, the Tab
 * key, help and docs/reference/notebook.md show its rows. `runs` says who performs a magic:
 * - ranks: the front, which sends the cell to ranks (front/cell-execution.ts)
 * - front: the front alone; the magic is the whole cell (front/own-magics.ts)
 * - text: the executor, with the text of the cell (executor/magics)
 * - line: the executor; the compiler puts a call between the cell's statements (compiler/line-magics.ts)
 * - timing: as line; the call is around the statements that are timed
 */
export interface Magic {
  /** How it is written as a cell magic, if it may be one. */
  readonly cell?: string;
  /** How it is written as a line magic, if it may be one. */
  readonly line?: string;
  /** One sentence. */
  readonly summary: string;
  /** More sentences, for the help page. */
  readonly details?: string;
  readonly runs: 'ranks' | 'front' | 'text' | 'line' | 'timing';
}

/** All magics by name. `sh` has the line form `!command`. */
export const MAGICS = {
  ranks: {
    cell: '%%ranks [--check | --python] [ranks]',
    summary: 'Runs the cell in the ranks of the newest job: in all, or in those named, as in %%ranks 0,2-3.',
    details:
      'With --check, the cell is only type-checked. With --python, it is Python for ranks of engine torch.',
    runs: 'ranks',
  },
  rank: {
    cell: '%%rank [--check | --python] rank',
    summary: 'Runs the cell in one rank of the newest job, as in %%rank 0.',
    runs: 'ranks',
  },
  time: {
    cell: '%%time',
    line: '%time statement',
    summary: 'Runs the cell or the statement once, and prints the time that it took.',
    details:
      'CPU times are those of all threads of the process that runs the cells, without its child processes and ranks.',
    runs: 'timing',
  },
  timeit: {
    cell: '%%timeit [-n loops] [-r runs]',
    line: '%timeit [-n loops] [-r runs] statement',
    summary: 'Runs the cell or the statement many times, and prints the mean and the deviation of its time.',
    details:
      'Without -n, the number of loops makes a run last 0.2 seconds or more. The default of -r is 7. Names that the code declares exist only within it.',
    runs: 'timing',
  },
  bash: {
    cell: '%%bash',
    summary: 'Runs the text of the cell as a script of bash; an exit code other than 0 is an error.',
    runs: 'text',
  },
  sh: {
    cell: '%%sh',
    line: '!command',
    summary: 'Runs the text of the cell, or the rest of the line, in sh.',
    details:
      'An exit code other than 0 is an error of a cell, and a message of a line. A line is a command unless the word after ! is a name of TypeScript.',
    runs: 'text',
  },
  html: { cell: '%%html', summary: 'Shows the text of the cell as HTML.', runs: 'text' },
  markdown: { cell: '%%markdown', summary: 'Shows the text of the cell as Markdown.', runs: 'text' },
  latex: { cell: '%%latex', summary: 'Shows the text of the cell as LaTeX.', runs: 'text' },
  javascript: {
    cell: '%%javascript',
    summary: 'Runs the text of the cell in the browser, in programs that allow it, such as JupyterLab.',
    runs: 'text',
  },
  writefile: {
    cell: '%%writefile [-a] file',
    summary: 'Writes the text of the cell into a file; -a adds it to the end of the file.',
    runs: 'text',
  },
  cd: {
    line: '%cd [folder]',
    summary:
      'Changes the current folder, from which files are read and commands run; imports stay those of the notebook.',
    details: 'Without a folder, goes to the home folder; %cd - goes back.',
    runs: 'line',
  },
  pwd: { line: '%pwd', summary: 'Returns the current folder.', runs: 'line' },
  env: {
    line: '%env [name | name=value | name value]',
    summary:
      'Returns the environment variables or one of them, or sets one; jobs that start later have it too.',
    details: 'A list of all variables shows <hidden> for keys, tokens and passwords.',
    runs: 'line',
  },
  npm: {
    line: '%npm install package …',
    summary:
      "Runs npm in the notebook's folder; a package that it installs can be imported in the next cell.",
    runs: 'line',
  },
  who: {
    line: '%who [ranks]',
    summary: 'Lists the names that cells have declared; with ranks, those of %%ranks cells.',
    runs: 'front',
  },
  whos: {
    line: '%whos [ranks]',
    summary: 'Lists the names that cells have declared, with their types and cells.',
    runs: 'front',
  },
  history: {
    line: '%history [-n] [-l count]',
    summary:
      'Prints the cells of this session; -n adds numbers, and -l prints the last cells of all sessions.',
    runs: 'front',
  },
  lsmagic: { line: '%lsmagic', summary: 'Lists all magics.', runs: 'front' },
} as const satisfies Readonly<Record<string, Magic>>;

export type MagicName = keyof typeof MAGICS;

/** The names of the magics that are performed in a certain way. */
export type MagicsThatRun<R extends Magic['runs']> = {
  [Name in MagicName]: (typeof MAGICS)[Name]['runs'] extends R ? Name : never;
}[MagicName];

/** Magics of IPython that are not here, and what to write instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  run: "a file runs by import './file.ts'",
  pip: 'write !pip install …',
  conda: 'write !conda install …',
  matplotlib: 'figures are shown without it',
  load_ext: 'there are no extensions',
  autoreload: 'run the cell with the import again after a file has changed',
  reset: 'restart the kernel',
  sx: 'write !command',
  system: 'write !command',
  hist: 'write %history',
};

/** Returns the magic of this name; undefined if there is none. */
export function magicOf(name: string): Magic | undefined {
  return isMagic(name) ? MAGICS[name] : undefined;
}

export function isMagic(name: string): name is MagicName {
  return Object.hasOwn(MAGICS, name);
}

/** Returns one line for each form of each magic: how it is written, and what it does. */
export function magicLines(): string[] {
  const rows = Object.values<Magic>(MAGICS).flatMap(({ cell, line, summary }) =>
    [line, cell].flatMap((usage) => (usage === undefined ? [] : [{ usage, summary }])),
  );
  const width = Math.max(...rows.map(({ usage }) => usage.length));
  return rows.map(({ usage, summary }) => `${usage.padEnd(width)}  ${summary}`);
}

/** Returns the help of a magic, as plain text and as Markdown. */
export function magicHelp({ cell, line, summary, details }: Magic): {
  readonly text: string;
  readonly markdown: string;
} {
  const usages = [line, cell].filter((usage) => usage !== undefined).join('\n');
  const words = details === undefined ? summary : `${summary}\n\n${details}`;
  return { text: `${usages}\n\n${words}`, markdown: `\`\`\`\n${usages}\n\`\`\`\n\n${words}` };
}

/** Returns why a magic, written with its percent signs, cannot be used; undefined if it can. */
export function magicFault(written: string): string | undefined {
  const [, signs = '', name = ''] = /^(%%?)(.*)$/.exec(written) ?? [];
  const magic = magicOf(name);
  if (magic === undefined) return unknownMagic(written);
  if (signs === '%%' && magic.cell === undefined)
    return `${written} is not a cell magic; write ${magic.line} on a line of its own`;
  if (signs === '%' && magic.line?.startsWith('%') !== true)
    return `${written} is not a line magic; write ${magic.cell} as the first line of the cell`;
  return undefined;
}

/** Says that there is no such magic, and which one is near. */
export function unknownMagic(written: string): string {
  return `${written} is not a magic${adviceOn(written.replace(/^%+/, ''))}; %lsmagic lists all magics`;
}

function adviceOn(name: string): string {
  const elsewhere = Object.hasOwn(ELSEWHERE, name) ? ELSEWHERE[name] : undefined;
  if (elsewhere !== undefined) return ` here: ${elsewhere}`;
  const near = nearest(name, Object.keys(MAGICS));
  const magic = near === undefined ? undefined : magicOf(near);
  if (magic === undefined) return '';
  return `, the nearest one is ${magic.line?.startsWith('%') === true ? '%' : '%%'}${near}`;
}
