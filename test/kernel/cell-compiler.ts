import assert from 'node:assert/strict';
import { NotebookCompiler } from '../../kernel/compiler/notebook-compiler';
import { findInstallation } from '../../src/core/installation';

/** One compiler for all test files of a process, because its first cell takes seconds. */
export const compiler = new NotebookCompiler(findInstallation());

let cells = 0;

/** Compiles a cell without committing what it declares. */
export function compiled(source: string, namespace: 'notebook' | 'ranks' = 'notebook') {
  return compiler.compile({ source, namespace, cell: ++cells });
}

/** Compiles a cell of the notebook and commits it. Returns the JavaScript without its map, in one line. */
export function emitted(source: string): string {
  const cell = compiled(source);
  assert.ok(cell.ok, cell.ok ? '' : cell.error.traceback.join('\n'));
  compiler.commit(cell.declaration);
  return cell.js
    .replace(/\/\/# sourceMappingURL.*/, '')
    .replace(/\s+/g, ' ')
    .trim();
}

/** Commits what a cell of ranks declares. */
export function declaredInRanks(source: string): void {
  const cell = compiled(source, 'ranks');
  assert.ok(cell.ok, cell.ok ? '' : cell.error.evalue);
  compiler.commit(cell.declaration);
}

/** The errors of a cell of the notebook. */
export function messages(source: string): string[] {
  const cell = compiled(source);
  return cell.ok ? [] : [...cell.error.traceback];
}

/** The error of a cell of ranks; '' if there is none. */
export function errorInRanks(source: string): string {
  const cell = compiled(source, 'ranks');
  return cell.ok ? '' : cell.error.evalue;
}
