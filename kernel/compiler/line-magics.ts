import ts from 'typescript';
import type { CellError } from '../../src/cell';
import { parse, parseErrors } from './cell-text';
import { type Magic, magicFault, magicOf } from './magic-table';

/** A line magic that the compiler has taken out of a cell; its call stands between the cell's statements. */
export interface MagicCall {
  readonly name: string;
  /** The rest of the line; of a timing magic, its options. */
  readonly text: string;
  readonly start: number;
  readonly line: number;
  /** A timing magic times the statements that begin in this range. */
  readonly from: number;
  readonly end: number;
}

/** A cell without its line magics. Spaces replace them, so positions stay the same. */
export interface ReadCell {
  readonly source: string;
  readonly calls: readonly MagicCall[];
  /** Why a line magic cannot be used. */
  readonly fault?: { readonly message: string; readonly line: number };
}

const LINE = /^([ \t]*)(%%?[a-z]\w*|!)(.*)$/gim;
const TIMED_CELL = /^\s*(?:\/\/[ \t]*)?%%(time|timeit)(?![\w?])(.*)$/m;
const TIMEIT_OPTIONS = /^(?:[ \t]+-[nr][ \t]*\d+)*(?![^ \t\n])/;
/** Words after which an expression continues, so that `!await ready` is TypeScript. */
const KEYWORDS =
  /^(await|async|class|delete|false|function|import|new|null|super|this|true|typeof|undefined|void)$/;

interface Candidate extends MagicCall {
  /** As in the cell: `%cd`, or `!`. */
  readonly written: string;
  /** The end of the text that is no TypeScript. */
  readonly textEnd: number;
}

/**
 * Takes the line magics out of a cell ([Note: magics]). A line is a magic if a statement could begin there, outside of blocks,
 * strings and comments, and the cell parses as well without it. A line that is TypeScript stays if the word after `%` or `!` is a
 * name.
 */
export function readLineMagics(source: string, isName: (word: string) => boolean): ReadCell {
  const candidates = candidatesIn(source);
  if (candidates.length === 0) return { source, calls: [] };
  const file = parse(candidates.reduce(withoutMagic, source));
  const places = placesOf(file);
  const numErrors = parseErrors(file).length;
  const isTypescript = numErrorsIn(source) === 0;
  const isKept = (candidate: Candidate): boolean =>
    staysTypescript(candidate, isTypescript, (word) => isName(word) || KEYWORDS.test(word)) ||
    (numErrors > 0 &&
      numErrorsIn(candidates.filter((each) => each !== candidate).reduce(withoutMagic, source)) < numErrors);
  const magics: Candidate[] = [];
  for (const candidate of candidates) {
    const place = places.get(candidate.start);
    if (place === undefined || isKept(candidate)) continue;
    const message = place === 'block' ? blockFault(candidate, isTypescript) : faultOf(candidate, source);
    if (message !== undefined) return { source, calls: [], fault: { message, line: candidate.line } };
    if (place === 'cell') magics.push(candidate);
  }
  return { source: magics.reduce(withoutMagic, source), calls: magics };
}

function numErrorsIn(source: string): number {
  return parseErrors(parse(source)).length;
}

/** Describes a line magic that cannot be used as the error of a cell. */
export function magicError({ message, line }: NonNullable<ReadCell['fault']>): CellError {
  const ename = 'WrongMagic';
  return { ename, evalue: message, traceback: [`${ename}: ${message} (line ${line})`], line, column: 1 };
}

/** Says that cells of ranks have no line magics. */
export function magicInRanks({ line }: MagicCall): NonNullable<ReadCell['fault']> {
  return { line, message: "line magics run in the notebook's process; write them in a cell without %%ranks" };
}

