import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import ts from 'typescript';
import { importScript } from './scripts';

interface Slim {
  withShortImports(text: string): string;
}

interface LazyDoors {
  lazyDoor(text: string): string;
}

interface UsedDeclarations {
  usedDeclarations(
    texts: ReadonlyMap<string, string>,
    entries: ReadonlySet<string>,
    fileOf: (file: string, path: string) => string,
  ): ReadonlyMap<string, string>;
}

const SOURCE = `import * as esm from './esm';
import * as plain from './plain';
export const all = [esm.a, plain.b, Object.keys(esm), Object.keys(plain), 'default' in plain];
export const where = new Error('x').stack.split('\\n')[1];
`;
const compiled = (source: string): string =>
  ts.transpile(source, {
    module: ts.ModuleKind.CommonJS,
    target: ts.ScriptTarget.ES2022,
    esModuleInterop: true,
  });

/** Runs a compiled module with two others, one of which is no ES module. */
function exportsOf(code: string): Record<string, unknown> {
  const modules: Readonly<Record<string, unknown>> = {
    './esm': Object.defineProperty({ a: 1 }, '__esModule', { value: true }),
    './plain': Object.assign(() => 0, { b: 2 }),
  };
  const exports = {};
  runInNewContext(code, { exports, require: (name: string) => modules[name] });
  return exports;
}

test("the build's short form of import * gives the modules that tsc's form gives, on the same lines", async () => {
  const { withShortImports } = await importScript<Slim>('slim');
  const long = compiled(SOURCE);
  const short = withShortImports(long);
  assert.ok(short.length < long.length - 1000, `${short.length} of ${long.length} characters`);
  assert.equal(short.split('\n').length, long.split('\n').length);
  const [ours, theirs] = [exportsOf(short), exportsOf(long)];
  assert.equal(JSON.stringify(ours.all), JSON.stringify(theirs.all));
  assert.equal(ours.where, theirs.where);
});

test('a file without import *, or whose export * needs the same functions, does not change', async () => {
  const { withShortImports } = await importScript<Slim>('slim');
  for (const source of [
    'export const a = 1;',
    "import * as x from './x';\nexport * from './y';\nexport const y = x;",
  ]) {
    assert.equal(withShortImports(compiled(source)), compiled(source));
  }
});

test('a door loads the file of a namespace when the namespace is first read, and the lines keep their numbers', async () => {
  const { lazyDoor } = await importScript<LazyDoors>('lazy-doors');
  const tsc = compiled("export * as ink from './ink';\nexport { a } from './other';");
  const door = lazyDoor(tsc);
  assert.equal(door.split('\n').length, tsc.split('\n').length);
  assert.equal(lazyDoor(door), door);
  const loaded: string[] = [];
  const ink = { soft: 1 };
  const exports: Record<string, unknown> = {};
  runInNewContext(door, { exports, require: (name: string) => loaded.push(name) && ink });
  assert.deepEqual(loaded, []);
  assert.equal(exports.ink, ink);
  assert.equal(exports.ink, ink);
  assert.deepEqual(loaded, ['./ink']);
});

test('the declarations of a namespace stay only if a public declaration names the namespace', async () => {
  const { usedDeclarations } = await importScript<UsedDeclarations>('used-declarations');
  const textsOf = (type: string): ReadonlyMap<string, string> =>
    new Map([
      ['main', `import { ink } from './door';\nexport declare const a: ${type};\n`],
      ['./door', "export * as ink from './ink';\n"],
      ['./ink', 'export declare const soft: number;\n'],
    ]);
  const inkOf = (type: string) =>
    usedDeclarations(textsOf(type), new Set(['main']), (_, path) => path).get('./ink');
  assert.match(inkOf('typeof ink.soft') ?? '', /soft/);
  const unused = new Map(
    [...textsOf('number')].map(([file, text]) => [file, text.replace(/^import .*\n/, '')]),
  );
  const without = usedDeclarations(unused, new Set(['main']), (_, path) => path);
  assert.doesNotMatch(without.get('./ink') ?? '', /soft/);
});
