import ts from 'typescript';

/** A range of a cell's source with an error. */
interface Fault {
  readonly start?: number | undefined;
}

/**
 * The text of a cell that fails its check, with everything except its imports blanked, so that positions stay. Imports
 * with an error, and imports without names, are omitted. Undefined if nothing remains, or if the text is unchanged.
 */
export function rightImports(file: ts.SourceFile, faults: readonly Fault[]): string | undefined {
  const right = file.statements.filter(
    (statement) =>
      ts.isImportDeclaration(statement) &&
      statement.importClause !== undefined &&
      !faults.some(({ start = -1 }) => start >= statement.pos && start < statement.end),
  );
  let [text, end] = ['', 0];
  for (const statement of right) {
    const start = statement.getStart(file);
    text += blanked(file.text.slice(end, start)) + file.text.slice(start, statement.end);
    end = statement.end;
  }
  text += blanked(file.text.slice(end));
  return right.length === 0 || text === file.text ? undefined : text;
}

function blanked(text: string): string {
  return text.replace(/[^\n]/g, ' ');
}
