import { createRequire } from 'node:module';
import { join } from 'node:path';
import { root } from './places.mjs';

/**
 * Returns the texts of declaration files without declarations and imports that no other statement mentions. A name counts as
 * mentioned if any statement of any file contains it as a word, so a declaration stays if another thing has its name. All
 * declarations of `entries` stay.
 */
export function usedDeclarations(texts, entries) {
  const files = new Map([...texts].map(([file, text]) => [file, statementsOf(text)]));
  const mentions = new Map();
  const count = ({ words }, by) => {
    for (const word of words) mentions.set(word, (mentions.get(word) ?? 0) + by);
  };
  for (const statement of [...files.values()].flat()) count(statement, 1);
  let isChanged = true;
  while (isChanged) {
    isChanged = false;
    for (const [file, statements] of files) {
      if (entries.has(file)) continue;
      const kept = statements.filter((one) => isUsed(one, statements, mentions));
      for (const one of statements) if (!kept.includes(one)) count(one, -1);
      isChanged ||= kept.length < statements.length;
      files.set(file, kept);
    }
  }
  return new Map([...files].map(([file, statements]) => [file, textOf(statements, texts.get(file))]));
}

/** Whether another statement mentions a name that this statement declares or imports; statements without names stay. */
function isUsed({ names, isImport }, statements, mentions) {
  if (names.length === 0) return true;
  if (isImport) return names.some((name) => statements.some((one) => !one.isImport && one.words.has(name)));
  return names.some((name) => {
    const own = statements.filter((one) => one.names.includes(name) && one.words.has(name)).length;
    return (mentions.get(name) ?? 0) > own;
  });
}

function textOf(statements, before) {
  const text = statements.map((one) => one.text).join('');
  const isModule = /^(import|export) /m.test(text);
  return `${text.trim()}\n${isModule || !/^(import|export) /m.test(before) ? '' : 'export {};\n'}`;
}

function statementsOf(text) {
  const ts = createRequire(join(root, 'package.json'))('typescript');
  const file = ts.createSourceFile('a.d.ts', text, ts.ScriptTarget.ESNext, true);
  return file.statements.map((statement) => ({
    text: text.slice(statement.getFullStart(), statement.end),
    names: namesOf(ts, statement),
    isImport: ts.isImportDeclaration(statement),
    words: new Set(statement.getText(file).match(/[\p{ID_Start}$_][\p{ID_Continue}$]*/gu)),
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
