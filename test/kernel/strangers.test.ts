import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { JUPYTER_CHANNELS } from '../../kernel/front/connection';
import { seeded } from '../../src/core/random';
import { JupyterClient, resultText } from './jupyter-client';
import { sendMutants } from './mutants';
import { assertAlive, pester, sendRaw } from './strangers';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
  await client.execute('let kept = 7');
});

after(() => client.stop());

describe('a kernel whose ports are open to everybody on the host', () => {
  it('survives eight bytes on the heartbeat port', async () => {
    await sendRaw(client.port('hb'), [Buffer.from('\x01\x00\x05\x00hell', 'latin1')]);
    await assertAlive(client, 'kept', '7');
  });

  for (const channel of JUPYTER_CHANNELS) {
    it(`answers after random frames on ${channel}`, async () => {
      await pester(client.port(channel), 300, seeded(8, channel));
      await assertAlive(client, 'kept', '7');
    });
  }

  it('answers after malformed messages with valid signatures', async () => {
    await sendMutants(client, 100, seeded(9));
    await assertAlive(client, 'kept', '7');
  });

  it('runs a message once, even if it comes several times', async () => {
    const header = {
      msg_id: 'again',
      session: 's',
      username: 'u',
      date: '',
      msg_type: 'execute_request',
      version: '5.4',
    };
    const frames = client.signed([JSON.stringify(header), '{}', '{}', '{"code":"kept += 1"}']);
    for (const channel of ['shell', 'shell', 'control'] as const) await client.sendFrames(frames, channel);
    await assertAlive(client, 'kept', '8');
    assert.equal(resultText(await client.execute('kept -= 1')), '7');
  });

  it('answers a request with wrong types by an error, for every request that has a reply', async () => {
    for (const type of ['execute_request', 'complete_request', 'inspect_request', 'is_complete_request']) {
      const { content } = await client.request(type, { code: { toString: 1 } });
      assert.equal(content.status, 'error');
      assert.match(String(content.evalue), /code of the request has type object, but must be a string/);
    }
  });
});
