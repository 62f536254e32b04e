import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NotebookCompiler } from '../../kernel/compiler/notebook-compiler';
import { FRAGMENTS } from '../../src/config/fragments';
import { findInstallation } from '../../src/core/installation';

/** The names that the examples use. */
const GIVEN = `const shape = { layers: 1, dim: 8, heads: 1, vocab: 16, seq: 4 };
const model = nn.gpt(shape);
const optimizer = optim.adamW(model);
const folder: string = '.';`;

/** Code of cells whose errors only the rank reports: the type checker accepts it. */
const TOLD_AT_RUN_TIME = [
  'for (let expert of model.blocks) expert = FSDP(expert, { ignoreUnusedParameters: true });',
  'FSDP(model, { autoWrapPolicy: sizeBasedAutoWrapPolicy, checkpointWrapper: () => undefined })',
];

test("the documents' fragments type-check in cells of ranks, and the type checker reports snake_case", () => {
  const compiler = new NotebookCompiler(findInstallation());
  let cells = 0;
  const complaints = (source: string): string[] => {
    const compiled = compiler.compile({ source, namespace: 'ranks', cell: ++cells });
    if (compiled.ok) compiler.commit(compiled.declaration);
    return compiled.ok ? [] : [...compiled.error.traceback];
  };
  assert.deepEqual(complaints(GIVEN), []);
  const examples = FRAGMENTS.flatMap(({ example }) => example ?? []).filter(
    (code) => !code.startsWith('npx'),
  );
  assert.ok(examples.length > 15);
  // One cell, because each cell's type check takes half a second.
  const blocks = [...examples, ...TOLD_AT_RUN_TIME].map((code) => `{ ${code}\n}`);
  assert.deepEqual(complaints(blocks.join('\n')), [], blocks.join('\n'));
  assert.match(
    String(complaints('FSDP(model, { auto_wrap_policy: moeAutoWrapPolicy })')),
    /Did you mean to write 'autoWrapPolicy'\?/,
  );
});
