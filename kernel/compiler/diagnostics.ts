import ts from 'typescript';
import type { CellError } from '../../src/cell/cell-error';

/** How many messages of one cell are shown. */
const SHOWN = 10;

/** Describes what the checker found as one error of the cell; positions are those of its source. */
export function describeDiagnostics(
  diagnostics: readonly ts.Diagnostic[],
  source: string,
  name: string,
): CellError {
  const found = diagnostics.map((diagnostic) => placed(diagnostic, source));
  const first = found[0];
  if (first === undefined) throw new Error('an error was described without a diagnostic');
  const ename = `TypeScriptError[TS${first.code}]`;
  const rest = found.length > SHOWN ? [`… and ${found.length - SHOWN} more`] : [];
  return {
    ename,
    evalue: first.message,
    traceback: [...found.slice(0, SHOWN).flatMap((one) => underlined(one, source, name)), ...rest],
    line: first.line + 1,
    column: first.column + 1,
  };
}

interface Placed {
  readonly code: number;
  readonly message: string;
  /** Zero-based. */
  readonly line: number;
  readonly column: number;
  readonly length: number;
}

function placed({ code, messageText, start = 0, length = 1 }: ts.Diagnostic, source: string): Placed {
  const offset = Math.min(start, source.length);
  const before = source.slice(0, offset).split('\n');
  return {
    code,
    message: ts
      .flattenDiagnosticMessageText(messageText, '\n')
      .replace(/import\("[^"]*\/__cell[^"]*"\)\./g, ''),
    line: before.length - 1,
    column: before.at(-1)?.length ?? 0,
    length,
  };
}

function underlined({ code, message, line, column, length }: Placed, source: string, name: string): string[] {
  const text = source.split('\n')[line] ?? '';
  const mark = '~'.repeat(Math.max(1, Math.min(length, text.length - column)));
  return [
    `${name}:${line + 1}:${column + 1} - error TS${code}: ${message}`,
    `    ${text}`,
    `    ${text.slice(0, column).replace(/\S/g, ' ')}${mark}`,
  ];
}
