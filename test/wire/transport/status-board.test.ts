import assert from 'node:assert/strict';
import test from 'node:test';
import type { CallHeader } from '../../../src/wire/transport/call';
import { createStatusBoard, readStatus, StatusWriter } from '../../../src/wire/transport/status-board';

const header: CallHeader = {
  op: 'allReduce',
  group: 'dp',
  number: 7,
  epoch: 1,
  async: false,
  dtype: 'float32',
  wireDType: 'bfloat16',
  reduction: 'sum',
  peer: -1,
  count: 1000,
  value: 0,
  signature: 0,
  cause: 'grad',
  module: 'blocks.0.qkv',
  detail: 'the second half',
  site: { cell: 3, line: 12, text: 'In[3]:12' },
};

test('a board shows idle, then the running cell, then the collective, then the cell again', () => {
  const board = createStatusBoard();
  const writer = new StatusWriter(board, 'main');
  assert.equal(readStatus(board).state, 'idle');
  writer.running(3);
  assert.deepEqual([readStatus(board).state, readStatus(board).cell], ['running', 3]);
  writer.enter(header);
  const { state, cell, collective } = readStatus(board);
  assert.deepEqual([state, cell], ['collective', 3]);
  const { since, ...rest } = collective ?? assert.fail('no collective');
  assert.ok(since > 0);
  assert.deepEqual(rest, {
    group: 'dp',
    number: 7,
    op: 'allReduce',
    count: 1000,
    dtype: 'float32',
    peer: -1,
    cause: 'grad',
    module: 'blocks.0.qkv',
    cell: 3,
    line: 12,
    async: false,
    detail: 'the second half',
  });
  writer.leave();
  assert.equal(readStatus(board).state, 'running');
  writer.idle();
  assert.equal(readStatus(board).state, 'idle');
});

test('the comm thread has its own section', () => {
  const board = createStatusBoard();
  new StatusWriter(board, 'comm').enter({ ...header, async: true, group: 'tp' });
  const status = readStatus(board);
  assert.equal(status.state, 'idle');
  assert.equal(status.background?.group, 'tp');
  assert.equal(status.background?.async, true);
});
