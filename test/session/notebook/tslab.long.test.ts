import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { repositoryRoot } from '../../support/paths';

/** Cells of the quickstart in the form without magics. */
const CELLS = [
  "import * as sl from 'shardlab'",
  'const job = await sl.launch({ ranks: 2 })',
  'job',
  "await job.on('0-1').run(({ rank, dist, tf }) => { const x = tf.fill([4], rank); dist.allReduce(x); return x.arraySync(); })",
  "const run = await job.train({ model: { kind: 'gpt', layers: 1, dim: 16, heads: 2, vocab: 2048, seq: 16 }, parallel: { strategy: 'FULL_SHARD' }, data: 'typescript' })",
  'await run.step(2)',
  'String(await job.why())',
  'await job.shutdown()',
];

/** Runs cells in tslab's own converter and executor, which check types, and prints whether each succeeded. */
const PROGRAM = `
  const { createConverter } = require('tslab/dist/converter');
  const { createExecutor } = require('tslab/dist/executor');
  (async () => {
    const node = createConverter({ isJS: false });
    const executor = createExecutor(process.cwd(), { node }, console);
    for (const cell of JSON.parse(process.argv[2])) console.log('ok', await executor.execute(cell));
    process.exit(0);
  })();
`;

test('the quickstart without magics is type-checked and runs in a stock tslab', async (context) => {
  const root = repositoryRoot();
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-test-tslab-'));
  context.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'node_modules'));
  for (const name of ['tslab', '@types', '@tensorflow']) {
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  }
  symlinkSync(root, join(folder, 'node_modules', 'shardlab'));
  const program = join(folder, 'run.js');
  writeFileSync(program, PROGRAM);
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program, JSON.stringify(CELLS)], {
    cwd: folder,
  });
  assert.equal(stdout.match(/^ok true$/gm)?.length, CELLS.length, `${stdout}\n${stderr}`);
  assert.match(stdout, /rank +pid +RSS/);
  assert.match(stdout, /\[ \[ 1, 1, 1, 1 \], \[ 1, 1, 1, 1 \] \]/);
  assert.match(stdout, /step 2: loss 7\.\d+ → /);
  assert.match(stdout, /nobody waits: ranks 0-1 are idle/);
});
