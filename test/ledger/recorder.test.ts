import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ShardlabError } from '../../src/core/errors';
import { MEMORY_CAUSES, type Tag } from '../../src/core/events';
import {
  logicalAtPeak,
  logicalByCause,
  memoryAtPeak,
  memoryAtRest,
  memoryOverTime,
  modulesAtPeak,
  totalBytes,
} from '../../src/ledger/memory';
import type { StepRecord } from '../../src/ledger/record';
import { Recorder } from '../../src/ledger/recorder';
import { simulateStep } from './simulated-step';

const PLACE = { rank: 1, world: 2 };
const TEMP: Tag = { cause: 'temp', module: 'blocks.0' };
const ACTIVATION: Tag = { cause: 'activation', module: 'blocks.0' };

function ticking(): () => number {
  let now = 0;
  return () => ++now / 1000;
}

test('a record lists who held what at the peak, and who holds what at the end', () => {
  const recorder = new Recorder(PLACE, ticking());
  recorder.allocated(1, 100, 'float32', { cause: 'param.shard', module: '' }, 'device');
  recorder.beginStep(1);
  recorder.allocated(2, 50, 'float32', TEMP, 'device');
  recorder.allocated(3, 30, 'float32', ACTIVATION, 'device');
  recorder.freed(2);
  recorder.allocated(4, 10, 'float32', TEMP, 'device');
  const record = recorder.endStep({ engineBytes: 140, loss: 2.5, tokens: 64 });
  assert.equal(record.memory.peakBytes, 180);
  assert.deepEqual(modulesAtPeak(record), [
    { cause: 'param.shard', module: '', bytes: 100, logicalBytes: 100 },
    { cause: 'temp', module: 'blocks.0', bytes: 50, logicalBytes: 50 },
    { cause: 'activation', module: 'blocks.0', bytes: 30, logicalBytes: 30 },
  ]);
  assert.equal(memoryAtRest(record).temp, 10);
  assert.equal(record.memory.restBytes, 140);
  assert.equal(record.memory.residualBytes, 0);
  assert.equal(record.memory.numBuffersAtRest, 3);
  assert.deepEqual([record.rank, record.world, record.step, record.loss, record.tokens], [1, 2, 1, 2.5, 64]);
});

test('bytes at the declared types are reported beside the bytes that are held', () => {
  const recorder = new Recorder(PLACE, ticking());
  const whole = { cause: 'param.full', module: 'blocks.0' } as const;
  recorder.beginStep(1);
  recorder.allocated(1, 100, 'float32', { cause: 'param.shard', module: 'blocks.0' }, 'device');
  recorder.allocated(2, 400, 'float32', { ...whole, declared: 'bfloat16' }, 'device');
  recorder.allocated(3, 40, 'float32', whole, 'device');
  const record = recorder.endStep({ engineBytes: 540 });
  assert.equal(record.memory.peakBytes, 540);
  assert.equal(memoryAtPeak(record)['param.full'], 440);
  assert.equal(logicalAtPeak(record)['param.full'], 240);
  assert.equal(logicalByCause(record.memory.owners, record.memory.atRest)['param.shard'], 100);
  assert.deepEqual(modulesAtPeak(record)[0], { ...whole, bytes: 440, logicalBytes: 240 });
  assert.deepEqual(
    record.memory.owners.map(({ declared }) => declared),
    [undefined, 'bfloat16', undefined],
  );
});

test('a buffer that changes its owner changes no total, not even for a moment', () => {
  const recorder = new Recorder(PLACE, ticking());
  recorder.beginStep(1);
  recorder.allocated(1, 64, 'float32', TEMP, 'device');
  recorder.retagged(1, ACTIVATION);
  recorder.retagged(1, { cause: 'activation', module: 'blocks.0' });
  const record = recorder.endStep();
  assert.deepEqual(memoryOverTime(record).total, [0, 64, 64, 64]);
  assert.equal(memoryAtRest(record).activation, 64);
  assert.equal(memoryAtRest(record).temp, 0);
});

test("a step records only its own run, and the engine's count includes other runs", () => {
  const recorder = new Recorder(PLACE, ticking());
  const shard: Tag = { cause: 'param.shard', module: '' };
  recorder.enter(1);
  recorder.allocated(1, 1000, 'float32', shard, 'device');
  recorder.enter(2);
  recorder.allocated(2, 100, 'float32', shard, 'device');
  recorder.beginStep(1);
  recorder.allocated(3, 20, 'float32', TEMP, 'device');
  recorder.freed(3);
  const { memory } = recorder.endStep({ engineBytes: 1100 });
  assert.deepEqual([memory.peakBytes, memory.restBytes, memory.elsewhereBytes], [120, 100, 1000]);
  recorder.enter(1);
  recorder.beginStep(1);
  assert.equal(recorder.endStep({ engineBytes: 1100 }).memory.restBytes, 1000);
});

