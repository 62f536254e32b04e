import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SILENT } from '../../src/core/events';
import { BufferTable } from '../../src/engine/backend/buffer-table';
import { memoryAtRest } from '../../src/ledger/memory';
import { Recorder } from '../../src/ledger/recorder';

const WEIGHT = { cause: 'param.shard', module: 'fc' } as const;
const REPORTS = {
  allocated: (table: BufferTable) => table.add({}, 8, 'float32'),
  freed: (table: BufferTable, key: object) => table.remove(key),
  retagged: (table: BufferTable, key: object) => table.retag(key, WEIGHT),
};

for (const [report, change] of Object.entries(REPORTS)) {
  test(`after an interrupt in the report "${report}", a recount makes the ledger agree with the engine`, () => {
    const table = new BufferTable();
    const recorder = new Recorder({ rank: 0, world: 1 });
    let isInterrupted = false;
    // The observer before the recorder throws, so the recorder gets no report, as if an interrupt had come there.
    table.observe({
      ...SILENT,
      [report]() {
        if (isInterrupted) throw new Error('interrupted');
      },
    });
    table.observe(recorder);
    const [kept, changed] = [{}, {}];
    table.add(kept, 100, 'float32');
    table.add(changed, 32, 'float32');
    recorder.beginStep(1);
    isInterrupted = true;
    assert.throws(() => change(table, changed), /interrupted/);
    isInterrupted = false;
    table.recount();
    recorder.beginStep(1);
    table.add({}, 16, 'float32');
    table.remove(changed);
    const record = recorder.endStep({ engineBytes: table.bytes });
    assert.equal(record.memory.restBytes, table.bytes);
    assert.equal(memoryAtRest(record)['param.shard'], 0);
  });
}
