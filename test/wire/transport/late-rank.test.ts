import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CallHeader, CallOp } from '../../../src/wire/transport/call';
import { CollectiveLane } from '../../../src/wire/transport/collectives';
import { CONTROL_BYTES } from '../../../src/wire/transport/control-block';
import { attach } from '../../../src/wire/transport/group-memory';
import { compileKernels } from '../../../src/wire/transport/kernels/load';
import { RegionLayout, STREAM } from '../../../src/wire/transport/layout';
import { probeSharedMemory } from '../../../src/wire/transport/native';
import { PairLane } from '../../../src/wire/transport/pair-lane';
import { createSegment, openSegment, type Segment } from '../../../src/wire/transport/segment';
import type { SpanCall } from '../../../src/wire/transport/spans';
import type { Wait } from '../../../src/wire/transport/wait';

// One process plays both ranks, step by step, and stops each wherever a busy machine may stop it.

const probe = probeSharedMemory();
const skip = probe.ok ? false : `no shared memory here: ${probe.reason}`;

/** A rank's lanes, blocking ones. */
function openRank({ fd, bytes }: Segment, rank: number) {
  const open = openSegment(fd, bytes);
  const { native, control } = open;
  const layout = new RegionLayout(2);
  const identity = { name: 'world', ranks: [0, 1], rank, world: 2 };
  const memory = attach(
    { identity, ...open.region(CONTROL_BYTES, layout.sharedBytes, layout.privateBytes) },
    { native, control, kernelModule: compileKernels(), links: undefined, cpu: undefined },
  );
  return { pairs: new PairLane(memory, STREAM.main), collectives: new CollectiveLane(memory, STREAM.main) };
}

/** A call of `count` elements without memory: zeros where they are read. */
function callOf(op: CallOp, peer = -1, count = 0): SpanCall {
  const header: CallHeader = {
    op,
    group: 'world',
    number: 1,
    epoch: 1,
    async: false,
    dtype: 'float32',
    wireDType: 'float32',
    reduction: undefined,
    peer,
    count,
    value: 0,
    signature: 0,
    cause: 'user',
    module: '',
    site: { cell: undefined, line: undefined, text: '' },
  };
  const spans = [{ addresses: [0], lengths: [count], total: count }];
  return { header, inputs: op === 'send' ? spans : [], outputs: op === 'recv' ? spans : [] };
}

/** The wait at which a call stands still. */
function waitOf(step: IteratorResult<Wait, unknown>): Wait {
  assert.ok(step.done !== true);
  return step.value;
}

function withRanks(work: (first: ReturnType<typeof openRank>, second: ReturnType<typeof openRank>) => void) {
  const segment = createSegment();
  try {
    work(openRank(segment, 0), openRank(segment, 1));
  } finally {
    segment.close();
  }
}

test("a slow sender whose message was received is no mismatch with the receiver's next barrier", {
  skip,
}, () => {
  withRanks((first, second) => {
    const sending = first.pairs.run(callOf('send', 1, 10));
    const sent = waitOf(sending.next());
    assert.equal(second.pairs.run(callOf('recv', 0, 10)).next().done, true);
    const barrier = second.collectives.run(callOf('barrier'));
    waitOf(barrier.next()).diagnose();
    sent.diagnose();
    assert.equal(sending.next().done, true);
    assert.equal(first.collectives.run(callOf('barrier')).next().done, true);
    assert.equal(barrier.next().done, true);
  });
});

test('a send without a receiver and a recv without a sender are a mismatch for a rank at a barrier', {
  skip,
}, () => {
  for (const op of ['send', 'recv'] as const) {
    withRanks((first, second) => {
      const exchange = waitOf(first.pairs.run(callOf(op, 1, 10)).next());
      const wait = waitOf(second.collectives.run(callOf('barrier')).next());
      const both = new RegExp(`rank 0 called ${op} of 10.*rank 1 called barrier|barrier.*${op} of 10`);
      assert.throws(() => wait.diagnose(), { code: 'COLLECTIVE_MISMATCH', message: both });
      assert.throws(() => exchange.diagnose(), { code: 'COLLECTIVE_MISMATCH', message: both });
    });
  }
});

test("a sender that checks just after its receiver's refusal gets an error with both sides", { skip }, () => {
  withRanks((first, second) => {
    const sending = first.pairs.run(callOf('send', 1, 10));
    const sent = waitOf(sending.next());
    const both = /rank 0 called send of 10.*rank 1 called recv of 11/;
    const refusal = { code: 'COLLECTIVE_MISMATCH', message: both };
    assert.throws(() => second.pairs.run(callOf('recv', 0, 11)).next(), refusal);
    sent.diagnose();
    assert.throws(() => sending.next(), refusal);
  });
});
