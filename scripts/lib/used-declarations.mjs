import { createRequire } from 'node:module';
import { join } from 'node:path';
import { root } from './places.mjs';

/**
 * Returns the texts of declaration files without declarations and imports that `entries` do not reach: a statement reaches the
 * statements of its file whose names it contains as words, and an import, also within a type, reaches what it names in the other
 * file. All declarations of `entries` stay, and statements without names, such as exports of other files. `fileOf` returns the
 * file that a file imports by a path.
 */
export function usedDeclarations(texts, entries, fileOf) {
  const files = new Map([...texts].map(([file, text]) => [file, statementsOf(text)]));
  const used = new Set();
  const todo = [];
  const use = (file, isWanted) => {
    for (const statement of files.get(file) ?? []) {
      if (used.has(statement) || !isWanted(statement)) continue;
      used.add(statement);
      todo.push([file, statement]);
    }
  };
  for (const file of files.keys()) use(file, ({ names }) => entries.has(file) || names.length === 0);
  for (const [file, { words, paths, isNamespace }] of todo) {
    const isNamed = ({ names }) => names.some((name) => words.has(name));
    use(file, isNamed);
    for (const path of paths) use(fileOf(file, path), isNamespace ? () => true : isNamed);
  }
  return new Map(
    [...files].map(([file, statements]) => [
      file,
      textOf(
        statements.filter((one) => used.has(one)),
        texts.get(file),
      ),
    ]),
  );
}

function textOf(statements, before) {
  const text = statements.map((one) => one.text).join('');
  const isModule = /^(import|export) /m.test(text);
  return `${text.trim()}\n${isModule || !/^(import|export) /m.test(before) ? '' : 'export {};\n'}`;
}

/** A file that a statement imports: from './setting', or import('./setting').Read within a type. */
const PATH = /(?:\bfrom |\bimport\()["'](\.[^"']*)["']/g;

function statementsOf(text) {
  const ts = createRequire(join(root, 'package.json'))('typescript');
  const file = ts.createSourceFile('a.d.ts', text, ts.ScriptTarget.ESNext, true);
  return file.statements.flatMap((statement) =>
    exportsOf(ts, statement).map(({ text: code, names, isNamespace = false }) => ({
      text:
        code === statement.getText(file) ? text.slice(statement.getFullStart(), statement.end) : `\n${code}`,
      names,
      isNamespace,
      paths: [...code.matchAll(PATH)].map(([, path]) => path),
      words: new Set(code.match(/[\p{ID_Start}$_][\p{ID_Continue}$]*/gu)),
    })),
  );
}

/** Divides an export of another file's names, such as a door has, into one per name or namespace, so that unused names can go. */
function exportsOf(ts, statement) {
  const { exportClause, moduleSpecifier, isTypeOnly } = statement;
  if (exportClause && ts.isNamespaceExport(exportClause))
    return [{ text: statement.getText(), names: [exportClause.name.text], isNamespace: true }];
  const isDoor = ts.isExportDeclaration(statement) && moduleSpecifier && exportClause?.elements;
  if (!isDoor) return [{ text: statement.getText(), names: namesOf(ts, statement) }];
  return exportClause.elements.map((one) => ({
    text: `export ${isTypeOnly ? 'type ' : ''}{ ${one.getText()} } from ${moduleSpecifier.getText()};`,
    names: [one.name.text],
  }));
}

/** Returns the names that a statement declares or imports; none for exports of other files and for global declarations. */
function namesOf(ts, statement) {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  if (ts.isImportDeclaration(statement)) {
    const { name, namedBindings } = statement.importClause ?? {};
    const bound = namedBindings === undefined ? [] : (namedBindings.elements ?? [namedBindings]);
    return [name, ...bound.map((one) => one.name)].flatMap((one) => one?.getText() ?? []);
  }
  const isNamed =
    ts.isFunctionDeclaration(statement) ||
    ts.isInterfaceDeclaration(statement) ||
    ts.isTypeAliasDeclaration(statement) ||
    ts.isClassDeclaration(statement);
  return isNamed ? [statement.name.getText()] : [];
}
