import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import { Push } from 'zeromq';
import { type Letter, Mailbox } from '../../../src/wire/transport/mailbox';

const KEY = '1||1|0|1';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  await once(server.close(), 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function pair(context: TestContext) {
  const addresses = [`tcp://127.0.0.1:${await freePort()}`, `tcp://127.0.0.1:${await freePort()}`];
  const warnings: string[] = [];
  const warn = (message: string): void => void warnings.push(message);
  const [mine, other] = await Promise.all([
    Mailbox.open({ rank: 0, addresses, token: 'secret', warn }),
    Mailbox.open({ rank: 1, addresses, token: 'secret', warn }),
  ]);
  const stranger = new Push({ linger: 0 });
  stranger.connect(addresses[0] ?? '');
  context.after(async () => {
    stranger.close();
    await Promise.all([mine.close(), other.close()]);
  });
  return { mine, other, stranger, warnings };
}

function letter(text: string): Letter {
  return { record: Buffer.from('record'), payload: Buffer.from(text) };
}

describe("a rank's mailbox", () => {
  it('ignores messages of strangers to its port, also with the key of an expected letter', async (context) => {
    const { mine, other, stranger, warnings } = await pair(context);
    const waited = mine.receive(KEY, 1);
    const forged = [
      [KEY, 'record', 'forged'],
      ['', KEY, 'record', 'forged'],
      ['Secret', KEY, 'record', 'forged'],
      ['forged'],
      [],
    ];
    for (const frames of forged) await stranger.send(frames.length === 0 ? '' : frames);
    // One connection preserves the order: when this letter has arrived, the others have too.
    await stranger.send(['secret', '1||1|0|2', 'record', 'last']);
    await mine.receive('1||1|0|2', 1);
    other.send(0, KEY, letter('true'));
    assert.equal(Buffer.from((await waited).payload).toString(), 'true');
    assert.deepEqual(warnings, []);
  });
});
