import { createRequire } from 'node:module';

const ts = createRequire(import.meta.url)('typescript');

/** Members that run without being named: by the language, or when a value is shown or sent. */
const ALWAYS = new Set(['constructor', 'next', 'return', 'throw', 'then', 'toJSON', 'toString', 'valueOf']);

/** `value.method.call(…)` uses the method, whereas `value.field.size` reads a property of a field. */
const CALLS = new Set(['apply', 'bind', 'call']);

/** Calls that load a file, and the file's path as an import would have it. */
const LOADS = {
  import: (path) => path,
  require: (path) => path,
  importScript: (name) => `/scripts/lib/${name}.mjs`,
  fromBuild: (path) => `/src/${path}`,
};

/**
 * Returns the declarations of a file of TypeScript or JavaScript, as plain JSON. A declaration is a top-level function, class,
 * constant, or a method of a class (with the key `Class.method`). All other statements together are the declaration `''`, which
 * runs when the file is loaded. Types are left out. Each declaration has
 *
 * - `uses`: names of this file and its imports; `paths`: `name.property` for such a name
 * - `names`: properties that it calls or passes on; `reads`: properties that it reads
 * - `modules`: files that it loads by `import(…)` or `require(…)`; `loads`: those of which it uses no export
 * - `texts`: its strings; texts that follow each other in a call are one list, because they may be parts of a path
 * - of a class, `base` (null: it is not a name) and the names of its `members`
 */
export function readDeclarations(path, text) {
  const { declarations, ...file } = parse(path, text);
  const plain = ({ nodes: _, joined: __, ...found }) =>
    Object.fromEntries(
      Object.entries(found).map(([key, value]) => [key, value instanceof Set ? [...value] : value]),
    );
  return {
    ...file,
    declarations: Object.fromEntries([...declarations].map(([key, found]) => [key, plain(found)])),
  };
}

/**
 * Returns the code of each declaration of a file, and of each re-export as `export NAME`: without comments, and with the origin
 * of the imports that it uses.
 */
export function codeOf(path, text) {
  const { declarations, imports, exports, stars, loads } = parse(path, text);
  const code = Object.fromEntries(
    [...declarations].map(([key, { nodes, uses, paths, members, base }]) => {
      const printed = nodes.map((node) =>
        printer.printNode(ts.EmitHint.Unspecified, node, node.getSourceFile()),
      );
      const names = new Set([...uses, ...[...paths].map((each) => each.split('.', 1)[0])]);
      const origins = [...names].sort().map((name) => Object.hasOwn(imports, name) && imports[name]);
      return [key, JSON.stringify([printed, origins.filter(Boolean), members, base])];
    }),
  );
  for (const [name, origin] of Object.entries(exports)) code[`export ${name}`] = JSON.stringify(origin);
  code[''] += JSON.stringify([stars, loads]);
  return code;
}

const printer = ts.createPrinter({ removeComments: true });

function parse(path, text) {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const file = { path, imports: {}, loads: [], stars: [], exports: {}, declarations: new Map() };
  const rest = [];
  for (const statement of source.statements) {
    if (ts.isImportDeclaration(statement)) readImport(file, statement);
    else if (ts.isExportDeclaration(statement)) readExport(file, statement);
    else readStatement(file.declarations, statement, rest);
  }
  file.declarations.set('', declarationOf(rest));
  return file;
}

function readImport(file, { moduleSpecifier, importClause }) {
  const from = moduleSpecifier.text;
  if (importClause === undefined) file.loads.push(from);
  if (importClause === undefined || importClause.isTypeOnly) return;
  if (importClause.name) file.imports[importClause.name.text] = { from, name: 'default' };
  const bindings = importClause.namedBindings;
  if (bindings === undefined) return;
  if (ts.isNamespaceImport(bindings)) {
    file.imports[bindings.name.text] = { from, name: '*' };
    return;
  }
  for (const { name, propertyName, isTypeOnly } of bindings.elements) {
    if (!isTypeOnly) file.imports[name.text] = { from, name: (propertyName ?? name).text };
  }
}

function readExport(file, { moduleSpecifier, exportClause, isTypeOnly }) {
  if (isTypeOnly) return;
  const from = moduleSpecifier?.text;
  if (exportClause === undefined) file.stars.push(from);
  else if (ts.isNamespaceExport(exportClause)) file.exports[exportClause.name.text] = { from, name: '*' };
  else {
    for (const { name, propertyName, isTypeOnly: isType } of exportClause.elements) {
      if (!isType) file.exports[name.text] = { from, name: (propertyName ?? name).text };
    }
  }
}

function readStatement(declarations, statement, rest) {
  if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) return;
  if (statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.DeclareKeyword)) return;
  if (ts.isFunctionDeclaration(statement) && statement.name) {
    const name = statement.name.text;
    // Overloads are further declarations of the same name.
    const nodes = [...(declarations.get(name)?.nodes ?? []), statement];
    declarations.set(name, declarationOf(nodes));
  } else if (ts.isClassDeclaration(statement) && statement.name) {
    readClass(declarations, statement);
  } else if (ts.isVariableStatement(statement)) {
    for (const variable of statement.declarationList.declarations) {
      const declaration = declarationOf([variable]);
      for (const name of namesOf(variable.name)) declarations.set(name, declaration);
    }
  } else {
    rest.push(statement);
  }
}

