import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ENDLESS, interruptTime } from './interrupt-time';
import { JupyterClient } from './jupyter-client';
import { family, goneIn, NO_PROC } from './processes';

test('an interrupt ends a cell in under 100 ms', async () => {
  const client = await JupyterClient.start();
  try {
    for (const form of ENDLESS) {
      // The best of three, because other load on the machine does not count.
      const times = [];
      for (let i = 0; i < 3; i++) times.push(await interruptTime(client, form));
      assert.ok(Math.min(...times) < 100, `${form}: ${times.join(', ')} ms`);
    }
  } finally {
    await client.stop();
  }
});

test('all processes are gone 2 s after the kernel was killed while a cell loops', {
  skip: NO_PROC,
}, async () => {
  const client = await JupyterClient.start();
  await client.execute('1');
  const pids = family(client.pid);
  void client.execute('while (true) {}');
  await client.until(({ header }) => header.msg_type === 'execute_input');
  process.kill(client.pid, 'SIGKILL');
  await goneIn(pids, 2000);
  client.close();
});
