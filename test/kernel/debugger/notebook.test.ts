import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { JupyterClient, resultText, streamText } from '../jupyter-client';
import { DebugClient } from './debug-client';

let client: JupyterClient;
let debug: DebugClient;

before(async () => {
  client = await JupyterClient.start();
  debug = new DebugClient(client);
});

after(() => client.stop());

const SUMS = `interface Row { readonly size: number }
const rows: Row[] = [{ size: 2 }, { size: 3 }];
function total(of: readonly Row[]): number {
  let sum = 0;
  for (const row of of) {
    sum += row.size;
  }
  return sum;
}
const before = rows.length;
await new Promise((resolve) => setTimeout(resolve, 5));
const sum = total(rows);
sum`;

describe('the debugger of notebook cells', () => {
  it('is announced, and says how front ends name cells', async () => {
    const { content } = await client.request('kernel_info_request');
    assert.equal(content.debugger, true);
    const info = await debug.request('debugInfo');
    assert.equal(info.isStarted, false);
    assert.deepEqual([info.hashMethod, info.hashSeed], ['Murmur2', 3339675911]);
    const refused = await debug.send('fly');
    assert.deepEqual(
      [refused.success, refused.message],
      [false, "this kernel's debugger knows no request 'fly'"],
    );
  });

  it('stops at a line of the source, shows calls and variables, steps over an await, and continues', async () => {
    await debug.attach();
    await debug.breakAt(SUMS, 10);
    const running = client.execute(SUMS);
    const { reason, threadId } = await debug.next('stopped');
    assert.deepEqual([reason, threadId], ['breakpoint', 1]);
    assert.match(String(await debug.stack()), /^In\[\d+\] 10$/);
    assert.deepEqual((await debug.variables()).rows, '[ { size: 2 }, { size: 3 } ]');
    for (const line of [11, 12]) {
      await debug.request('next', { threadId: 1 });
      await debug.next('stopped');
      assert.match(String(await debug.stack()), new RegExp(` ${line}$`));
    }
    await debug.request('stepIn', { threadId: 1 });
    assert.equal((await debug.next('stopped')).reason, 'step');
    assert.match(String(await debug.stack()), /^total 4,In\[\d+\] 12$/);
    assert.equal((await debug.variables()).of, '[ { size: 2 }, { size: 3 } ]');
    assert.equal((await debug.evaluate('of.length + sum')).body.result, 'NaN');
    await debug.request('stepOut', { threadId: 1 });
    await debug.next('stopped');
    await debug.request('continue', { threadId: 1 });
    assert.equal(resultText(await running), '5');
  });

  it('stops in a function of an earlier cell if a condition is true', async () => {
    await debug.breakAt(SUMS, [6, 'sum > 1']);
    const running = client.execute('total([{ size: 7 }, { size: 1 }])');
    await debug.next('stopped');
    assert.match(String(await debug.stack()), /^total 6,In\[\d+\] 1$/);
    const { sum } = await debug.variables();
    assert.equal(sum, '7');
    await debug.breakAt(SUMS);
    await debug.request('continue', { threadId: 1 });
    assert.equal(resultText(await running), '8');
  });

  it('keeps the state when a stopped cell is interrupted, again and again', async () => {
    const code = 'let n = (globalThis as any).n = ((globalThis as any).n ?? 0) + 1;\nlet m = n;\nm';
    await debug.breakAt(code, 2);
    for (let i = 0; i < 5; i++) {
      const running = client.execute(code);
      await debug.next('stopped');
      await client.request('interrupt_request', {}, 'control');
      assert.equal((await running).reply.content.ename, 'ShardlabError[INTERRUPTED]');
    }
    await debug.breakAt(code);
    assert.equal(resultText(await client.execute('(globalThis as any).n')), '5');
  });

  it('stops nowhere after the session has ended', async () => {
    await debug.breakAt(SUMS, 10);
    await debug.request('disconnect');
    const exchange = await client.execute(`${SUMS}\ndebugger;\nconsole.log('through')`);
    assert.equal(streamText(exchange), 'through\n');
    assert.equal((await debug.request('debugInfo')).isStarted, false);
  });
});
