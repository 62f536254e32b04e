import assert from 'node:assert/strict';
import type { JupyterClient } from './jupyter-client';

/** Cells that never end. */
export const ENDLESS = [
  'while (true) {}',
  'await 1; while (true) {}',
  'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
  'await new Promise(() => {})',
  'while (true) await new Promise((done) => setTimeout(done, 1))',
];

/** Runs a cell that does not end, and interrupts it: milliseconds from the request to the cell's reply. */
export async function interruptTime(client: JupyterClient, form: string): Promise<number> {
  const running = client.execute(`console.log('started'); ${form}`);
  await client.until(({ content }) => content.text === 'started\n');
  const asked = performance.now();
  await client.request('interrupt_request', {}, 'control');
  const { reply } = await running;
  assert.equal(reply.content.ename, 'ShardlabError[INTERRUPTED]', form);
  return performance.now() - asked;
}
