import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { contents, JupyterClient, resultText } from './jupyter-client';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
});

after(() => client.stop());

describe('the kernel', () => {
  it('answers control, completion and info while a cell computes', async () => {
    const busy = client.execute('while (true) {}');
    await client.until(({ header }) => header.msg_type === 'execute_input');
    const info = await client.request('kernel_info_request', {}, 'control');
    assert.equal(info.content.protocol_version, '5.4');
    const completion = await client.request('complete_request', { code: 'parseFl', cursor_pos: 7 });
    assert.deepEqual(completion.content.matches, ['parseFloat']);
    assert.equal((await client.request('interrupt_request', {}, 'control')).content.status, 'ok');
    assert.equal((await busy).reply.content.ename, 'ShardlabError[INTERRUPTED]');
  });

  it('aborts the queued cells after an error, and then continues', async () => {
    const all = await Promise.all(
      ['1', "throw new Error('stop')", '3', '4'].map((code) => client.execute(code)),
    );
    assert.deepEqual(
      all.map(({ reply }) => reply.content.status),
      ['ok', 'error', 'aborted', 'aborted'],
    );
    assert.equal(resultText(await client.execute('5')), '5');
    const [, after_] = await Promise.all([
      client.execute("throw new Error('go on')", { stop_on_error: false }),
      client.execute('6'),
    ]);
    assert.equal(resultText(after_), '6');
  });

  it('shows nothing of silent cells and does not count them, and evaluates user expressions', async () => {
    const before_ = (await client.execute('let shared = 7')).reply.content.execution_count;
    const silent = await client.execute('shared = 8', { silent: true });
    assert.deepEqual(
      silent.published.map(({ header }) => header.msg_type),
      ['status', 'status'],
    );
    const asked = await client.execute('', { user_expressions: { a: 'shared + 1', b: 'nothing.here' } });
    const values = JSON.parse(JSON.stringify(asked.reply.content.user_expressions));
    assert.deepEqual(values.a.data, { 'text/plain': '9' });
    assert.equal(values.b.status, 'error');
    assert.equal(asked.reply.content.execution_count, Number(before_) + 1);
  });

  it('completes names and members of earlier cells, with offsets in code points', async () => {
    await client.execute('const settings = { learningRate: 1, layers: 2 }');
    const code = "'🎲'; settings.l";
    const { content } = await client.request('complete_request', { code, cursor_pos: [...code].length });
    assert.deepEqual(content.matches, ['layers', 'learningRate']);
    assert.equal(content.cursor_end, [...code].length);
    const names = await client.request('complete_request', { code: 'setti', cursor_pos: 5 });
    assert.deepEqual(names.content.matches, ['settings']);
  });

  it('inspects names and shows help in the pager', async () => {
    const { content } = await client.request('inspect_request', {
      code: 'settings',
      cursor_pos: 3,
      detail_level: 0,
    });
    assert.match(JSON.stringify(content.data), /learningRate: number/);
    const missing = await client.request('inspect_request', {
      code: 'nope_',
      cursor_pos: 3,
      detail_level: 0,
    });
    assert.equal(missing.content.found, false);
    const page = (await client.execute('?parseInt')).reply.content.payload;
    assert.match(JSON.stringify(page), /Converts a string to an integer/);
  });

  it('returns its history by tail, range and search', async () => {
    await client.execute('let findMe = 1');
    const ask = async (content: object): Promise<unknown> =>
      (await client.request('history_request', { ...content, output: false, raw: true })).content.history;
    const tail = await ask({ hist_access_type: 'tail', n: 1 });
    assert.deepEqual(JSON.parse(JSON.stringify(tail))[0][2], 'let findMe = 1');
    const found = await ask({ hist_access_type: 'search', pattern: 'let find*', unique: true });
    assert.equal(JSON.parse(JSON.stringify(found)).length, 1);
  });

  it('asks for input, and says so if nobody can be asked', async () => {
    client.answerInput = (prompt) => `${prompt}: me`;
    assert.equal(resultText(await client.execute("await prompt('who')")), "'who: me'");
    client.answerInput = undefined;
    const { reply } = await client.execute("await prompt('who')");
    assert.match(String(reply.content.evalue), /cannot be asked/);
  });

  it('opens comms from either side and passes on their messages', async () => {
    await client.execute(
      "comms.register('echo', (comm) => { comm.onMessage = (data) => comm.send({ back: data }); });",
    );
    await client.tell('comm_open', { comm_id: 'c1', target_name: 'echo', data: {} });
    const answered = client.until(({ header }) => header.msg_type === 'comm_msg');
    await client.tell('comm_msg', { comm_id: 'c1', data: { a: 1 } });
    assert.deepEqual((await answered).content, { comm_id: 'c1', data: { back: { a: 1 } } });
    const opened = await client.execute("const own = comms.open('widget', { x: 1 })");
    assert.equal(contents(opened, 'comm_open')[0]?.target_name, 'widget');
    const info = await client.request('comm_info_request', { target_name: 'echo' });
    assert.deepEqual(info.content.comms, { c1: { target_name: 'echo' } });
    const refused = client.until(
      ({ header, content }) => header.msg_type === 'comm_close' && content.comm_id === 'c2',
    );
    await client.tell('comm_open', { comm_id: 'c2', target_name: 'unknown', data: {} });
    await refused;
  });
});

describe('the wire', () => {
  for (const options of [{ transport: 'ipc' }, { curve: true }, { transport: 'ipc', curve: true }] as const) {
    it(`works with ${JSON.stringify(options)}`, async () => {
      const other = await JupyterClient.start(options);
      try {
        assert.equal(resultText(await other.execute('40 + 2')), '42');
      } finally {
        await other.stop();
      }
    });
  }
});
