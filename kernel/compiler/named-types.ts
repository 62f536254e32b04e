import ts from 'typescript';
import type { Outline } from './outline';

/**
 * Returns the types of those variables of a checked cell whose type is a class or an interface that another file exports. A
 * type is a text that any module may contain: `import("/…/run.js").Run`. [Note: prelude] says how these texts are used.
 */
export function namedTypes(
  program: ts.Program,
  file: ts.SourceFile,
  { declared }: Pick<Outline, 'declared'>,
): Record<string, string> {
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(file);
  const typeTexts: Record<string, string> = {};
  // If a cell adds to the types of a package, later cells need the text of the cell itself.
  if (module === undefined || file.statements.some(ts.isModuleDeclaration)) return typeTexts;
  for (const exported of checker.getExportsOfModule(module)) {
    const kind = declared.get(exported.name);
    if (kind !== 'const' && kind !== 'let') continue;
    const text = importOf(checker.getTypeOfSymbol(exported), file, checker);
    if (text !== undefined) typeTexts[exported.name] = text;
  }
  return typeTexts;
}

function importOf(type: ts.Type, cell: ts.SourceFile, checker: ts.TypeChecker): string | undefined {
  if (!type.isClassOrInterface() || (type.typeParameters?.length ?? 0) > 0) return undefined;
  const { symbol } = type;
  const home = symbol.declarations?.[0]?.getSourceFile();
  // A type that a cell declares has no file on disk, and takes little time to check again.
  if (home === undefined || home === cell || home.fileName.endsWith('.mts')) return undefined;
  const module = checker.getSymbolAtLocation(home);
  const isExported =
    module !== undefined && checker.tryGetMemberInModuleExports(symbol.name, module) === symbol;
  if (!isExported) return undefined;
  const path = home.fileName.replace(/\.d\.([cm]?)ts$/, '.$1js');
  return `import(${JSON.stringify(path)}).${symbol.name}`;
}
