import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPlainOutput } from '../../src/launch/outputs';

test("in a script the prints and warnings of ranks go to the script's streams, each line with its rank", (context) => {
  const written: string[] = [];
  for (const name of ['stdout', 'stderr'] as const) {
    context.mock.method(process[name], 'write', (text: string) => written.push(`${name} ${text}`) > 0);
  }
  const output = createPlainOutput();
  output.add({ kind: 'stream', name: 'stdout', text: 'one\n\ntwo\n', rank: 1, cell: undefined });
  output.add({ kind: 'stream', name: 'stderr', text: 'warning: NaN\n', rank: 0, cell: undefined });
  output.finish();
  context.mock.restoreAll();
  assert.deepEqual(written, [
    'stdout [rank 1] one\n[rank 1] \n[rank 1] two\n',
    'stderr [rank 0] warning: NaN\n',
  ]);
});
