import ts from 'typescript';
import type { CellError } from '../../src/cell';
import type { Completeness } from './protocol';

const INDENT = '  ';
/** Codes of errors that more text can remove: an unterminated template literal, and an unterminated block comment. */
const UNTERMINATED = new Set([1160, 1010]);

/** Parses a cell into a syntax tree, without types. */
export function parse(source: string): ts.SourceFile {
  return ts.createSourceFile('cell.mts', source, ts.ScriptTarget.ES2022, false, ts.ScriptKind.TS);
}

/** Returns the parser's errors. TypeScript's typings lack this field; a whole program would have it, but takes long to create. */
export function parseErrors(file: ts.SourceFile): readonly ts.Diagnostic[] {
  return (file as unknown as { readonly parseDiagnostics: readonly ts.Diagnostic[] }).parseDiagnostics;
}

/**
 * Returns whether a cell is complete, could become complete with more text, or is invalid. Source: Jupyter protocol,
 * is_complete_request
 */
export function completenessOf(source: string): Completeness {
  const parseDiagnostics = parseErrors(parse(source));
  if (parseDiagnostics.length === 0) return { status: 'complete' };
  const end = source.trimEnd().length;
  const continues = ({ start = 0, code }: ts.Diagnostic): boolean => UNTERMINATED.has(code) || start >= end;
  return parseDiagnostics.every(continues)
    ? { status: 'incomplete', indent: nextIndent(source) }
    : { status: 'invalid' };
}

function nextIndent(source: string): string {
  const line = source.trimEnd().split('\n').at(-1) ?? '';
  const current = /^\s*/.exec(line)?.[0] ?? '';
  return /[[({]$/.test(line) ? current + INDENT : current;
}

/**
 * Returns the text of a failed cell in which spaces replace all code except imports, so that positions stay the same. Spaces
 * also replace imports with an error, and imports without names. Undefined if no import remains, or if the text is unchanged.
 */
export function rightImports(source: string, faults: readonly ts.Diagnostic[]): string | undefined {
  const file = parse(source);
  const right = file.statements.filter(
    (statement) =>
      ts.isImportDeclaration(statement) &&
      statement.importClause !== undefined &&
      !faults.some(({ start = -1 }) => start >= statement.pos && start < statement.end),
  );
  let [text, end] = ['', 0];
  for (const statement of right) {
    const start = statement.getStart(file);
    text += blanked(source.slice(end, start)) + source.slice(start, statement.end);
    end = statement.end;
  }
  text += blanked(source.slice(end));
  return right.length === 0 || text === source ? undefined : text;
}

function blanked(text: string): string {
  return text.replace(/[^\n]/g, ' ');
}

/**
 * Runs `work`, in which TypeScript traverses a cell's tree recursively. If the tree is too deep for the stack, runs
 * `otherwise`. For example, a sum of thousands of terms nests each addition in the next.
 */
export function unlessTooDeep<T>(work: () => T, otherwise: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof RangeError && error.message.includes('call stack')) return otherwise();
    throw error;
  }
}

/** Describes a cell that is nested too deep; `name` is the cell's name, such as "In[3]". */
export function depthError(source: string, name: string): CellError {
  const deepest = unlessTooDeep(
    () => deepestPlace(source),
    () => undefined,
  );
  const place = deepest === undefined ? '' : ` (${deepest.depth} levels in line ${deepest.line})`;
  const ename = 'CellTooDeep';
  const evalue =
    `${name} is nested deeper than the compiler can follow${place}; split it into several statements, ` +
    'or write a sum of many terms as a loop or as values.reduce((a, b) => a + b)';
  return { ename, evalue, traceback: [`${ename}: ${evalue}`], line: deepest?.line };
}

function deepestPlace(source: string): { readonly depth: number; readonly line: number } {
  const file = parse(source);
  const left: { readonly node: ts.Node; readonly depth: number }[] = [{ node: file, depth: 0 }];
  let deepest = { depth: 0, pos: 0 };
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { node, depth } = next;
    if (depth > deepest.depth) deepest = { depth, pos: node.getStart(file) };
    ts.forEachChild(node, (child) => void left.push({ node: child, depth: depth + 1 }));
  }
  return { depth: deepest.depth, line: ts.getLineAndCharacterOfPosition(file, deepest.pos).line + 1 };
}
