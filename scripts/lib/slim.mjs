import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { filesBelow, root } from './places.mjs';
import { withPlainTypes } from './plain-types.mjs';

/**
 * Reduces the build to what the package ships: scripts without comments, data without spaces, and only the declarations that
 * the package's exports import. Line numbers do not change, so that source maps are still right.
 */
export function slimBuild(build, folders) {
  keepPublicTypes(build, folders);
  for (const file of folders.flatMap((folder) => filesBelow(join(build, folder)))) {
    const slim = file.endsWith('.js') ? withoutComments : file.endsWith('.json') ? withoutSpaces : undefined;
    if (slim === undefined) continue;
    const text = readFileSync(file, 'utf8');
    const slimmed = slim(text);
    if (slimmed !== text) writeFileSync(file, slimmed);
  }
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
  const wanted = new Map();
  for (const file of todo) {
    if (wanted.has(file)) continue;
    const text = readFileSync(file, 'utf8');
    wanted.set(file, text);
    const imported = text.matchAll(/(?:from |import\()["'](\.[^"']*)["']/g);
    for (const [, path] of imported) {
      const target = `${join(dirname(file), path.replace(/\.js$/, ''))}.d.ts`;
      if (existsSync(target)) todo.push(target);
    }
  }
  for (const file of folders.flatMap((folder) => filesBelow(join(build, folder)))) {
    if (file.endsWith('.d.ts') && !wanted.has(join(all, relative(build, file)))) rmSync(file);
  }
  for (const [file, text] of withPlainTypes(wanted)) {
    const target = join(build, relative(all, file));
    if (existsSync(target) && readFileSync(target, 'utf8') === text) continue;
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text);
  }
}

function withoutSpaces(json) {
  return JSON.stringify(JSON.parse(json));
}

function withoutComments(text) {
  if (!/^\s*(\/\*|\/\/(?!# ))|\S.*?(\/\*|\/\/(?!# ))/m.test(text)) return text;
  const ts = createRequire(join(root, 'package.json'))('typescript');
  const file = ts.createSourceFile('a.js', text, ts.ScriptTarget.ESNext, false, ts.ScriptKind.JS);
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