function namesOf(binding) {
  if (ts.isIdentifier(binding)) return [binding.text];
  return binding.elements.flatMap((element) =>
    ts.isOmittedExpression(element) ? [] : namesOf(element.name),
  );
}

function readClass(declarations, node) {
  const name = node.name.text;
  const members = new Map();
  for (const member of node.members) {
    const isMethod = ts.isMethodDeclaration(member) || ts.isAccessor(member);
    if (!isMethod || ts.isComputedPropertyName(member.name) || ALWAYS.has(member.name.text)) continue;
    members.set(member.name.text, [...(members.get(member.name.text) ?? []), member]);
  }
  const separate = new Set([...members.values()].flat());
  const clauses = node.heritageClauses ?? [];
  const head = declarationOf([...clauses, ...node.members.filter((member) => !separate.has(member))]);
  const base = clauses.find(({ token }) => token === ts.SyntaxKind.ExtendsKeyword)?.types[0]?.expression;
  const baseName = base && (ts.isIdentifier(base) ? base.text : null);
  declarations.set(name, { ...head, base: baseName, members: [...members.keys()] });
  for (const [member, nodes] of members) {
    const isRead = nodes.some(ts.isAccessor);
    declarations.set(`${name}.${member}`, { ...declarationOf(nodes), isRead });
  }
}

function declarationOf(nodes) {
  const found = {
    nodes,
    uses: new Set(),
    paths: new Set(),
    names: new Set(),
    reads: new Set(),
    modules: [],
    loads: [],
    texts: [],
    joined: new Set(),
  };
  for (const node of nodes) visit(node, found);
  return found;
}

function visit(node, found) {
  if (isType(node)) return;
  if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) return visitName(node, found);
  const text = textOf(node);
  if (text !== undefined) {
    if (!found.joined.has(node)) found.texts.push([text]);
    return;
  }
  if (ts.isCallExpression(node)) visitCall(node, found);
  ts.forEachChild(node, (child) => visit(child, found));
}

function isType(node) {
  if (ts.isHeritageClause(node)) return node.token === ts.SyntaxKind.ImplementsKeyword;
  if (ts.isExpressionWithTypeArguments(node)) return false;
  return (
    ts.isTypeNode(node) ||
    ts.isTypeParameterDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isInterfaceDeclaration(node)
  );
}

/** The text of a string, or of a template's piece; undefined for other nodes. */
function textOf(node) {
  const isPiece = ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node);
  return ts.isStringLiteralLike(node) || isPiece ? node.text : undefined;
}

function visitName(node, found) {
  const { parent, text } = node;
  if (ts.isPropertyAccessExpression(parent) && parent.name === node) {
    (isCalled(parent) ? found.names : found.reads).add(text);
  } else if (ts.isPropertyAccessExpression(parent)) {
    found.paths.add(`${text}.${parent.name.text}`);
  } else if (ts.isBindingElement(parent) && parent.initializer !== node) {
    // `const { step } = run` and `const { step: next } = run` read the property `step`.
    if (parent.propertyName === undefined || parent.propertyName === node) found.reads.add(text);
  } else if (!ts.isPropertyAssignment(parent) || parent.initializer === node) {
    found.uses.add(text);
  }
}

/** Whether the value of a call is used: that of the statement `await import('./a');` is not. */
function isUsed({ parent }) {
  return ts.isAwaitExpression(parent) ? isUsed(parent) : !ts.isExpressionStatement(parent);
}

/** Whether the property is called, or passed to a call. */
function isCalled(access) {
  const outer = access.parent;
  if (ts.isPropertyAccessExpression(outer)) return outer.expression === access && CALLS.has(outer.name.text);
  if (ts.isNonNullExpression(outer) || ts.isParenthesizedExpression(outer)) return isCalled(outer);
  return ts.isCallExpression(outer) || ts.isTaggedTemplateExpression(outer);
}

function visitCall(node, found) {
  const { expression, arguments: args } = node;
  const texts = args.map(textOf);
  const callee = expression.kind === ts.SyntaxKind.ImportKeyword ? 'import' : expression.text;
  if (Object.hasOwn(LOADS, callee ?? '') && texts[0] !== undefined)
    (isUsed(node) ? found.modules : found.loads).push(LOADS[callee](texts[0]));
  const first = texts.findIndex((text) => text !== undefined);
  if (first < 0) return;
  const after = texts.slice(first);
  const end = after.indexOf(undefined);
  const parts = end < 0 ? after : after.slice(0, end);
  const isHere = first === 1 && ts.isIdentifier(args[0]) && args[0].text === '__dirname';
  if (!isHere && parts.length === 1) return;
  // With `...parts` after it, the path is that of the caller's texts.
  if (args[first + parts.length]?.kind !== ts.SyntaxKind.SpreadElement)
    found.texts.push(isHere ? ['.', ...parts] : parts);
  for (const arg of args.slice(first, first + parts.length)) found.joined.add(arg);
}
