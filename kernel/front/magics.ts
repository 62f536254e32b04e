import {
  isMagic,
  MAGICS,
  type Magic,
  type MagicsThatRun,
  magicFault,
  magicOf,
  unknownMagic,
} from '../compiler/magic-table';

/** The kind of a cell, which depends on its first line. */
export type CellRequest =
  /** TypeScript for the notebook, with line magics, which the compiler reads. */
  | {
      readonly kind: 'notebook';
      readonly source: string;
      readonly selection?: never;
      readonly checkOnly?: never;
    }
  /**
   * A cell for ranks of the newest job; `selection` is an argument of `job.on`. Spaces replace the first line, so that
   * positions stay the same.
   */
  | {
      readonly kind: 'ranks';
      readonly source: string;
      readonly selection: string;
      /** If true, the cell is only type-checked, and nothing is sent to the ranks. */
      readonly checkOnly: boolean;
    }
  /** Python code for ranks that run PyTorch. The first line is empty, so that line numbers stay the same. */
  | { readonly kind: 'python'; readonly source: string; readonly selection: string }
  /** Text for a cell magic such as `%%bash`; `options` is the rest of the first line. */
  | { readonly kind: 'text'; readonly name: string; readonly options: string; readonly body: string }
  /** A magic that the front performs alone, such as `%who`. */
  | { readonly kind: 'front'; readonly name: MagicsThatRun<'front'>; readonly options: string }
  /** Help on a name; if `inRanks` is true, on a name in `%%ranks` cells. */
  | { readonly kind: 'help'; readonly name: string; readonly inRanks: boolean }
  | { readonly kind: 'magic help'; readonly magic: Magic }
  /** `exit` or `quit`, which end the kernel unless a cell has declared the name. */
  | { readonly kind: 'exit'; readonly name: string; readonly source: string }
  /** A magic that does not exist, or is written in a wrong way. */
  | { readonly kind: 'fault'; readonly message: string };

const HELP = /^\s*(?:\?\??\s*(%{0,2}[\w$.]+)|(%{0,2}[\w$.]+)\s*\?\??)\s*;?\s*$/;
const EXIT = /^\s*(exit|quit)\s*(?:\(\s*\))?\s*;?\s*$/;
const FIRST_LINE = /^\s*(?<comment>\/\/[ \t]*)?(?<written>%%?(?<name>\w+))(?<rest>[^\n]*)(?:\n|$)/;

const CHECK = /(?:^|\s)--check(?=\s|$)/;
const PYTHON = /(?:^|\s)--python(?=\s|$)/;

/**
 * Reads a cell magic in the first line ([Note: magics]), also in a comment: `// %%ranks`. Or a help request (`?name` or `name?`)
 * alone in the cell or alone below `%%ranks`. No TypeScript begins with `%`.
 */
export function readMagics(code: string): CellRequest {
  const help = HELP.exec(code);
  if (help !== null) return helpOn(nameIn(help));
  const exit = EXIT.exec(code)?.[1];
  if (exit !== undefined) return { kind: 'exit', name: exit, source: code };
  const line = FIRST_LINE.exec(code);
  const { comment, written = '', name = '', rest = '' } = line?.groups ?? {};
  if (line === null || (comment !== undefined && !isCommented(written, name, rest)))
    return { kind: 'notebook', source: code };
  const message = magicFault(written) ?? optionsFault(written, name, rest);
  if (message !== undefined) return { kind: 'fault', message };
  if (!isMagic(name)) return { kind: 'notebook', source: code };
  const body = code.slice(line[0].length);
  if (name === 'ranks' || name === 'rank') return readRanks(name, rest, { firstLine: line[0], body });
  const { runs } = MAGICS[name];
  if (runs === 'text') return { kind: 'text', name, options: rest.trim(), body };
  if (runs !== 'front') return { kind: 'notebook', source: code };
  if (body.trim() !== '') return { kind: 'fault', message: `${written} must be alone in its cell` };
  // The row of this name says that the front performs it.
  return { kind: 'front', name: name as MagicsThatRun<'front'>, options: rest.trim() };
}

/** Whether a comment is a cell magic. Other comments, such as `// %% title`, are only comments. */
function isCommented(written: string, name: string, rest: string): boolean {
  return (
    written.startsWith('%%') &&
    magicOf(name)?.cell !== undefined &&
    optionsFault(written, name, rest) === undefined
  );
}

/** Says why text after a cell magic is wrong, if the magic takes none. */
function optionsFault(written: string, name: string, rest: string): string | undefined {
  if (!written.startsWith('%%') || rest.trim() === '' || magicOf(name)?.cell !== written) return undefined;
  return `${written} takes nothing else in its line; write the code below the line`;
}

function readRanks(
  name: 'ranks' | 'rank',
  rest: string,
  { firstLine, body }: { readonly firstLine: string; readonly body: string },
): CellRequest {
  const isPython = PYTHON.test(rest);
  const selection = withoutBrackets(rest.replace(PYTHON, ' ').replace(isPython ? '' : CHECK, ' '));
  if (name === 'rank' && !/^\d+$/.test(selection))
    return {
      kind: 'fault',
      message: '%%rank names one rank, as in %%rank 0; for several ranks write %%ranks 0,2-3',
    };
  if (isPython) return { kind: 'python', selection, source: `\n${body}` };
  const help = HELP.exec(body);
  if (help !== null) return { kind: 'help', name: nameIn(help), inRanks: true };
  const source = firstLine.replace(/[^\n]/g, ' ') + body;
  return { kind: 'ranks', selection, checkOnly: CHECK.test(rest), source };
}

function helpOn(name: string): CellRequest {
  if (!name.startsWith('%')) return { kind: 'help', name, inRanks: false };
  const magic = magicOf(name.replace(/^%+/, ''));
  return magic === undefined ? { kind: 'fault', message: unknownMagic(name) } : { kind: 'magic help', magic };
}

function nameIn(help: RegExpExecArray): string {
  return help[1] ?? help[2] ?? '';
}

function withoutBrackets(text: string): string {
  const selection = text
    .replace(/(\/\/|#).*$/, '')
    .trim()
    .replace(/^\[(.*)\]$/, '$1')
    .trim();
  return selection === '' ? 'all' : selection;
}
