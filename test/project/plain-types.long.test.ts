import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import * as ts from 'typescript';
import { ROOT, readFiles } from './sources';

/** The declarations that the package ships; tsc's own, in which zod computes types, are in the folder `types` beside them. */
const shipped = [...readFiles(['build/src'], '.d.ts')].map(([path, text]) => ({ path, text }));
const computed = readFiles(['build/types/src'], '.d.ts');
/** The exported types that the build has written in another form; the package has not all declarations of a file. */
const written = shipped.flatMap(({ path, text }) => {
  const before = exportedTypes(path, computed.get(inTypes(path)) ?? '');
  const now = [...exportedTypes(path, text)].filter(([name, type]) => before.get(name) !== type);
  return now.map(([name]) => ({ path, name }));
});

test('cells read no type that zod computes from a schema', () => {
  const read = shipped.filter(({ text }) => /z\.(input|output)<typeof \w+>/.test(text));
  assert.deepEqual(
    read.map(({ path }) => path),
    [],
    'run npm run build',
  );
  const paths = new Set(written.map(({ path }) => path));
  for (const name of ['config/train-config', 'planner/place', 'planner/recommend-request'])
    assert.ok(paths.has(`build/src/${name}.d.ts`), name);
});

test("each written type is identical to zod's", () => {
  // 32 types of the package are rewritten; types that need no comparison are not counted.
  assert.ok(written.length > 30, `only ${written.length} types`);
  const lines = written.map(
    ({ path, name }, index) =>
      `export const same${index}: Same<${imported(path)}.${name}, ${imported(inTypes(path))}.${name}> = true;`,
  );
  const config = `${imported('build/src/config/train-config.d.ts')}.TrainConfigInput`;
  const lacking = `export const lacking: Same<${config}, Omit<${config}, 'steps'>> = true;`;
  assert.deepEqual(errorsIn([SAME, ...lines, lacking]), [
    `${lacking} Type 'true' is not assignable to type 'false'.`,
  ]);
});

/** Type parameters are assignable only if the compiler finds what they extend identical: keys, `?`, `readonly`, any. */
const SAME =
  'type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;';

/** A declaration file without comments and spaces, which the package has fewer of. */
function declared(text: string): string {
  return text.replace(/\/\*.*?\*\/|\s/gs, '');
}

function inTypes(path: string): string {
  return path.replace('build/', 'build/types/');
}

function imported(path: string): string {
  return `import('./${path.replace(/\.d\.ts$/, '')}')`;
}

/** The exported types of a declaration file that have no type parameters: their texts by name. */
function exportedTypes(path: string, text: string): ReadonlyMap<string, string> {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022);
  const types = file.statements
    .filter((node) => ts.isTypeAliasDeclaration(node) || ts.isInterfaceDeclaration(node))
    .filter((node) => node.typeParameters === undefined)
    .filter((node) => node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword));
  return new Map(types.map((node) => [node.name.text, declared(node.getText(file))]));
}

/** The lines in which the compiler, with the project's options, finds an error. */
function errorsIn(lines: readonly string[]): readonly string[] {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, ROOT);
  const path = join(ROOT, 'same-types.ts');
  const host = ts.createCompilerHost(options);
  const { getSourceFile } = host;
  host.getSourceFile = (name, ...rest) =>
    name === path ? ts.createSourceFile(path, lines.join('\n'), rest[0]) : getSourceFile(name, ...rest);
  const program = ts.createProgram([path], { ...options, noEmit: true }, host);
  const file = program.getSourceFile(path);
  const errors = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
  return errors.map(({ start = 0, messageText }) => {
    const line = file?.getLineAndCharacterOfPosition(start).line ?? 0;
    return `${lines[line]} ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
}
