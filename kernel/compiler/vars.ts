import ts from 'typescript';

const { factory } = ts;

/**
 * [Note: var in cells] In JavaScript, all `var` of a name in a script, also in blocks and loops, are one variable, which exists
 * from the script's start and may be declared again; a declaration without a value leaves the value as it is. V8's REPL mode has
 * no such variable that a later `let` could declare again. So a cell declares the names of its `var` once, at its start, as
 * `let`, with the value of an earlier cell if there is one; each `var` of the cell becomes an assignment.
 */

/** Returns the names that a cell declares with `var`, also in blocks and loops, but not in functions. */
export function varNames(file: ts.SourceFile): string[] {
  const names = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (hasOwnVars(node) || isAmbient(node)) return;
    if (ts.isVariableDeclarationList(node) && isVar(node)) {
      for (const { name } of node.declarations) for (const text of bindingNames(name)) names.add(text);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return [...names];
}

/** Whether a statement only says that a name exists: `declare var name: string`. */
function isAmbient(node: ts.Node): boolean {
  const modifiers = ts.isVariableStatement(node) ? node.modifiers : undefined;
  return modifiers?.some(({ kind }) => kind === ts.SyntaxKind.DeclareKeyword) === true;
}

/** Whether a `var` within the node belongs to the node and not to the cell. */
export function hasOwnVars(node: ts.Node): boolean {
  return ts.isFunctionLike(node) || ts.isClassStaticBlockDeclaration(node) || ts.isModuleDeclaration(node);
}

/** Returns the names that a binding pattern introduces. */
export function bindingNames(name: ts.BindingName): string[] {
  if (ts.isIdentifier(name)) return [name.text];
  return name.elements.flatMap((element) =>
    ts.isOmittedExpression(element) ? [] : bindingNames(element.name),
  );
}

/** The declaration of a variable of `var`: `let a = (() => { try { return a; } catch { } })();` */
export function hoistedVar(name: string): ts.Statement {
  const earlier = factory.createReturnStatement(factory.createIdentifier(name));
  const attempt = factory.createTryStatement(
    factory.createBlock([earlier]),
    factory.createCatchClause(undefined, factory.createBlock([])),
    undefined,
  );
  const read = factory.createArrowFunction([], [], [], undefined, undefined, factory.createBlock([attempt]));
  const call = factory.createCallExpression(factory.createParenthesizedExpression(read), [], []);
  return letStatement(name, call);
}

export function letStatement(name: string | ts.BindingName, value: ts.Expression | undefined): ts.Statement {
  const declaration = factory.createVariableDeclaration(name, undefined, undefined, value);
  return factory.createVariableStatement(
    [],
    factory.createVariableDeclarationList([declaration], ts.NodeFlags.Let),
  );
}

/** Returns the assignments in place of a statement or a loop's head that declares with `var`; other nodes unchanged. */
export function assignedVar(node: ts.Node): ts.Node {
  if (ts.isVariableStatement(node) && isUsersVar(node)) {
    const value = assignments(node.declarationList);
    return at(
      node,
      value === undefined ? factory.createEmptyStatement() : factory.createExpressionStatement(value),
    );
  }
  if (ts.isForStatement(node) && isLoopVar(node.initializer)) {
    const { initializer, condition, incrementor, statement } = node;
    return factory.updateForStatement(node, assignments(initializer), condition, incrementor, statement);
  }
  if (ts.isForInStatement(node) && isLoopVar(node.initializer))
    return factory.updateForInStatement(node, target(node.initializer), node.expression, node.statement);
  if (ts.isForOfStatement(node) && isLoopVar(node.initializer)) {
    const { awaitModifier, initializer, expression, statement } = node;
    return factory.updateForOfStatement(node, awaitModifier, target(initializer), expression, statement);
  }
  return node;
}

function isVar(list: ts.VariableDeclarationList): boolean {
  return (list.flags & ts.NodeFlags.BlockScoped) === 0;
}

/** Whether the cell's text has this `var`; TypeScript declares enums with `var` too, and these begin anew in each cell. */
function isUsersVar(statement: ts.VariableStatement): boolean {
  return isVar(statement.declarationList) && ts.isVariableStatement(ts.getOriginalNode(statement));
}

function isLoopVar(initializer: ts.ForInitializer | undefined): initializer is ts.VariableDeclarationList {
  return initializer !== undefined && ts.isVariableDeclarationList(initializer) && isVar(initializer);
}

/** Returns `a = 1, [b] = c` for `a = 1, [b] = c, d`; undefined if no variable gets a value. */
function assignments({ declarations }: ts.VariableDeclarationList): ts.Expression | undefined {
  const parts = declarations.flatMap((declaration) => {
    const { name, initializer } = declaration;
    if (initializer === undefined) return [];
    return [at(declaration, factory.createAssignment(assignable(name), initializer))];
  });
  const [first, ...rest] = parts;
  return first && rest.reduce<ts.Expression>(factory.createComma, first);
}

function target({ declarations: [first] }: ts.VariableDeclarationList): ts.Expression {
  if (first === undefined) throw new Error('a loop has one variable');
  return at(first, assignable(first.name));
}

/** Returns a binding pattern as the pattern of an assignment. */
function assignable(name: ts.BindingName): ts.Expression {
  if (ts.isIdentifier(name)) return name;
  if (ts.isArrayBindingPattern(name)) {
    const elements = name.elements.map((element) => {
      if (ts.isOmittedExpression(element)) return element;
      const place = assignable(element.name);
      if (element.dotDotDotToken !== undefined) return factory.createSpreadElement(place);
      return withDefault(place, element.initializer);
    });
    return at(name, factory.createArrayLiteralExpression(elements));
  }
  const properties = name.elements.map((element) => {
    const place = assignable(element.name);
    if (element.dotDotDotToken !== undefined) return factory.createSpreadAssignment(place);
    // A name without a key is the name of the property too.
    const key = element.propertyName ?? (element.name as ts.Identifier);
    return factory.createPropertyAssignment(key, withDefault(place, element.initializer));
  });
  return at(name, factory.createObjectLiteralExpression(properties));
}

function withDefault(place: ts.Expression, value: ts.Expression | undefined): ts.Expression {
  return value === undefined ? place : factory.createAssignment(place, value);
}

/** Gives `node` the position of `origin` in the cell. */
export function at<T extends ts.Node>(origin: ts.Node, node: T): T {
  return ts.setOriginalNode(ts.setTextRange(node, origin), origin);
}
