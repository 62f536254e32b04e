import ts from 'typescript';
import { bindingNames } from './outline';

const { factory } = ts;

/** Name of the function with which cells import at run time; src/cell/evaluator.ts defines the function. */
const IMPORT_FUNCTION = '__import';

/**
 * [Note: cells as REPL code] In V8's REPL mode a name can be declared again only by the same kind of declaration. So every
 * top-level declaration becomes a `let`. Because functions are hoisted, they are assigned first. Imports become awaited calls.
 * The checker has already enforced `const`. If a cell's last statement is an expression, its value is the cell's value.
 *
 * Returns the transformer; statements after offset `end` were added by the compiler and are omitted.
 */
export function replTransformer(end: number): ts.TransformerFactory<ts.SourceFile> {
  return (context) => (file) => {
    const own = file.statements.filter(
      (statement) => !ts.isExportDeclaration(statement) && ts.getOriginalNode(statement).pos < end,
    );
    const hoisted = new Set<string>();
    const visit = nestedVisitor(context, hoisted);
    const functions: ts.Statement[] = [];
    const imports: ts.Statement[] = [];
    const rest: ts.Statement[] = [];
    for (const statement of own) {
      const inner = ts.visitEachChild(statement, visit, context);
      const place = ts.isFunctionDeclaration(inner)
        ? functions
        : ts.isImportDeclaration(inner)
          ? imports
          : rest;
      place.push(...topLevel(inner));
    }
    const last = own.at(-1);
    if (last !== undefined && !ts.isExpressionStatement(last))
      rest.push(factory.createExpressionStatement(factory.createVoidZero()));
    const names = [...hoisted].map((name) => letStatement(name, undefined));
    return factory.updateSourceFile(file, [...names, ...functions, ...imports, ...rest]);
  };
}

function topLevel(statement: ts.Statement): ts.Statement[] {
  if (ts.isVariableStatement(statement)) return [asLet(statement)];
  if (ts.isFunctionDeclaration(statement)) return functionStatement(statement);
  if (ts.isClassDeclaration(statement)) return classStatement(statement);
  if (ts.isImportDeclaration(statement)) return importStatements(statement);
  if (ts.isExportAssignment(statement))
    return [at(statement, factory.createExpressionStatement(statement.expression))];
  return [statement];
}

function at<T extends ts.Node>(origin: ts.Node, node: T): T {
  return ts.setOriginalNode(ts.setTextRange(node, origin), origin);
}

function asLet(statement: ts.VariableStatement): ts.Statement {
  const list = factory.createVariableDeclarationList(
    statement.declarationList.declarations,
    ts.NodeFlags.Let,
  );
  return at(statement, factory.createVariableStatement([], at(statement.declarationList, list)));
}

function letStatement(name: string | ts.BindingName, value: ts.Expression | undefined): ts.Statement {
  const declaration = factory.createVariableDeclaration(name, undefined, undefined, value);
  return factory.createVariableStatement(
    [],
    factory.createVariableDeclarationList([declaration], ts.NodeFlags.Let),
  );
}

function functionStatement(declaration: ts.FunctionDeclaration): ts.Statement[] {
  const { name, body } = declaration;
  if (name === undefined || body === undefined) return [];
  const modifiers = declaration.modifiers?.filter(
    (modifier): modifier is ts.AsyncKeyword => modifier.kind === ts.SyntaxKind.AsyncKeyword,
  );
  const value = factory.createFunctionExpression(
    modifiers,
    declaration.asteriskToken,
    undefined,
    undefined,
    declaration.parameters,
    undefined,
    body,
  );
  return [at(declaration, letStatement(name, at(declaration, value)))];
}

function classStatement(declaration: ts.ClassDeclaration): ts.Statement[] {
  const { name } = declaration;
  if (name === undefined) return [];
  const value = factory.createClassExpression(
    declaration.modifiers?.filter(ts.isDecorator),
    name,
    undefined,
    declaration.heritageClauses,
    declaration.members,
  );
  return [at(declaration, letStatement(name, at(declaration, value)))];
}

