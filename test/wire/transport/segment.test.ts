import assert from 'node:assert/strict';
import test from 'node:test';
import { ControlBlock, createControlBuffer } from '../../../src/wire/transport/control-block';
import { RegionLayout } from '../../../src/wire/transport/layout';
import { probeSharedMemory } from '../../../src/wire/transport/native';
import { createSegment, openSegment, sharedBuffer } from '../../../src/wire/transport/segment';

const probe = probeSharedMemory();
const skip = probe.ok ? false : `no shared memory here: ${probe.reason}`;

test('the first abort reason of an epoch stays, and a reset clears it', () => {
  const control = new ControlBlock(createControlBuffer());
  assert.equal(control.epoch, 1);
  assert.equal(control.reason, undefined);
  assert.equal(control.abort({ code: 'RANK_DIED', rank: 2, text: 'rank 2 fell — über Bord' }), true);
  assert.equal(control.abort({ code: 'INTERRUPTED', text: 'too late' }), false);
  assert.deepEqual(control.reason, { code: 'RANK_DIED', rank: 2, text: 'rank 2 fell — über Bord' });
  control.reset();
  assert.equal(control.reason, undefined);
  assert.equal(control.epoch, 2);
});

test('one mapping of a segment reads what another writes', { skip }, () => {
  const segment = createSegment(2 ** 22);
  try {
    const [first, second] = [openSegment(segment.fd, segment.bytes), openSegment(segment.fd, segment.bytes)];
    const [a, b] = [first, second].map(
      (open) => new Int32Array(sharedBuffer(open.region(65536, 65536, 65536).memory)),
    );
    assert.ok(a !== undefined && b !== undefined);
    a[16384] = 42;
    assert.equal(b[16384], 42);
    a[0] = 1;
    assert.equal(b[0], 0, 'the private part is private');
    segment.abort({ code: 'ABORTED', text: 'stop' });
    assert.equal(second.control.reason?.text, 'stop');
  } finally {
    segment.close();
  }
});

test('the error of a region beyond the segment shows both sizes', { skip }, () => {
  const segment = createSegment(2 ** 20);
  try {
    const open = openSegment(segment.fd, segment.bytes);
    assert.throws(() => open.region(65536, 2 ** 20, 65536), {
      code: 'TRANSPORT',
      message: /1048576 bytes, but 1114112/,
    });
  } finally {
    segment.close();
  }
});

test('a descriptor that is not a segment is refused', { skip }, () => {
  assert.throws(() => openSegment(12345), { code: 'TRANSPORT', message: /mmap .* failed with errno 9/ });
});

test('the parts of a region of any size do not overlap', () => {
  for (const size of [2, 3, 8, 9, 64]) {
    const layout = new RegionLayout(size);
    const places: number[] = [];
    for (const stream of [0, 1] as const) {
      for (let rank = 0; rank < size; rank++) {
        for (const parity of [0, 1])
          places.push(layout.record(stream, parity, rank), layout.slot(stream, rank, parity));
        const other = (rank + 1 + stream) % size;
        if (other !== rank) places.push(layout.pairRecord(rank, other, 0), layout.pairSlot(rank, other, 1));
      }
      places.push(
        layout.result(stream, 0),
        layout.result(stream, 1),
        layout.barrier(stream),
        layout.sleepers(stream),
      );
    }
    assert.equal(new Set(places).size, places.length);
    assert.ok(Math.max(...places) < layout.privateBytes + layout.sharedBytes);
    assert.ok(layout.privateBytes + layout.sharedBytes < 2 ** 32, 'fits a WebAssembly memory');
  }
});
