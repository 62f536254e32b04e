import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { JupyterClient } from '../jupyter-client';
import { DebugClient } from './debug-client';

const CODE = `%%ranks
const x = tf.ones([2, 2]).mul(rank + 1);
const y = x.add(1);
const z = dist.allReduce(y);
z`;

let client: JupyterClient;
let debug: DebugClient;

before(async () => {
  client = await JupyterClient.start();
  debug = new DebugClient(client);
  await client.execute("import * as sl from 'shardlab'; const job = await sl.launch({ ranks: 2 });");
  await debug.attach();
});

after(() => client.stop());

describe('the debugger of ranks', () => {
  it('stops one rank, shows its tensors, and lets it step and continue', async () => {
    await debug.breakAt(CODE, 4);
    const running = client.execute(CODE);
    const { threadId, description } = await debug.next('stopped');
    assert.match(description, /^rank [01] stopped in In\[\d+\]$/);
    const rank = Number(/\d/.exec(description)?.[0]);
    const { x, y } = await debug.variables(threadId);
    const values = (value: number): string => `float32[2, 2] ${Array(4).fill(value).join(', ')}`;
    assert.deepEqual([x, y], [values(rank + 1), values(rank + 2)]);
    await debug.request('next', { threadId });
    await debug.next('stopped');
    assert.match(String(await debug.stack(threadId)), new RegExp(`\\(rank ${rank}\\) 5$`));
    await debug.request('continue', { threadId });
    assert.equal((await running).reply.content.status, 'ok');
  });

  it('stops the rank that a condition names, and the note of the others says where it is stopped', async () => {
    await debug.breakAt(CODE, [4, 'rank === 1']);
    const running = client.execute(CODE);
    const { threadId, description } = await debug.next('stopped');
    assert.match(description, /^rank 1 stopped/);
    const note = await client.until(({ content }) =>
      /by the debugger/.test(JSON.stringify(content.data ?? '')),
    );
    assert.match(
      JSON.stringify(note.content),
      /rank 0 waits in allReduce #\d+ \(cell \d+, line 4\) for rank 1, which is stopped by the debugger at cell \d+, line 4/,
    );
    await client.request('interrupt_request', {}, 'control');
    assert.match(String((await running).reply.content.ename), /INTERRUPTED/);
    await debug.breakAt(CODE);
    assert.equal((await client.execute('%%ranks\ny.dataSync()[0]')).reply.content.status, 'ok');
    assert.ok(threadId > 1);
  });
});
