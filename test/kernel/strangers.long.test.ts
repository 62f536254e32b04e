import { after, before, describe, it } from 'node:test';
import { JUPYTER_CHANNELS } from '../../kernel/front/connection';
import { seeded } from '../../src/core/random';
import { JupyterClient } from './jupyter-client';
import { sendMutants } from './mutants';
import { assertAlive, pester } from './strangers';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
  await client.execute('let kept = 7');
});

after(() => client.stop());

describe('a kernel that gets messages without end', () => {
  for (const channel of JUPYTER_CHANNELS) {
    it(`answers after 10,000 random frames on ${channel}`, async () => {
      await pester(client.port(channel), 10_000, seeded(80, channel));
      await assertAlive(client, 'kept', '7');
    });
  }

  it('answers after 2,000 malformed messages with valid signatures', async () => {
    await sendMutants(client, 2000, seeded(90));
    await assertAlive(client, 'kept', '7');
  });
});
