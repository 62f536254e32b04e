import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { JupyterClient, resultText } from './jupyter-client';

const NUM_STOPS = 100;

/** Busy processes per core, beside the kernel and its ranks. */
const LOAD = 2;

/** Keeps all cores busy until the test ends. */
function loadMachine(context: TestContext): void {
  const busy: ChildProcess[] = Array.from({ length: LOAD * availableParallelism() }, () =>
    spawn(process.execPath, ['-e', 'for (;;) {}']),
  );
  context.after(() => {
    for (const child of busy) child.kill('SIGKILL');
  });
}

test(`${NUM_STOPS} stops of run.step on a loaded machine keep the run intact`, async (context) => {
  loadMachine(context);
  const client = await JupyterClient.start();
  context.after(() => client.stop());
  const begin = `import * as sl from 'shardlab';
const job = await sl.launch({ ranks: 4 });
const run = await job.train({ model: 'tiny', data: 'synthetic', parallel: { strategy: 'FULL_SHARD' } });`;
  assert.equal((await client.execute(begin)).reply.content.status, 'ok');
  let slowest = 0;
  for (let stop = 0; stop < NUM_STOPS; stop++) {
    const shown = client.until(({ header }) => header.msg_type === 'display_data');
    const ended = client.execute('await run.step(100_000)');
    await shown;
    // Longer waits, so that some stops meet the drawing of a curve.
    await delay((stop * 370) % 2000);
    const asked = performance.now();
    await client.request('interrupt_request', {}, 'control');
    const { reply, published } = await ended;
    slowest = Math.max(slowest, performance.now() - asked);
    const texts = published.map(({ content }) => content.text ?? '').join('');
    assert.match(String(reply.content.evalue), /the run is intact/, `stop ${stop}: ${texts}`);
    assert.equal(texts, '', `stop ${stop}`);
    const next = await client.execute('(await run.step()).numSteps');
    assert.equal(resultText(next), '1', `after stop ${stop}: ${JSON.stringify(next.reply.content)}`);
  }
  context.diagnostic(`the slowest stop took ${Math.round(slowest)} ms`);
});
