import ts from 'typescript';
import type { Completeness } from './protocol';

const INDENT = '  ';
/** "Unterminated template literal", "Unterminated string in block comment": the text continues. */
const UNTERMINATED = new Set([1160, 1010]);

/**
 * Whether a cell is complete, could become complete with more text, or cannot. Source: Jupyter protocol,
 * is_complete_request
 */
export function completenessOf(source: string): Completeness {
  const file = ts.createSourceFile('cell.mts', source, ts.ScriptTarget.ES2022, false, ts.ScriptKind.TS);
  // The parser's findings; the types hide this field, and a whole program would take long.
  const { parseDiagnostics: diagnostics } = file as unknown as { parseDiagnostics: ts.Diagnostic[] };
  if (diagnostics.length === 0) return { status: 'complete' };
  const end = source.trimEnd().length;
  const goesOn = ({ start = 0, code }: ts.Diagnostic): boolean => UNTERMINATED.has(code) || start >= end;
  return diagnostics.every(goesOn)
    ? { status: 'incomplete', indent: nextIndent(source) }
    : { status: 'invalid' };
}

function nextIndent(source: string): string {
  const line = source.trimEnd().split('\n').at(-1) ?? '';
  const current = /^\s*/.exec(line)?.[0] ?? '';
  return /[[({]$/.test(line) ? current + INDENT : current;
}