test('a record does not grow with earlier runs: it lists only the owners of its run and its curve', () => {
  const recorder = new Recorder(PLACE, ticking());
  for (let run = 1; run <= 5; run++) {
    recorder.enter(run);
    recorder.allocated(run, 8, 'float32', { cause: 'param.shard', module: `run${run}` }, 'device');
  }
  recorder.beginStep(1);
  recorder.freed(4);
  recorder.allocated(6, 16, 'float32', TEMP, 'device');
  const { memory } = recorder.endStep({ engineBytes: 48 });
  assert.deepEqual(
    memory.owners.map(({ cause, module }) => [cause, module]),
    [
      ['param.shard', 'run4'],
      ['param.shard', 'run5'],
      [TEMP.cause, TEMP.module],
    ],
  );
  assert.deepEqual(
    [memory.atStart, memory.atPeak, memory.atRest],
    [
      [0, 8, 0],
      [0, 8, 16],
      [0, 8, 16],
    ],
  );
  assert.deepEqual(memory.curve?.owner, [0, 2]);
  recorder.beginStep(2);
  assert.deepEqual(recorder.endStep({ curve: false }).memory.owners.length, 2);
});

test('host memory has its own owners and never counts as device memory', () => {
  const recorder = new Recorder(PLACE, ticking());
  recorder.beginStep(1);
  recorder.allocated(1, 1000, 'float32', TEMP, 'host');
  recorder.allocated(2, 8, 'float32', TEMP, 'device');
  const record = recorder.endStep({ engineBytes: 8 });
  assert.equal(record.memory.peakBytes, 8);
  assert.deepEqual(memoryOverTime(record).total, [0, 8, 8]);
  assert.deepEqual(
    record.memory.owners.map(({ space }) => space),
    ['host', 'device'],
  );
});

test('a ledger that differs from the engine is an error that names the difference', () => {
  const recorder = new Recorder(PLACE, ticking());
  recorder.beginStep(7);
  recorder.allocated(1, 100, 'float32', TEMP, 'device');
  assert.throws(
    () => recorder.endStep({ engineBytes: 612 }),
    (error) =>
      error instanceof ShardlabError &&
      error.code === 'CHECK' &&
      error.details.residualBytes === 512 &&
      error.message.startsWith(
        '[rank 1/2] after step 7 the engine holds 612 bytes, but the ledger counts 100',
      ),
  );
});

test('endStep without a step is an error; a second beginStep drops the unfinished step and keeps its buffers', () => {
  const recorder = new Recorder(PLACE, ticking());
  assert.throws(() => recorder.endStep(), { code: 'INTERNAL' });
  recorder.beginStep(1);
  recorder.allocated(1, 100, 'float32', TEMP, 'device');
  recorder.beginStep(2);
  const record = recorder.endStep({ engineBytes: 100 });
  assert.equal(record.step, 2);
  assert.deepEqual(record.memory.curve, { seconds: [], owner: [], deltaBytes: [] });
  assert.equal(record.memory.peakBytes, 100);
});

test('frees of unknown buffers change nothing, and a buffer number can be used again', () => {
  const recorder = new Recorder(PLACE, ticking());
  recorder.beginStep(1);
  recorder.freed(99);
  recorder.allocated(1, 100, 'float32', TEMP, 'device');
  recorder.allocated(1, 40, 'float32', ACTIVATION, 'device');
  recorder.freed(1);
  recorder.allocated(1, 7, 'float32', TEMP, 'device');
  assert.equal(recorder.endStep({ engineBytes: 7 }).memory.peakBytes, 100);
});

test('a step without a curve still has start, peak and rest', () => {
  const full = simulateStep({ rank: 0, world: 4, strategy: 'FULL_SHARD' });
  const short = simulateStep({ rank: 0, world: 4, strategy: 'FULL_SHARD', curve: false });
  assert.equal(short.memory.curve, null);
  assert.deepEqual(memoryAtPeak(short), memoryAtPeak(full));
  assert.deepEqual(memoryOverTime(short).total, [
    totalBytes(memoryAtRest(full)),
    full.memory.peakBytes,
    full.memory.restBytes,
  ]);
});

