import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createSender, receiveAll } from '../../src/core/message-loops';

/** A socket that returns the test's messages one after another, and is then closed. */
function scripted(script: readonly (Error | string)[]) {
  const left = [...script];
  return {
    get closed() {
      return left.length === 0;
    },
    async receive() {
      const next = left.shift() ?? '';
      if (typeof next !== 'string') throw next;
      return [Buffer.from(next)];
    },
  };
}

function coded(code: string): Error {
  return Object.assign(new Error(`${code} happened`), { code });
}

describe('receiving all messages of a socket', () => {
  it('continues after a malformed message, a broken socket, and a handler that throws', async () => {
    const heard: string[] = [];
    const warnings: string[] = [];
    const handle = ([frame]: readonly Buffer[]): void => {
      if (String(frame) === 'bad') throw new Error('it is bad');
      heard.push(String(frame));
    };
    const socket = scripted(['a', coded('EAGAIN'), 'bad', coded('ENOMEM'), 'b']);
    await receiveAll('shell', socket, handle, (message) => void warnings.push(message));
    assert.deepEqual(heard, ['a', 'b']);
    assert.deepEqual(warnings, [
      'a message on shell was ignored: it is bad',
      'the socket shell failed to receive; it will be tried again: ENOMEM happened',
    ]);
  });
});

describe('a sender of messages', () => {
  it('sends one message at a time, in order, and names the message that failed', async () => {
    const sent: string[] = [];
    const warnings: string[] = [];
    let sending = 0;
    const socket = {
      closed: false,
      async send(message: unknown) {
        assert.equal(sending++, 0);
        await new Promise(setImmediate);
        sending--;
        if (message === 'bad') throw new Error('no such peer');
        sent.push(String(message));
      },
    };
    const sender = createSender('shell', socket, (message) => void warnings.push(message));
    for (const message of ['a', 'bad', 'b']) sender.send(message);
    await sender.drained();
    assert.deepEqual(sent, ['a', 'b']);
    assert.deepEqual(warnings, ['the socket shell failed to send: no such peer']);
  });
});
