import ts from 'typescript';
import type { CellError } from '../../src/cell/cell-error';
import type { Completeness } from './protocol';

const INDENT = '  ';
/** "Unterminated template literal", "Unterminated string in block comment": the text continues. */
const UNTERMINATED = new Set([1160, 1010]);

/** A cell's tree, without types. */
export function parse(source: string): ts.SourceFile {
  return ts.createSourceFile('cell.mts', source, ts.ScriptTarget.ES2022, false, ts.ScriptKind.TS);
}

/**
 * Whether a cell is complete, could become complete with more text, or cannot. Source: Jupyter protocol,
 * is_complete_request
 */
export function completenessOf(source: string): Completeness {
  // The parser's findings; the types hide this field, and a whole program would take long.
  const { parseDiagnostics } = parse(source) as unknown as { parseDiagnostics: ts.Diagnostic[] };
  if (parseDiagnostics.length === 0) return { status: 'complete' };
  const end = source.trimEnd().length;
  const goesOn = ({ start = 0, code }: ts.Diagnostic): boolean => UNTERMINATED.has(code) || start >= end;
  return parseDiagnostics.every(goesOn)
    ? { status: 'incomplete', indent: nextIndent(source) }
    : { status: 'invalid' };
}

function nextIndent(source: string): string {
  const line = source.trimEnd().split('\n').at(-1) ?? '';
  const current = /^\s*/.exec(line)?.[0] ?? '';
  return /[[({]$/.test(line) ? current + INDENT : current;
}

/**
 * The text of a cell that fails its check, with everything except its imports blanked, so that positions stay. Imports
 * with an error, and imports without names, are omitted. Undefined if nothing remains, or if the text is unchanged.
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
 * TypeScript traverses a cell's tree recursively. If the tree is deeper than the stack (a sum of thousands of terms
 * nests one addition in another), returns `otherwise`.
 */
export function unlessTooDeep<T>(work: () => T, otherwise: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof RangeError && error.message.includes('call stack')) return otherwise();
    throw error;
  }
}

/** The error of a cell that is too deep; `name` is the cell's name, as "In[3]". */
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
