import ts from 'typescript';
import type { Completeness } from './protocol';

const INDENT = '  ';
/** "Unterminated template literal", "Unterminated string in block comment": the text goes on. */
const UNTERMINATED = new Set([1160, 1010]);

/** Whether a cell is a whole, could become one by more text, or cannot. Source: Jupyter protocol, is_complete_request */
export function completenessOf(source: string): Completeness {
  const file = ts.createSourceFile('cell.mts', source, ts.ScriptTarget.ES2022, false, ts.ScriptKind.TS);
  // What the parser found; the typings keep it to themselves, and a whole program for it takes long.
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