test('a structured clone and JSON do not change a record', () => {
  const record = simulateStep({ rank: 0, world: 2, strategy: 'SHARD_GRAD_OP' });
  assert.deepEqual(structuredClone(record), record);
  const { collectives: _, ...rest } = record;
  const { collectives: __, ...back } = JSON.parse(JSON.stringify(record)) as StepRecord;
  assert.deepEqual(back, rest);
});

test('live bytes are reported by cause and module', () => {
  const recorder = new Recorder(PLACE, ticking());
  recorder.allocated(1, 100, 'float32', TEMP, 'device');
  recorder.allocated(2, 300, 'float32', ACTIVATION, 'device');
  assert.equal(recorder.liveBytes().activation, 300);
  assert.deepEqual(recorder.liveByModule()[0], { cause: 'activation', module: 'blocks.0', bytes: 300 });
});

type Command =
  | { readonly kind: 'take'; readonly bytes: number; readonly owner: number }
  | { readonly kind: 'free' | 'retag'; readonly which: number; readonly owner: number };

const OWNERS: readonly Tag[] = MEMORY_CAUSES.flatMap((cause) => [
  { cause, module: '' },
  { cause, module: 'blocks.1' },
]);
const owner = fc.nat(OWNERS.length - 1);
const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({ kind: fc.constant('take' as const), bytes: fc.nat(1_000_000), owner }),
  fc.record({ kind: fc.constantFrom('free' as const, 'retag' as const), which: fc.nat(1000), owner }),
);

test('for any allocations, frees and retags causes add up, the peak is the largest total, and replays agree', () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 200 }), fc.nat(100), (commands, before) => {
      const recorder = new Recorder(PLACE, ticking());
      const held = new Map<number, number>();
      let most = 0;
      commands.forEach((one, i) => {
        if (i === Math.min(before, commands.length - 1)) {
          recorder.beginStep(1);
          most = sum(held);
        }
        const tag = OWNERS[one.owner] as Tag; // owner is within OWNERS
        if (one.kind === 'take') {
          recorder.allocated(i, one.bytes, 'float32', tag, 'device');
          held.set(i, one.bytes);
        } else {
          const buffer = [...held.keys()][one.which % Math.max(1, held.size)] ?? -1;
          if (one.kind === 'retag') recorder.retagged(buffer, tag);
          else {
            recorder.freed(buffer);
            held.delete(buffer);
          }
        }
        most = Math.max(most, sum(held));
      });
      if (commands.length === 0) recorder.beginStep(1);
      const record = recorder.endStep({ engineBytes: sum(held) });
      const curve = memoryOverTime(record);
      assert.equal(totalBytes(memoryAtRest(record)), sum(held));
      assert.equal(record.memory.peakBytes, most);
      assert.equal(totalBytes(memoryAtPeak(record)), most);
      assert.equal(Math.max(...curve.total), most);
      curve.total.forEach((total, i) => {
        const causes = MEMORY_CAUSES.reduce((all, cause) => all + (curve.byCause[cause][i] ?? 0), 0);
        assert.equal(causes, total);
      });
      for (const cause of MEMORY_CAUSES) {
        assert.equal(curve.byCause[cause].at(-1), memoryAtRest(record)[cause]);
      }
    }),
    { seed: 7, numRuns: 200 },
  );
});

function sum(held: ReadonlyMap<number, number>): number {
  return [...held.values()].reduce((total, bytes) => total + bytes, 0);
}

test('a step that is cut at an earlier moment has its own peak, and later events begin the next step', () => {
  let now = 0;
  const recorder = new Recorder({ rank: 0, world: 1 }, () => now++);
  const tag = { cause: 'temp', module: 'm' } as const;
  recorder.beginStep(1);
  recorder.allocated(1, 100, 'float32', tag, 'device');
  recorder.freed(1);
  recorder.allocated(2, 10, 'float32', tag, 'device');
  const mark = recorder.moment(10);
  recorder.allocated(3, 20, 'float32', tag, 'device');
  recorder.freed(3);
  const first = recorder.recordOf(recorder.cut(mark));
  recorder.allocated(4, 5, 'float32', tag, 'device');
  const second = recorder.endStep({ engineBytes: 15 });
  assert.deepEqual(
    [first, second].map(({ step, memory: { peakBytes, restBytes, curve } }) => ({
      step,
      peakBytes,
      restBytes,
      deltas: curve?.deltaBytes,
    })),
    [
      { step: 1, peakBytes: 100, restBytes: 10, deltas: [100, -100, 10] },
      { step: 2, peakBytes: 30, restBytes: 15, deltas: [20, -20, 5] },
    ],
  );
  assert.equal(second.start, first.end);
});
