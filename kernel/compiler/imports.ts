import ts from 'typescript';

/** A stretch of a cell's source in which something is wrong. */
interface Fault {
  readonly start?: number | undefined;
}

/**
 * The text of a cell that fails its check with all but its imports blanked, so that places stay. Left out are imports
 * with a fault, and those that declare nothing. Undefined where that leaves nothing, or the text as it was.
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
