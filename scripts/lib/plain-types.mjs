import { createRequire } from 'node:module';
import { join } from 'node:path';
import { root } from './places.mjs';

const SCHEMA_TYPE = /^z\.(input|output)<typeof \w+>$/;

/**
 * Returns the texts of declaration files. Each type that zod computes from a schema (z.input, z.output) is written out, and so is
 * a union that a type alias computes from a table beside such a type, because the type checker would otherwise compute it again
 * in each cell that has a config or a plan, and the package would need the declaration of the table.
 */
export function withPlainTypes(texts) {
  const computed = [...texts].filter(([, text]) => /\bz\.(input|output)</.test(text)).map(([file]) => file);
  if (computed.length === 0) return texts;
  const ts = createRequire(join(root, 'package.json'))('typescript');
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(
    { ...config, files: [], include: undefined },
    ts.sys,
    root,
  );
  const program = ts.createProgram(computed, { ...options, noEmit: true });
  const plain = computed.map((file) => [file, plainText(ts, program, program.getSourceFile(file))]);
  return new Map([...texts, ...plain]);
}

function plainText(ts, program, file) {
  const { NoTruncation, InTypeAlias, UseSingleQuotesForStringLiteralType } = ts.NodeBuilderFlags;
  const flags = NoTruncation | InTypeAlias | UseSingleQuotesForStringLiteralType;
  const checker = program.getTypeChecker();
  const printer = ts.createPrinter();
  const parts = [];
  let from = 0;
  const visit = (node) => {
    const isSchema = ts.isTypeReferenceNode(node) && SCHEMA_TYPE.test(node.getText(file));
    if (!isSchema && !isComputedUnion(ts, node)) {
      ts.forEachChild(node, visit);
      return;
    }
    const plain = checker.typeToTypeNode(checker.getTypeAtLocation(node), node, flags);
    parts.push(
      file.text.slice(from, node.getStart(file)),
      printer.printNode(ts.EmitHint.Unspecified, plain, file),
    );
    from = node.getEnd();
  };
  visit(file);
  return parts.join('') + file.text.slice(from);
}

/** Whether a node is the whole type of an alias without parameters: type Path = { [Key in keyof Table]: … }[keyof Table]. */
function isComputedUnion(ts, { kind, parent }) {
  return (
    kind === ts.SyntaxKind.IndexedAccessType &&
    ts.isTypeAliasDeclaration(parent) &&
    parent.typeParameters === undefined
  );
}
