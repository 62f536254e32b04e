import ts from 'typescript';
import { bindingNames, varNames } from './vars';

/** How a declared name may be used. This kind determines how the name is declared for later cells. */
export type NameKind = 'const' | 'let' | 'value-and-type' | 'type';

/** The names that a cell declares at its top level, and all names that the cell mentions. */
export interface Outline {
  readonly declared: ReadonlyMap<string, NameKind>;
  readonly mentioned: ReadonlySet<string>;
  /** The declared names that the cell's own text exports. */
  readonly exported: ReadonlySet<string>;
  /** Whether the cell imports anything. */
  readonly loadsPackages: boolean;
}

/** Reads a cell's names from its syntax tree, without types; what a statement declares that `isLocal` is not the cell's own. */
export function outlineOf(file: ts.SourceFile, isLocal = (_: ts.Statement): boolean => false): Outline {
  const declared = new Map<string, NameKind>();
  const exported = new Set<string>();
  const mentioned = new Set<string>();
  for (const statement of file.statements) {
    if (isLocal(statement)) continue;
    const modifiers = ts.canHaveModifiers(statement) ? ts.getModifiers(statement) : undefined;
    const isExported = modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true;
    for (const { name, kind } of declaredNames(statement)) {
      const before = declared.get(name) ?? kind;
      declared.set(name, before === kind ? kind : 'value-and-type');
      if (isExported) exported.add(name);
    }
  }
  for (const name of varNames(file)) if (!declared.has(name)) declared.set(name, 'let');
  const visit = (node: ts.Node): void => {
    // A string may be the name of a variable, as in job.get('losses').
    if (ts.isIdentifier(node) || ts.isStringLiteralLike(node)) mentioned.add(node.text);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return { declared, mentioned, exported, loadsPackages: file.statements.some(ts.isImportDeclaration) };
}

interface Declared {
  readonly name: string;
  readonly kind: NameKind;
}

function declaredNames(statement: ts.Statement): Declared[] {
  if (ts.isVariableStatement(statement)) return variableNames(statement.declarationList);
  if (ts.isFunctionDeclaration(statement)) return named(statement.name, 'const');
  if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) {
    return named(statement.name, 'type');
  }
  if (ts.isClassDeclaration(statement) || ts.isEnumDeclaration(statement)) {
    return named(statement.name, 'value-and-type');
  }
  if (ts.isModuleDeclaration(statement) && ts.isIdentifier(statement.name)) {
    return named(statement.name, 'value-and-type');
  }
  if (ts.isImportDeclaration(statement)) return importNames(statement);
  return [];
}

function named(name: ts.Identifier | undefined, kind: NameKind): Declared[] {
  return name === undefined ? [] : [{ name: name.text, kind }];
}

function variableNames(list: ts.VariableDeclarationList): Declared[] {
  const kind = (list.flags & ts.NodeFlags.BlockScoped) === ts.NodeFlags.Const ? 'const' : 'let';
  return list.declarations.flatMap(({ name }) => bindingNames(name).map((text) => ({ name: text, kind })));
}

function importNames({ importClause }: ts.ImportDeclaration): Declared[] {
  if (importClause === undefined) return [];
  const { name, namedBindings } = importClause;
  const first = named(name, 'value-and-type');
  if (namedBindings === undefined) return first;
  if (ts.isNamespaceImport(namedBindings)) return [...first, ...named(namedBindings.name, 'value-and-type')];
  return [...first, ...namedBindings.elements.flatMap((element) => named(element.name, 'value-and-type'))];
}
