import ts from 'typescript';
import { nameInCells } from '../../src/cell';
import { at, hasOwnVars } from './vars';

const { factory } = ts;

/**
 * Returns the transformer that renames the cells' own variables among `names`, of this cell or of an earlier cell; see
 * [Note: shared names]. Other variables of the same name, such as a function's parameter, keep their names.
 */
export function sharedNamesTransformer(
  checker: ts.TypeChecker,
  cell: ts.SourceFile,
  names: ReadonlySet<string>,
): ts.TransformerFactory<ts.SourceFile> {
  const isOwn = (symbol: ts.Symbol | undefined): boolean =>
    symbol?.declarations?.some((declaration) => isTopLevel(declaration, cell)) === true;
  const isRenamed = (name: ts.Node | undefined): name is ts.Identifier => {
    if (name === undefined || !ts.isIdentifier(name) || !names.has(name.text)) return false;
    const written = ts.getOriginalNode(name);
    if (written.parent === undefined) return false;
    return isOwn(
      ts.isShorthandPropertyAssignment(written.parent)
        ? checker.getShorthandAssignmentValueSymbol(written.parent)
        : checker.getSymbolAtLocation(written),
    );
  };
  return (context) => (file) => {
    const visit = (node: ts.Node): ts.Node => {
      if (isRenamed(node)) return at(node, factory.createIdentifier(nameInCells(node.text)));
      return ts.visitEachChild(withKey(node, isRenamed), visit, context);
    };
    return ts.visitEachChild(file, visit, context);
  };
}

/** Returns the node with its key written out, if one name is both the key and the name of a renamed variable: `{ process }`. */
function withKey(node: ts.Node, isRenamed: (name: ts.Node) => boolean): ts.Node {
  if (ts.isShorthandPropertyAssignment(node) && isRenamed(node.name)) {
    const { name, objectAssignmentInitializer: otherwise } = node;
    const value = otherwise === undefined ? name : factory.createAssignment(name, otherwise);
    return at(node, factory.createPropertyAssignment(keyOf(name), value));
  }
  if (ts.isBindingElement(node) && isKeyless(node) && isRenamed(node.name)) {
    const { dotDotDotToken, name, initializer } = node;
    return factory.updateBindingElement(
      node,
      dotDotDotToken,
      keyOf(name as ts.Identifier),
      name,
      initializer,
    );
  }
  if (ts.isImportSpecifier(node) && node.propertyName === undefined && isRenamed(node.name))
    return factory.updateImportSpecifier(node, node.isTypeOnly, keyOf(node.name), node.name);
  return node;
}

/** A key has no original in the cell, so that it is never renamed. */
function keyOf({ text }: ts.Identifier): ts.Identifier {
  return factory.createIdentifier(text);
}

function isKeyless({ parent, propertyName, dotDotDotToken }: ts.BindingElement): boolean {
  return ts.isObjectBindingPattern(parent) && propertyName === undefined && dotDotDotToken === undefined;
}

/** Whether a declaration is at the top level of the cell; `var` in a block is, too. */
function isTopLevel(declaration: ts.Declaration, cell: ts.SourceFile): boolean {
  if (declaration.getSourceFile() !== cell) return false;
  let node: ts.Node = declaration;
  while (ts.isBindingElement(node) || ts.isBindingName(node)) node = node.parent;
  if (ts.isVariableDeclaration(node)) {
    const list = node.parent;
    if (!ts.isVariableDeclarationList(list)) return false; // the variable of a catch clause
    if ((list.flags & ts.NodeFlags.BlockScoped) !== 0)
      return ts.isVariableStatement(list.parent) && list.parent.parent === cell;
    for (let outer: ts.Node = list; outer !== cell; outer = outer.parent) if (hasOwnVars(outer)) return false;
    return true;
  }
  while (
    ts.isImportSpecifier(node) ||
    ts.isNamespaceImport(node) ||
    ts.isNamedImports(node) ||
    ts.isImportClause(node)
  )
    node = node.parent;
  return node.parent === cell;
}
