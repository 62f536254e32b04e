import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { CommClient } from '../../../src/wire/transport/comm-client';

const stub = join(__dirname, 'comm-thread-stub.js');

for (const when of ['while it loads', 'at its first message'] as const) {
  test(`a comm thread that ends ${when} is a typed error for every waiting and later call`, async () => {
    const client = new CommClient(stub, when);
    const posted = client.post((ticket) => ({ ticket }));
    // Blocks this thread, so that no event can arrive.
    const expected = { code: 'ENGINE', message: /has ended: the kernels are missing.*launch the job again/ };
    assert.throws(() => posted.wait(), expected);
    assert.throws(() => posted.wait(), expected);
    const next = client.post((ticket) => ({ ticket }));
    assert.throws(() => next.wait(), expected);
    assert.equal(next.done, true);
    await client.close();
    assert.throws(() => client.post((ticket) => ({ ticket })), { code: 'CLOSED' });
  });
}

test('the error of a missing script of the comm thread names the script', async () => {
  const client = new CommClient(join(__dirname, 'nowhere.js'), null);
  const posted = client.post((ticket) => ({ ticket }));
  assert.throws(() => posted.wait(), { code: 'TRANSPORT', message: /nowhere\.js/ });
  await client.close();
});
