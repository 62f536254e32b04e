import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { contents, JupyterClient } from '../jupyter-client';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
  await client.execute(`
    import * as sl from 'shardlab';
    const job = await sl.launch({ ranks: 2 });
    const run = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });
  `);
});

after(() => client.stop());

test('live curves of loss and memory are drawn at most five times a second, and stay as a picture', async () => {
  const start = performance.now();
  const exchange = await client.execute('await run.step(150, { live: true })');
  const seconds = (performance.now() - start) / 1000;
  const updates = contents(exchange, 'update_display_data');
  assert.ok(updates.length >= 2, `${updates.length} updates`);
  assert.ok(updates.length <= 5 * seconds + 2, `${updates.length} updates in ${seconds} s`);
  const middle = Object(updates.at(-2)?.data);
  assert.match(String(middle['text/html']), /peak, MB[\s\S]*<\/svg>/);
  const last = Object(updates.at(-1)?.data);
  assert.deepEqual(Object.keys(last).toSorted(), ['image/png', 'text/html', 'text/plain']);
  assert.match(String(last['text/plain']), /^step 150\/150[\s\S]*peakBytes/);
});
