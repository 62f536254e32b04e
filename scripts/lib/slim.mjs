import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { lazyDoor } from './lazy-doors.mjs';
import { filesBelow, root } from './places.mjs';
import { withPlainTypes } from './plain-types.mjs';
import { usedDeclarations } from './used-declarations.mjs';

/**
 * Reduces the build to what the package ships: scripts without comments and indentation, with one short `__importStar` and lazy
 * doors, data without spaces, and only the declarations that the package's exports import, without notes for whoever changes the
 * code. Line numbers of scripts do not change, and source maps get the new columns.
 */
export function slimBuild(build, folders) {
  keepPublicTypes(build, folders);
  for (const file of [...folders, 'claims'].flatMap((folder) => filesBelow(join(build, folder)))) {
    if (DOOR.test(relative(build, file))) rewrite(file, lazyDoor);
    if (file.endsWith('.js')) rewrite(file, (text) => withDoorFiles(file, relative(build, file), text));
    if (file.endsWith('.js')) slimScript(file);
    else if (file.endsWith('.json')) rewrite(file, withoutSpaces);
  }
}

/** The script of a flat's door. */
const DOOR = /^src\/\w+\/index\.js$/;

/** Scripts that a heap snapshot holds (kernel/compiler/snapshot.ts): nothing can be loaded after it, so doors must not wait. */
const IN_SNAPSHOT = /^(kernel\/compiler|src\/cell)\//;

/**
 * Names the file of each door that a script loads, as the loader of a snapshot knows only files; scripts of the snapshot read the
 * names that they use at once.
 */
function withDoorFiles(file, path, text) {
  return text.replace(/^(const (\w+) = require\(")(\.[^"]*)("\);)$/gm, (whole, start, name, from, end) => {
    const target = join(dirname(file), from.replace(/\/index$/, ''));
    if (!existsSync(join(target, 'index.js')) || existsSync(`${target}.js`)) return whole;
    const used = new Set([...text.matchAll(new RegExp(`\\b${name}\\.(\\w+)`, 'g'))].map(([use]) => use));
    const reads = IN_SNAPSHOT.test(path) && used.size > 0 ? ` void [${[...used].join(', ')}];` : '';
    return `${start}${from.replace(/\/index$/, '')}/index${end}${reads}`;
  });
}

function rewrite(file, slim) {
  const text = readFileSync(file, 'utf8');
  const slimmed = slim(text);
  if (slimmed !== text) writeFileSync(file, slimmed);
}

function slimScript(file) {
  const text = readFileSync(file, 'utf8');
  const { slimmed, removed } = withoutIndentation(withShortImports(withoutComments(text)));
  if (slimmed === text) return;
  // The map is written first: if the build ends in between, tsc writes both files again.
  if (existsSync(`${file}.map`)) {
    const map = JSON.parse(readFileSync(`${file}.map`, 'utf8'));
    writeFileSync(`${file}.map`, JSON.stringify({ ...map, mappings: shifted(map.mappings, removed) }));
  }
  writeFileSync(file, slimmed);
}

/**
 * Writes the declarations that exports need, with plain types. tsc has written all declarations to build/types, from which they
 * are taken.
 */
function keepPublicTypes(build, folders) {
  const all = join(build, 'types');
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const todo = Object.values(exports).flatMap(({ types }) =>
    types ? [join(all, relative('build', types))] : [],
  );
  const plain = withPlainTypes(reached(todo, (file) => readFileSync(file, 'utf8')));
  const whole = [...plain].flatMap(([file, text]) =>
    [...text.matchAll(WHOLE)].map(([, path]) => imported(file, path)),
  );
  const used = usedDeclarations(plain, new Set([...todo, ...whole]), imported);
  const wanted = reached(todo, (file) => used.get(file));
  for (const file of folders.flatMap((folder) => filesBelow(join(build, folder)))) {
    if (file.endsWith('.d.ts') && !wanted.has(join(all, relative(build, file)))) rmSync(file);
  }
  for (const [file, spaced] of wanted) {
    const text = spaced.replace(NOTE, '').replace(INDENT, tabs);
    const target = join(build, relative(all, file));
    if (existsSync(target) && readFileSync(target, 'utf8') === text) continue;
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text);
  }
}

/** The functions that tsc writes into every file with `import * as`. */
const IMPORT_STAR =
  /^var __createBinding = \(this && this\.__createBinding\).*?^var __importStar = \(this && this\.__importStar\).*?^\}\)\(\);\n/ms;
/** Does the same in one line: a module of another kind becomes an object that reads the module's own names, and has it as `default`. */
const SHORT_IMPORT_STAR =
  'var __importStar = (m) => { if (m && m.__esModule) return m; const r = {}; if (m != null) for (const k of Object.getOwnPropertyNames(m)) ' +
  'if (k !== "default") Object.defineProperty(r, k, { enumerable: true, get: () => m[k] }); ' +
  'return Object.defineProperty(r, "default", { enumerable: true, value: m }); };';

/** Shortens tsc's functions for `import * as`, unless `export *` uses them too. Lines keep their numbers. */
export function withShortImports(text) {
  const [long] = IMPORT_STAR.exec(text) ?? [];
  if (long === undefined) return text;
  const rest = text.replace(long, '');
  if (/__createBinding|__setModuleDefault/.test(rest)) return text;
  return text.replace(long, () => SHORT_IMPORT_STAR + '\n'.repeat(long.split('\n').length - 1));
}

