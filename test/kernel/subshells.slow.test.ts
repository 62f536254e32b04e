import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { contents, type Exchange, JupyterClient, resultText, shownText, streamText } from './jupyter-client';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
});

after(() => client.stop());

async function createSubshell(): Promise<string> {
  const { content } = await client.request('create_subshell_request', {}, 'control');
  assert.equal(content.status, 'ok');
  return String(content.subshell_id);
}

/** Begins a cell, and resolves when it runs; the exchange is in a list, because a promise of a promise is its value. */
async function begun(code: string): Promise<readonly [Promise<Exchange>]> {
  const exchange = client.execute(code);
  await client.until(({ header, content }) => header.msg_type === 'execute_input' && content.code === code);
  return [exchange];
}

describe('subshells', () => {
  it('are created, listed and deleted, and the kernel says that it has them', async () => {
    const info = await client.request('kernel_info_request');
    assert.deepEqual(info.content.supported_features, ['kernel subshells', 'debugger']);
    const [first, second] = [await createSubshell(), await createSubshell()];
    const listed = async (): Promise<unknown> =>
      (await client.request('list_subshell_request', {}, 'control')).content.subshell_id;
    assert.deepEqual(await listed(), [first, second]);
    const deleted = await client.request('delete_subshell_request', { subshell_id: first }, 'control');
    assert.equal(deleted.content.status, 'ok');
    assert.deepEqual(await listed(), [second]);
    for (const subshell_id of [first, 'none', 5]) {
      const again = await client.request('delete_subshell_request', { subshell_id }, 'control');
      assert.equal(again.content.status, 'error');
    }
    const { reply } = await client.execute('1', {}, first);
    assert.match(String(reply.content.evalue), /has no subshell '.*'; create_subshell_request creates one/);
    await client.request('delete_subshell_request', { subshell_id: second }, 'control');
  });

  it('run cells while another cell waits, share its variables, and keep outputs apart', async () => {
    const subshell = await createSubshell();
    await client.execute('let shared = 1; let release = () => {};');
    const code = `console.log('before');
await new Promise<void>((resolve) => { release = resolve; });
console.log('after'); display({ 'text/plain': 'main' }, { raw: true }); shared`;
    const [main] = await begun(code);
    const beside = await client.execute(
      `console.log('beside'); display({ 'text/plain': 'sub' }, { raw: true });
shared = 2; let own = 3; setTimeout(() => release(), 50); shared + own`,
      {},
      subshell,
    );
    assert.equal(resultText(beside), '5');
    assert.equal(streamText(beside), 'beside\n');
    assert.equal(shownText(beside), 'sub');
    const ended = await main;
    assert.equal(resultText(ended), '2');
    assert.equal(streamText(ended), 'before\nafter\n');
    assert.equal(shownText(ended), 'main');
    // Names that a subshell declares are the notebook's, and numbers are unique.
    assert.equal(resultText(await client.execute('own')), '3');
    const counts = [beside, ended].map(({ reply }) => Number(reply.content.execution_count));
    assert.equal(new Set(counts).size, 2);
  });

  it('show promises as other cells do', async () => {
    const exchange = await client.execute('Promise.resolve(3)', {}, await createSubshell());
    assert.equal(resultText(exchange), 'Promise { 3 }');
  });

  it('time their own cells', async () => {
    const subshell = await createSubshell();
    const [main] = await begun('%%time\nawait new Promise((resolve) => setTimeout(resolve, 400))');
    const beside = await client.execute('%time 1 + 1', {}, subshell);
    for (const exchange of [beside, await main])
      assert.match(streamText(exchange), /^CPU times: .*\nWall time: .*\n$/);
  });

  it('run their own cells in order, and abort only their own after an error', async () => {
    const subshell = await createSubshell();
    const [main] = await begun('await new Promise((resolve) => setTimeout(resolve, 600)); "main"');
    const codes = ['const early = 1', "throw new Error('no')", 'early'];
    const beside = await Promise.all(codes.map((code) => client.execute(code, {}, subshell)));
    assert.deepEqual(
      beside.map(({ reply }) => reply.content.status),
      ['ok', 'error', 'aborted'],
    );
    assert.equal(resultText(await main), "'main'");
  });

  it('end with the main cell when the user interrupts', async () => {
    const subshell = await createSubshell();
    const [main] = await begun('await new Promise(() => {})');
    const beside = client.execute('await new Promise(() => {}); 1', {}, subshell);
    await client.until(({ header }) => header.msg_type === 'execute_input');
    await client.request('interrupt_request', {}, 'control');
    for (const { reply } of await Promise.all([main, beside]))
      assert.equal(reply.content.ename, 'ShardlabError[INTERRUPTED]');
    assert.equal(resultText(await client.execute('1 + 1', {}, subshell)), '2');
    assert.equal(resultText(await client.execute('1 + 1')), '2');
  });

  it('answer about a job while it trains', async () => {
    await client.execute(
      "import * as sl from 'shardlab'; const job = await sl.launch({ ranks: 2 }); const run = await job.train({ model: 'tiny' }); await run.step(2);",
    );
    const subshell = await createSubshell();
    const [main] = await begun('await run.step(60); run.losses.length');
    for (const code of ['await job.status()', 'await job.why()', 'run.loss()', 'run.losses.length']) {
      const { reply } = await client.execute(code, {}, subshell);
      assert.equal(reply.content.status, 'ok', String(reply.content.evalue));
    }
    assert.ok(Number(resultText(await client.execute('run.losses.length', {}, subshell))) < 62);
    const steps = await main;
    assert.equal(resultText(steps), '62');
    assert.match(shownText(steps), /^step 62\/62/);
    await client.execute('await job.shutdown()');
  });

  it('and other control requests are answered', async () => {
    const usage = (await client.request('usage_request', {}, 'control')).content;
    assert.ok(Number(usage.kernel_memory) > 5e7 && Number(usage.cpu_count) >= 1);
    const debug = (await client.request('debug_request', { seq: 7, command: 'debugInfo' }, 'control'))
      .content;
    assert.deepEqual([debug.request_seq, debug.success], [7, true]);
    for (const channel of ['control', 'shell'] as const) {
      const { content } = await client.request('mystery_request', {}, channel);
      assert.equal(content.evalue, 'this kernel knows no mystery_request');
    }
    const sent = contents(await client.execute('1'), 'execute_result');
    assert.equal(sent.length, 1);
  });
});
