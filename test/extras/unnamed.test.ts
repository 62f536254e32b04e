import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as ts from 'typescript';
import { DOCUMENTED } from '../../src/programs/registry/documented';
import { programs } from '../../src/programs/registry/registry';
import { ROOT, readSources } from '../project/sources';

const EXTRAS = programs().filter((program) => !DOCUMENTED.includes(program));

/** The names of extras: of the programs, their tables, commands and targets. */
const NAMES: ReadonlySet<string> = new Set(
  EXTRAS.flatMap(({ name, keys, commands = [], calls, write = {} }) => [
    name,
    ...keys.map((dialect) => dialect.name),
    ...commands.flatMap(({ words }) => words.slice(0, 1)),
    ...(calls === undefined ? [] : [calls.module, ...Object.keys(calls.functions)]),
    ...Object.keys(write),
  ]),
);

/** Names as they are part of identifiers and patterns. */
const WORDS: ReadonlySet<string> = new Set(
  [...NAMES].map((name) => name.toLowerCase().replaceAll(/\W/g, '')),
);

/** Tables of published runs, which are named by who published them. */
const MEASURED = 'src/planner/measured/';

test('each folder of src/extras registers a program', () => {
  const entries = readdirSync(join(ROOT, 'src', 'extras'), { withFileTypes: true });
  assert.equal(EXTRAS.length, entries.filter((entry) => entry.isDirectory()).length);
  assert.ok(EXTRAS.length > 0);
});

test('no code outside of src/extras names a program of it: prose of messages and sources of formulas may', () => {
  const named = [...readSources('src', 'kernel')]
    .filter(([path]) => !path.startsWith('src/extras/') && !path.startsWith(MEASURED))
    .flatMap(([path, text]) => namesIn(text).map((name) => `${path}: ${name}`));
  assert.deepEqual(named, []);
});

test('the help of the command loads no extras, and the help of an export does', () => {
  for (const [isLoaded, ...args] of [
    [false, '--help'],
    [true, 'export', '--help'],
  ] as const) {
    const main = join(ROOT, 'build', 'src', 'cli', 'main.js');
    const code = `process.argv = [process.argv[0], '', ...${JSON.stringify(args)}];
      const extras = () => Object.keys(require.cache).filter((path) => /src.extras/.test(path));
      process.on('exit', () => console.error(extras().length));
      require(${JSON.stringify(main)});`;
    const { stderr } = spawnSync(process.execPath, ['-e', code], { encoding: 'utf8' });
    assert.equal(Number(stderr) > 0, isLoaded, `${args.join(' ')}: ${stderr}`);
  }
});

test('a name is found in texts, identifiers and patterns, and not in prose and comments', () => {
  const text =
    "const isTrl = /axolotl[./]cli/; // TRL\nf('torchtitan', TORCHTITAN.keys, 'TRL continues from there');";
  assert.deepEqual(namesIn(text), ['isTrl', '/axolotl[./]cli/', 'torchtitan', 'TORCHTITAN']);
});

/** The texts, identifiers and patterns of a source that name an extra. */
function namesIn(text: string): readonly string[] {
  const source = ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest, false);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node) && NAMES.has(node.text)) found.push(node.text);
    if (ts.isIdentifier(node) && isNamed(node.text)) found.push(node.text);
    if (ts.isRegularExpressionLiteral(node) && isNamed(node.text)) found.push(node.text);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** Whether one of the words of an identifier or a pattern, or several words after each other, are the name of an extra. */
function isNamed(text: string): boolean {
  const words = text
    .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z\d]+/)
    .filter((word) => word !== '');
  return words.some((_, start) => words.some((_, end) => WORDS.has(words.slice(start, end + 1).join(''))));
}
