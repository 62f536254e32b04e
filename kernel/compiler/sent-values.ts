import ts from 'typescript';

/** The names of the types that have the method `put`. */
const RECEIVERS: ReadonlySet<string> = new Set(['Job', 'RankSelection']);

/**
 * Returns the variables that a checked cell sends to ranks by `job.put({ X })`, and the texts of their types. The types come
 * from the call's argument, so they are known before the cell runs.
 */
export function sentValues(program: ts.Program, file: ts.SourceFile): Record<string, string> {
  const sent: Record<string, string> = {};
  if (!file.text.includes('.put(')) return sent;
  const checker = program.getTypeChecker();
  const visit = (node: ts.Node): void => {
    const values = putArgument(node, checker);
    if (values !== undefined) {
      for (const property of checker.getPropertiesOfType(checker.getTypeAtLocation(values))) {
        sent[property.name] = typeText(checker, checker.getTypeOfSymbolAtLocation(property, values));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return sent;
}

function putArgument(node: ts.Node, checker: ts.TypeChecker): ts.Expression | undefined {
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return undefined;
  const { name, expression } = node.expression;
  if (name.text !== 'put') return undefined;
  const receiver = checker.getTypeAtLocation(expression).getSymbol()?.name ?? '';
  return RECEIVERS.has(receiver) ? node.arguments[0] : undefined;
}

/** Returns a type as a text that other modules can contain. In the text, types of cells are imports from the cells' modules. */
function typeText(checker: ts.TypeChecker, type: ts.Type): string {
  const flags = ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseFullyQualifiedType;
  const text = checker.typeToString(checker.getBaseTypeOfLiteralType(type), undefined, flags);
  return text.replace(/import\("(?:[^"]*\/)?(__cell\d+)(?:\.mts)?"\)/g, 'import("./$1.mjs")');
}
