import assert from 'node:assert/strict';
import { test } from 'node:test';
import ts from 'typescript';
import { readFiles } from '../project/sources';

/** Returns the uses of imported values in functions that a call of `inRanks` sends to ranks as source code. */
function importsInShipped(name: string, text: string): string[] {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true);
  const imported = new Set<string>();
  const found: string[] = [];
  for (const statement of file.statements) {
    const clause = ts.isImportDeclaration(statement) ? statement.importClause : undefined;
    const bindings = clause?.namedBindings;
    if (clause === undefined || clause.isTypeOnly || bindings === undefined || !ts.isNamedImports(bindings))
      continue;
    for (const element of bindings.elements) if (!element.isTypeOnly) imported.add(element.name.text);
  }
  const look = (node: ts.Node): void => {
    if (ts.isTypeNode(node)) return;
    const isName =
      ts.isIdentifier(node) && !(ts.isPropertyAccessExpression(node.parent) && node.parent.name === node);
    if (isName && imported.has(node.text)) {
      const { line } = file.getLineAndCharacterOfPosition(node.getStart());
      found.push(`${name}:${line + 1} ${node.text}`);
    }
    node.forEachChild(look);
  };
  const visit = (node: ts.Node): void => {
    const isShipping =
      ts.isCallExpression(node) &&
      ts.isPropertyAccessExpression(node.expression) &&
      node.expression.name.text === 'inRanks';
    if (isShipping) for (const argument of node.arguments) if (ts.isArrowFunction(argument)) look(argument);
    node.forEachChild(visit);
  };
  visit(file);
  return found;
}

test('functions of experiments, which run in ranks, use no imports of their file', () => {
  const found = [...readFiles(['src/claims'], '.ts')].flatMap(([path, text]) => importsInShipped(path, text));
  assert.deepEqual(found, []);
});

test('an imported value in such a function is found, and a type is not', () => {
  const text = `import { median, type Scope } from '../core';
lab.inRanks(place, ({ tf }: Scope) => median([tf.x.median]));
median([]);`;
  assert.deepEqual(importsInShipped('a.ts', text), ['a.ts:2 median']);
});
