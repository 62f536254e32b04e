import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StagingPool } from '../../../src/wire/transport/zeromq-plane';

test('returned memory is reused for the same size, up to a bound', () => {
  const pool = new StagingPool();
  const [a, b] = [pool.take(1024), pool.take(1024)];
  assert.notEqual(a, b);
  pool.give(a);
  assert.notEqual(pool.take(512), a);
  assert.equal(pool.take(1024), a);
  const large = Array.from({ length: 3 }, () => pool.take(30 * 2 ** 20));
  for (const buffer of large) pool.give(buffer);
  const again = large.map(({ byteLength }) => pool.take(byteLength));
  assert.equal(again.filter((buffer) => large.includes(buffer)).length, 2);
});
