import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { root } from '../places.mjs';
import { codeOf } from './declarations.mjs';
import { foldersOf } from './graph.mjs';
import { isSource } from './sources.mjs';

/** Returns the files of the work tree that git does not ignore, deleted ones too; undefined: this is no git repository. */
export function repositoryFiles() {
  return lines(['ls-files', '--cached', '--others', '--exclude-standard']);
}

/** Returns the commit from which the work tree and `ref` went apart; undefined if git does not know the ref. */
export function baseOf(ref) {
  return git(['merge-base', ref, 'HEAD'])?.trim();
}

/** Returns the files that differ between a commit and the work tree. */
export function changedFiles(commit) {
  const changed = lines(['diff', '--name-only', '--no-renames', commit]) ?? [];
  const added = lines(['ls-files', '--others', '--exclude-standard']) ?? [];
  return [...new Set([...changed, ...added])].sort();
}

/** Returns a file's text at `ref`; empty if it did not exist. */
export function textAt(ref, path) {
  return git(['show', `${ref}:${path}`]) ?? '';
}

/** Returns a file's text in the work tree; empty if it does not exist. */
export function textHere(path) {
  return existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : '';
}

function lines(args) {
  return git([...args, '-z'])
    ?.split('\0')
    .filter(Boolean);
}

function git(args) {
  try {
    return execFileSync('git', args, {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 2 ** 30,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  } catch {
    return undefined;
  }
}

/**
 * Returns the declarations of the graph that a change of a file affects; undefined: what reads the file is not known. `before`
 * and `after` are the file's texts.
 */
export function changedDeclarations(graph, path, before, after) {
  if (!isSource(path)) return readersOfData(graph, path);
  const [old, now] = [codeOf(path, before), codeOf(path, after)];
  const names = graph.file(path)?.names ?? new Map();
  const changed = [...new Set([...Object.keys(old), ...Object.keys(now)])].filter(
    (name) => old[name] !== now[name],
  );
  // A method that was removed changes its class: calls may reach the method of a base.
  const own = changed.flatMap((name) => names.get(name) ?? names.get(name.split('.')[0]) ?? []);
  return [...new Set([...own, ...textReaders(graph, path)])];
}

/** The declarations of tests that read a source as text, because they name a folder above it. */
function textReaders(graph, path) {
  const folders = new Set(foldersOf(path));
  return declarationsIn(graph, (file) => file.path.startsWith('test/')).filter((declaration) =>
    graph.linksOf(declaration).data.some((each) => folders.has(each)),
  );
}

/** The declarations that name a file of data, or a folder above it; undefined if all of them name only `test` or `src`. */
function readersOfData(graph, changed) {
  // The build makes kernels.wasm beside the folder of its AssemblyScript.
  const path = changed.replace(/\/assembly\/.*$/, '/kernels.wasm');
  const places = new Set([path, ...foldersOf(path)]);
  const name = basename(path);
  // A script that recorded values has the values' name.
  const stem = path.startsWith('test/data/') ? name.replace(/\.\w+$/, '.') : undefined;
  const isNamed = (text) => {
    const last = text?.slice(text.lastIndexOf('/') + 1);
    return last === name || (stem !== undefined && last?.startsWith(stem));
  };
  const all = declarationsIn(graph, () => true);
  const near = all.filter((declaration) => {
    const named = graph.linksOf(declaration).data.filter((each) => places.has(each));
    return (
      named.some((each) => !SOURCES.has(each)) || declaration.texts?.some((list) => isNamed(list.at(-1)))
    );
  });
  if (near.length === 0) return undefined;
  const far = all.filter((declaration) => graph.linksOf(declaration).data.some((each) => places.has(each)));
  return [...new Set([...near, ...far])];
}

/** Folders whose readers look at all files, for example at their words. */
const SOURCES = new Set(['src', 'kernel', 'test', 'scripts']);

function declarationsIn(graph, isWanted) {
  return graph.files.filter(isWanted).flatMap((file) => [...file.names.values()]);
}
