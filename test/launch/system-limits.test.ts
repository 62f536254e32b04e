import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { limitBehind } from '../../src/launch/system-limits';

function refused(code: string): Error {
  return Object.assign(new Error(`spawn ${code}`), { code });
}

describe('the limit behind an error of the system', () => {
  it('is named as in a shell', () => {
    assert.match(limitBehind(refused('EMFILE')), /open \(ulimit -n\)/);
    assert.match(limitBehind(refused('EAGAIN')), /processes and threads .*ulimit -u/);
    assert.match(limitBehind(refused('ENOMEM')), /ulimit -v/);
    assert.equal(limitBehind(refused('EACCES')), '');
  });

  it('has its value if the system reports it', {
    skip: process.platform !== 'linux' && 'Linux tells it',
  }, () => {
    assert.match(limitBehind(refused('EMFILE')), /\(ulimit -n\), which is \d+ now: raise that limit/);
  });
});