/** Returns the texts of these declaration files and of all that they import. */
function reached(entries, read) {
  const texts = new Map();
  const todo = [...entries];
  for (const file of todo) {
    if (texts.has(file)) continue;
    const text = read(file);
    texts.set(file, text);
    for (const [, path] of text.matchAll(IMPORT)) {
      const target = imported(file, path);
      if (existsSync(target)) todo.push(target);
    }
  }
  return texts;
}

const IMPORT = /(?:from |import\(|^import )["'](\.[^"']*)["']/gm;
/** An import or export of everything that a file exports, except a door's namespaces, of which only used ones stay. */
const WHOLE =
  /(?:import (?:type )?\* as \w+ from |export \* from |import\((?=["'][^"']*["']\)(?!\.)))["'](\.[^"']*)["']/g;

function imported(file, path) {
  const target = join(dirname(file), path.replace(/\.js$/, ''));
  return existsSync(`${target}.d.ts`) ? `${target}.d.ts` : join(target, 'index.d.ts');
}

function withoutSpaces(json) {
  return JSON.stringify(JSON.parse(json));
}

/** Comments, and ends of comments, that explain code to whoever changes it; whoever calls an export does not need them. */
const NOTE =
  /^[ \t]*\/\*\*?\s*(?:\* )?\[Note:(?:(?!\*\/).)*\*\/\n|\n[ \t]*\*\n[ \t]*\* \[Note:(?:(?!\*\/).)*(?=\n[ \t]*\*\/)/gms;

/** The indentation that tsc writes. */
const INDENT = /^(?: {4})+/gm;

function tabs(spaces) {
  return '\t'.repeat(spaces.length / 4);
}

/** Removes indentation, except within templates; `removed` has the number of characters that each line lost. */
function withoutIndentation(text) {
  const removed = [];
  if (text.search(INDENT) < 0) return { slimmed: text, removed };
  const { ts, file } = parsed(text);
  const inTemplate = new Set();
  const collect = (node) => {
    if (ts.isTemplateLiteralToken(node)) {
      const [first, last] = [node.getStart(file), node.getEnd()].map(
        (place) => file.getLineAndCharacterOfPosition(place).line,
      );
      for (let line = first + 1; line <= last; line++) inTemplate.add(line);
    }
    ts.forEachChild(node, collect);
  };
  collect(file);
  const lines = text.split('\n').map((line, i) => {
    const slimmed = inTemplate.has(i) ? line : line.replace(INDENT, '');
    removed.push(line.length - slimmed.length);
    return slimmed;
  });
  return { slimmed: lines.join('\n'), removed };
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/**
 * Moves the mappings of each line to the left. Only a line's first mapping has a column; the others have distances. Source: the
 * source map format (ECMA-426), whose numbers have 5 bits per digit, a sign in the last bit, and a sixth bit for "continued".
 */
function shifted(mappings, removed) {
  return mappings
    .split(';')
    .map((line, i) =>
      line.replace(/^[g-z0-9+/]*[A-Za-f]/, (digits) => encoded(decoded(digits) - (removed[i] ?? 0))),
    )
    .join(';');
}

function decoded(digits) {
  const bits = [...digits].reduceRight((value, digit) => value * 32 + (DIGITS.indexOf(digit) & 31), 0);
  return bits >> 1; // a column is not negative
}

function encoded(column) {
  let rest = Math.max(0, column) << 1;
  let digits = '';
  do {
    digits += DIGITS[(rest & 31) | (rest > 31 ? 32 : 0)];
    rest >>= 5;
  } while (rest > 0);
  return digits;
}

function parsed(text) {
  const ts = createRequire(join(root, 'package.json'))('typescript');
  return { ts, file: ts.createSourceFile('a.js', text, ts.ScriptTarget.ESNext, true, ts.ScriptKind.JS) };
}

function withoutComments(text) {
  if (!/^\s*(\/\*|\/\/(?!# ))|\S.*?(\/\*|\/\/(?!# ))/m.test(text)) return text;
  const { ts, file } = parsed(text);
  const ranges = new Map();
  const collect = (node) => {
    const children = node.getChildren(file);
    if (children.length > 0) return children.forEach(collect);
    const before = ts.getLeadingCommentRanges(text, node.getFullStart()) ?? [];
    const after = ts.getTrailingCommentRanges(text, node.getEnd()) ?? [];
    for (const { pos, end } of [...before, ...after]) ranges.set(pos, end);
  };
  collect(file);
  let bare = '';
  let from = 0;
  for (const [pos, end] of [...ranges].sort(([a], [b]) => a - b)) {
    const comment = text.slice(pos, end);
    if (comment.startsWith('//#') || pos < from) continue;
    const lines = comment.split('\n').length - 1;
    bare +=
      text.slice(from, pos).replace(/[ \t]+$/, lines > 0 || isLineEnd(text, end) ? '' : '$&') +
      '\n'.repeat(lines);
    from = end;
  }
  return bare + text.slice(from);
}

function isLineEnd(text, place) {
  return place >= text.length || text[place] === '\n';
}
