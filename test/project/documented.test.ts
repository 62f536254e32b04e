import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import * as ts from 'typescript';
import { ROOT } from './sources';

/** The names with which a user starts; each needs an example. */
const STARTS = {
  index: ['launch', 'plan', 'recommend', 'claims', 'compare', 'Job.train', 'Run.step', 'Run.memory'],
  rank: ['fullyShard'],
} as const;

const entries = Object.keys(STARTS).map((name) => join(ROOT, 'build', 'src', `${name}.d.ts`));
const program = ts.createProgram(entries, {
  module: ts.ModuleKind.Node20,
  lib: ['lib.es2023.d.ts'],
  types: ['node'],
  skipLibCheck: true,
});
const checker = program.getTypeChecker();

for (const [entry, starts] of Object.entries(STARTS)) {
  const symbols = exportsOf(join(ROOT, 'build', 'src', `${entry}.d.ts`));

  test(`every export of src/${entry}.ts has a docstring`, () => {
    assert.ok(symbols.size > 40);
    const undocumented = [...symbols].filter(([, symbol]) => !isDocumented(symbol)).map(([name]) => name);
    assert.deepEqual(undocumented, []);
  });

  test(`docstrings of the entry points of src/${entry}.ts have an example`, () => {
    const without = starts.filter((path) => {
      const [name = '', member] = path.split('.');
      const symbol = symbols.get(name);
      assert.ok(symbol !== undefined, name);
      const meant =
        member === undefined ? symbol : checker.getDeclaredTypeOfSymbol(symbol).getProperty(member);
      return !meant?.getJsDocTags(checker).some((tag) => tag.name === 'example');
    });
    assert.deepEqual(without, []);
  });
}

function exportsOf(path: string): ReadonlyMap<string, ts.Symbol> {
  const file = program.getSourceFile(path);
  const module = file && checker.getSymbolAtLocation(file);
  assert.ok(module !== undefined, path);
  const found = checker.getExportsOfModule(module).map((symbol): [string, ts.Symbol] => {
    const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
    return [symbol.name, isAlias ? checker.getAliasedSymbol(symbol) : symbol];
  });
  return new Map(found);
}

/** A namespace is a module: only its exports need docstrings. */
function isDocumented(symbol: ts.Symbol): boolean {
  return (
    (symbol.flags & ts.SymbolFlags.ValueModule) !== 0 || symbol.getDocumentationComment(checker).length > 0
  );
}
