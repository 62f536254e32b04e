import ts from 'typescript';
import type { DeclaredName } from './protocol';

/** Returns the types of names in the scope of a file, as texts; `cells` has the number of the cell that declared each name. */
export function declaredNames(
  program: ts.Program,
  file: ts.SourceFile,
  cells: ReadonlyMap<string, number>,
): readonly DeclaredName[] {
  const checker = program.getTypeChecker();
  const symbols = checker.getSymbolsInScope(
    file,
    ts.SymbolFlags.Value | ts.SymbolFlags.Type | ts.SymbolFlags.Alias,
  );
  return symbols
    .flatMap((symbol) => {
      const cell = cells.get(symbol.name);
      return cell === undefined ? [] : [{ name: symbol.name, cell, type: typeOf(symbol, file, checker) }];
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function typeOf(symbol: ts.Symbol, file: ts.SourceFile, checker: ts.TypeChecker): string {
  const target = (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : checker.getAliasedSymbol(symbol);
  if ((target.flags & ts.SymbolFlags.Class) !== 0) return 'class';
  if ((target.flags & ts.SymbolFlags.Enum) !== 0) return 'enum';
  if ((target.flags & ts.SymbolFlags.ValueModule) !== 0) return 'module';
  if ((target.flags & ts.SymbolFlags.Value) === 0) return 'type';
  const type = checker.getTypeOfSymbolAtLocation(symbol, file);
  return checker.typeToString(type, file).replace(/import\("[^"]*"\)\./g, '');
}
