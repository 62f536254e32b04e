import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { ROOT } from '../project/sources';
import { allBlocks } from './blocks';
import { fateOf, PAGES } from './table';

const run = promisify(execFile);
/** In a block of commands, `shardlab` and `npx shardlab` are the command of this build. */
const SHARDLAB = `shardlab() { '${process.execPath}' '${join(ROOT, 'build', 'src', 'cli', 'main.js')}' "$@"; }
npx() { [ "$1" = shardlab ] && "$@"; }`;

for (const block of allBlocks().filter((block) => fateOf(block) === 'command')) {
  test(`the commands of ${block.page} end with status 0`, async (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-page-'));
    context.after(() => rmSync(folder, { recursive: true, force: true }));
    PAGES[block.page]?.files?.(folder);
    const { stdout } = await run('bash', ['-e', '-c', `${SHARDLAB}\n${block.code}`], { cwd: folder });
    assert.notEqual(stdout, '');
  });
}
