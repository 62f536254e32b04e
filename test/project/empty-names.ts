import * as ts from 'typescript';
import type { Sources } from './layers';

/** Names that say nothing about a value or a type: a noun says what it is. */
const EMPTY_NAMES: readonly string[] = [
  ...['other', 'given', 'one', 'found', 'asked', 'told', 'what', 'which', 'it', 'that', 'stuff', 'thing'],
  ...['Other', 'Given', 'Found', 'Asked', 'Told', 'Said', 'Meaning'],
];

/** A declaration with an empty name. */
export interface EmptyName {
  readonly path: string;
  readonly line: number;
  readonly name: string;
}

/** Finds declarations with empty names. A key of an object literal, and `{ key }` in a pattern, only repeat a property's name. */
export function emptyNames(sources: Sources): readonly EmptyName[] {
  // Parsing takes most of the time, so files without a possible declaration are left out.
  const possible = new RegExp(`\\b(${EMPTY_NAMES.join('|')})\\b *([?!:=,;(){<\\]]|of |in |extends )`);
  return [...sources]
    .filter(([, text]) => possible.test(text))
    .flatMap(([path, text]) => emptyNamesIn(path, text));
}

function emptyNamesIn(path: string, text: string): readonly EmptyName[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const names: EmptyName[] = [];
  const visit = (node: ts.Node): void => {
    const name = isDeclared(node) ? node.name : undefined;
    if (name !== undefined && EMPTY_NAMES.includes(name.getText(file).replace('#', ''))) {
      const { line } = file.getLineAndCharacterOfPosition(name.getStart(file));
      names.push({ path, line: line + 1, name: name.getText(file) });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return names;
}

type Declared = ts.SignatureDeclaration | ts.ClassLikeDeclaration | ts.VariableLikeDeclaration;

function isDeclared(node: ts.Node): node is Declared | ts.TypeAliasDeclaration | ts.InterfaceDeclaration {
  if (ts.isBindingElement(node)) return node.propertyName !== undefined || !isInObjectPattern(node);
  return (
    ts.isVariableDeclaration(node) ||
    ts.isParameter(node) ||
    ts.isPropertySignature(node) ||
    ts.isPropertyDeclaration(node) ||
    ts.isFunctionLike(node) ||
    ts.isClassLike(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isInterfaceDeclaration(node)
  );
}

function isInObjectPattern({ parent, dotDotDotToken }: ts.BindingElement): boolean {
  return ts.isObjectBindingPattern(parent) && dotDotDotToken === undefined;
}