function importStatements(declaration: ts.ImportDeclaration): ts.Statement[] {
  const { importClause, moduleSpecifier } = declaration;
  if (importClause === undefined) {
    const load = factory.createExpressionStatement(awaitImport(moduleSpecifier, []));
    return [at(declaration, load)];
  }
  const { name, namedBindings } = importClause;
  const statements: ts.Statement[] = [];
  if (namedBindings !== undefined && ts.isNamespaceImport(namedBindings)) {
    statements.push(letStatement(namedBindings.name, awaitImport(moduleSpecifier, [])));
  }
  const elements: ts.BindingElement[] = [];
  if (name !== undefined) elements.push(bindingElement('default', name));
  if (namedBindings !== undefined && ts.isNamedImports(namedBindings)) {
    elements.push(
      ...namedBindings.elements.map((item) =>
        bindingElement((item.propertyName ?? item.name).text, item.name),
      ),
    );
  }
  if (elements.length > 0) {
    const names = elements.map(({ propertyName }) => (propertyName as ts.StringLiteral).text);
    statements.push(
      letStatement(factory.createObjectBindingPattern(elements), awaitImport(moduleSpecifier, names)),
    );
  }
  return statements.map((statement) => at(declaration, statement));
}

// The key is a string literal, because an export's name may be any string; importStatements reads the keys again.
function bindingElement(key: string, name: ts.Identifier): ts.BindingElement {
  return factory.createBindingElement(undefined, factory.createStringLiteral(key), name);
}

function awaitImport(specifier: ts.Expression, names: readonly string[]): ts.Expression {
  const list = factory.createArrayLiteralExpression(names.map((name) => factory.createStringLiteral(name)));
  const call = factory.createCallExpression(factory.createIdentifier(IMPORT_FUNCTION), undefined, [
    specifier,
    list,
  ]);
  return factory.createAwaitExpression(at(specifier, call));
}

/**
 * Changes code inside statements: dynamic imports, and `var` in blocks. Without the change, such a `var` would become a global
 * of another kind than `let`.
 */
function nestedVisitor(context: ts.TransformationContext, hoisted: Set<string>): ts.Visitor {
  const inFunctions: ts.Visitor = (node) => ts.visitEachChild(dynamicImport(node), inFunctions, context);
  const visit: ts.Visitor = (node) => {
    if (ts.isFunctionLike(node)) return inFunctions(node);
    if (ts.isVariableStatement(node) && isVar(node.declarationList)) {
      return ts.visitEachChild(assignments(node, hoisted), visit, context);
    }
    if (ts.isVariableDeclarationList(node) && isVar(node) && !ts.isVariableStatement(node.parent ?? node)) {
      const list = factory.createVariableDeclarationList(node.declarations, ts.NodeFlags.Let);
      return ts.visitEachChild(at(node, list), visit, context);
    }
    return ts.visitEachChild(dynamicImport(node), visit, context);
  };
  return visit;
}

function isVar(list: ts.VariableDeclarationList): boolean {
  return (list.flags & ts.NodeFlags.BlockScoped) === 0;
}

function assignments(statement: ts.VariableStatement, hoisted: Set<string>): ts.Statement {
  const { declarations } = statement.declarationList;
  const simple = declarations.every(({ name }) => ts.isIdentifier(name));
  if (!simple) return asLet(statement);
  for (const { name } of declarations) for (const text of bindingNames(name)) hoisted.add(text);
  const parts = declarations.flatMap(({ name, initializer }) =>
    ts.isIdentifier(name) && initializer !== undefined ? [factory.createAssignment(name, initializer)] : [],
  );
  const [first, ...rest] = parts;
  if (first === undefined) return at(statement, factory.createEmptyStatement());
  return at(
    statement,
    factory.createExpressionStatement(rest.reduce<ts.Expression>(factory.createComma, first)),
  );
}

function dynamicImport(node: ts.Node): ts.Node {
  if (!ts.isCallExpression(node) || node.expression.kind !== ts.SyntaxKind.ImportKeyword) return node;
  const callee = factory.createIdentifier(IMPORT_FUNCTION);
  return at(node, factory.updateCallExpression(node, callee, undefined, node.arguments.slice(0, 1)));
}