function candidatesIn(source: string): Candidate[] {
  const timed = timedCell(source);
  const after = timed?.textEnd ?? 0;
  const lines = [...source.matchAll(LINE)]
    .filter(({ index }) => index >= after)
    .map(({ index, 1: indent = '', 2: written = '', 3: rest = '' }) => {
      const start = index + indent.length;
      const name = written === '!' ? 'sh' : written.replace(/^%+/, '');
      const textStart = start + written.length;
      const text = name === 'timeit' ? (TIMEIT_OPTIONS.exec(rest)?.[0] ?? '') : name === 'time' ? '' : rest;
      return {
        ...{ name, written, text: text.trim(), start, line: lineAt(source, start) },
        textEnd: textStart + text.length,
        from: start,
        end: textStart + rest.length,
      };
    });
  return timed === undefined ? lines : [timed, ...lines];
}

/** A first line that times the whole cell; of `%%timeit`, code of the first line runs once, before the timed code. */
function timedCell(source: string): Candidate | undefined {
  const timed = TIMED_CELL.exec(source);
  if (timed === null || source.slice(0, timed.index).trim() !== '') return undefined;
  const { 0: whole, 1: name = '', 2: rest = '' } = timed;
  const start = timed.index + (/\S/.exec(whole)?.index ?? 0);
  const text = name === 'timeit' ? (TIMEIT_OPTIONS.exec(rest)?.[0] ?? '') : '';
  const textEnd = timed.index + whole.length - rest.length + text.length;
  const line = lineAt(source, start);
  const from = timed.index + whole.length;
  return {
    name,
    written: `%%${name}`,
    text: text.trim(),
    start,
    line,
    textEnd,
    from,
    end: source.length + 1,
  };
}

function lineAt(source: string, offset: number): number {
  return source.slice(0, offset).split('\n').length;
}

/** Puts an empty statement in the place of a magic. */
function withoutMagic(source: string, { start, textEnd }: Candidate): string {
  return `${source.slice(0, start)};${' '.repeat(textEnd - start - 1)}${source.slice(textEnd)}`;
}

/** Returns, for each semicolon that ends a statement, whether it is in the cell itself or in a block. */
function placesOf(file: ts.SourceFile): ReadonlyMap<number, 'cell' | 'block'> {
  const places = new Map<number, 'cell' | 'block'>();
  const visit = (node: ts.Node, place: 'cell' | 'block'): void => {
    const last = node.end - 1;
    // The outermost statement that ends here, unless the semicolon is a statement itself, as the body of a loop.
    if (file.text[last] === ';' && (!places.has(last) || ts.isEmptyStatement(node))) places.set(last, place);
    ts.forEachChild(node, (child) => visit(child, 'block'));
  };
  for (const statement of file.statements) visit(statement, 'cell');
  return places;
}

/** Whether a line is TypeScript; `isTypescript` says whether the whole cell parses as it stands. */
function staysTypescript(
  { written, name, text }: Candidate,
  isTypescript: boolean,
  isName: (word: string) => boolean,
): boolean {
  if (written !== '!') return isTypescript && (magicOf(name) === undefined || isName(name));
  const [word] = /^[A-Za-z_$][\w$]*/.exec(text) ?? [];
  return word === undefined ? isTypescript : isName(word);
}

function blockFault({ written, text }: Candidate, isTypescript: boolean): string | undefined {
  if (isTypescript || (written === '!' && !/^[\w./~]/.test(text))) return undefined;
  const magic = written === '!' ? `!${text}` : written;
  return `${magic} is inside a block; write it on a line of its own between the statements of the cell`;
}

function faultOf({ written, name, start }: Candidate, source: string): string | undefined {
  if (written === '!') return undefined;
  const fault = magicFault(written);
  if (fault !== undefined) return fault;
  const magic: Magic | undefined = magicOf(name);
  if (magic?.runs === 'front') return `${written} must be alone in its cell`;
  const isFirst = source.slice(0, start).replace('//', '').trim() === '';
  return written.startsWith('%%') && !isFirst ? `${written} must be the first line of its cell` : undefined;
}
