import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { launchFor, resultsOf, runCell } from '../session/job-fixture';
import {
  awaitListeners,
  jobFiles,
  listenersOf,
  noStranger,
  playStranger,
  secretsOf,
} from '../support/stranger';

const SUM = 'let x = tf.fill([4], rank); dist.allReduce(x); x.arraySync()[0]';

/** Gives this process a folder for temporary files whose sockets' paths are too long, so that ranks meet on ports. */
function useLongFolder(context: TestContext): void {
  const { TMPDIR } = process.env;
  const base = mkdtempSync(join(tmpdir(), 'stranger-'));
  const long = join(base, 'x'.repeat(100));
  mkdirSync(long);
  process.env.TMPDIR = long;
  context.after(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
    rmSync(base, { recursive: true, force: true });
  });
}

for (const place of ['sockets in a folder', 'ports'] as const) {
  test(`another user who connects to all ports of a job on ${place}, and tries its files, gets nothing, and the job works`, {
    skip: noStranger,
  }, async (context) => {
    if (place === 'ports') useLongFolder(context);
    const job = await launchFor(context, { ranks: 2, ...(place === 'ports' && { transport: 'zeromq' }) });
    const pids = [process.pid, ...job.ranks.map(({ pid }) => pid)];
    // The control socket and the sockets of two ranks.
    const listeners = place === 'ports' ? await awaitListeners(context, pids, 3) : listenersOf(pids);
    if (listeners === null) return;
    if (place !== 'ports') assert.deepEqual(listeners, []);
    for (const { host } of listeners) assert.equal(host, '127.0.0.1');
    const files = jobFiles();
    assert.ok(files.length > 0);
    const { visits, read } = await playStranger(listeners, [...files, ...secretsOf(pids)]);
    assert.deepEqual(read, []);
    // zeromq greets everybody with 64 bytes; a peer that greets back learns the kind of socket.
    for (const { got } of visits) assert.ok(Buffer.from(got, 'base64').length < 200);
    assert.deepEqual(resultsOf(await runCell(job, SUM, 1)), { 0: '1', 1: '1' });
  });
}
