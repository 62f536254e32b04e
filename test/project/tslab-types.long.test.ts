import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type * as typescript from 'typescript';
import { ROOT } from './sources';

// tslab checks cells with a TypeScript of its own, older than ours.
const ts: typeof typescript = require('@tslab/typescript-for-tslab');

const ENTRIES = ['index', 'rank'].map((name) => join(ROOT, 'build', 'src', `${name}.d.ts`));

test(`tslab's TypeScript ${ts.version} reads the declarations without an error`, () => {
  const program = ts.createProgram(ENTRIES, {
    module: ts.ModuleKind.CommonJS,
    moduleResolution: 2 satisfies typescript.ModuleResolutionKind,
    target: ts.ScriptTarget.ES2022,
    // WebAssembly is declared with the DOM; tslab, which has none, leaves such names alone.
    lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
    typeRoots: [join(ROOT, 'node_modules', '@types')],
    esModuleInterop: true,
    resolveJsonModule: true,
    strict: true,
    noEmit: true,
  });
  const ours = program
    .getSourceFiles()
    .filter(({ fileName }) => fileName.startsWith(join(ROOT, 'build', 'src')));
  assert.ok(ours.length > 10, `only ${ours.length} files of ours were read`);
  const complaints = ours.flatMap((file) => [
    ...program.getSyntacticDiagnostics(file),
    ...program.getSemanticDiagnostics(file),
  ]);
  const said = complaints.map(
    ({ file, start, messageText }) =>
      `${file?.fileName}:${file && start !== undefined ? file.getLineAndCharacterOfPosition(start).line + 1 : 0} ` +
      ts.flattenDiagnosticMessageText(messageText, ' '),
  );
  assert.deepEqual(said, []);
});
