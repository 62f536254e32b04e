import ts from 'typescript';
import { nameInCells } from '../../src/cell';
import type { MagicCall } from './line-magics';
import { magicPieces, type Piece, timeitAround } from './magic-calls';
import { assignedVar, at, hasOwnVars, hoistedVar, letStatement, varNames } from './vars';

const { factory } = ts;

/** Name of the function with which cells import at run time; src/cell/evaluator.ts defines the function. */
const IMPORT_FUNCTION = '__import';

/** Name of the object that is `import.meta` in cells. */
const META = '__importMeta';

/**
 * [Note: cells as REPL code] In V8's REPL mode a name can be declared again only by the same kind of declaration. So every
 * top-level declaration becomes a `let`; [Note: var in cells] is about `var`. Because functions are hoisted, they are assigned
 * first. Imports become awaited calls.
 * The checker has already enforced `const`. If a cell's last statement is an expression, its value is the cell's value.
 *
 * Returns the transformer; statements after offset `end` were added by the compiler and are omitted. `calls` are the cell's line
 * magics.
 */
export function replTransformer(
  end: number,
  calls: readonly MagicCall[] = [],
): ts.TransformerFactory<ts.SourceFile> {
  return (context) => (file) => {
    const own = file.statements.filter(
      // An empty statement has no value, and would be the last one of a cell that ends in ';' and a new line.
      (statement) =>
        !ts.isExportDeclaration(statement) &&
        !ts.isEmptyStatement(statement) &&
        ts.getOriginalNode(statement).pos < end,
    );
    const visit = nestedVisitor(context);
    const origin = ts.getOriginalNode(file) as ts.SourceFile;
    const functions: ts.Statement[] = [];
    const imports: ts.Statement[] = [];
    const rest: Piece[] = [];
    const bodies = new Map<MagicCall, ts.Statement[]>();
    for (const statement of own) {
      // A statement stays a statement: only expressions become nodes of another kind.
      const inner = visit(statement) as ts.Statement;
      const start = ts.getOriginalNode(statement).getStart(origin);
      const timeit = timeitAround(start, calls);
      if (timeit !== undefined && !ts.isImportDeclaration(inner))
        bodies.set(timeit, [...(bodies.get(timeit) ?? []), inner]);
      else if (ts.isFunctionDeclaration(inner)) functions.push(...topLevel(inner));
      else if (ts.isImportDeclaration(inner)) imports.push(...topLevel(inner));
      else rest.push({ start, statements: topLevel(inner) });
    }
    const last = own.at(-1);
    const lastStart = last === undefined ? -1 : ts.getOriginalNode(last).getStart(origin);
    const pieces = [...rest, ...magicPieces(calls, bodies, lastStart)].sort((a, b) => a.start - b.start);
    const statements = pieces.flatMap((piece) => [...piece.statements]);
    const isValue =
      last === undefined || ts.isExpressionStatement(last) || calls.some(({ start }) => start > lastStart);
    if (!isValue) statements.push(factory.createExpressionStatement(factory.createVoidZero()));
    const vars = varNames(origin).map((name) => hoistedVar(nameInCells(name)));
    return factory.updateSourceFile(file, [...vars, ...functions, ...imports, ...statements]);
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

function asLet(statement: ts.VariableStatement): ts.Statement {
  const list = factory.createVariableDeclarationList(
    statement.declarationList.declarations,
    ts.NodeFlags.Let,
  );
  return at(statement, factory.createVariableStatement([], at(statement.declarationList, list)));
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
    ownName(name),
    undefined,
    declaration.parameters,
    undefined,
    body,
  );
  return [at(declaration, letStatement(name, at(declaration, value)))];
}

/** Returns the name of a function or class whose variable is renamed; undefined for others. See [Note: shared names]. */
function ownName(name: ts.Identifier): ts.Identifier | undefined {
  const { text } = ts.getOriginalNode(name) as ts.Identifier;
  return text === name.text ? undefined : factory.createIdentifier(text);
}

function classStatement(declaration: ts.ClassDeclaration): ts.Statement[] {
  const { name } = declaration;
  if (name === undefined) return [];
  const value = factory.createClassExpression(
    declaration.modifiers?.filter(ts.isDecorator),
    ownName(name) ?? name,
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

/** Changes code inside statements: `var`, and what exists only in modules (dynamic imports, `import.meta`). */
function nestedVisitor(context: ts.TransformationContext): (node: ts.Node) => ts.Node {
  const inFunctions = (node: ts.Node): ts.Node => ts.visitEachChild(moduleOnly(node), inFunctions, context);
  const visit = (node: ts.Node): ts.Node =>
    hasOwnVars(node) ? inFunctions(node) : ts.visitEachChild(moduleOnly(assignedVar(node)), visit, context);
  return visit;
}

function moduleOnly(node: ts.Node): ts.Node {
  if (ts.isMetaProperty(node) && node.keywordToken === ts.SyntaxKind.ImportKeyword)
    return at(node, factory.createIdentifier(META));
  if (!ts.isCallExpression(node) || node.expression.kind !== ts.SyntaxKind.ImportKeyword) return node;
  const callee = factory.createIdentifier(IMPORT_FUNCTION);
  return at(node, factory.updateCallExpression(node, callee, undefined, node.arguments.slice(0, 1)));
}
