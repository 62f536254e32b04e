import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import { memoryAtPeak, memoryOverTime } from '../../src/ledger/memory';
import { Recorder } from '../../src/ledger/recorder';
import { temporaries } from '../../src/ledger/temporaries';
import { createTrainer } from '../../src/training/trainer';
import { soloGroup } from '../support/solo-group';
import { testEngine } from '../support/wasm-test-engine';

const MODEL = { kind: 'gpt', layers: 4, dim: 32, heads: 2, vocab: 96, seq: 16 } as const;
const BATCH = 2;
/** One activation of the residual stream, or its gradient. */
const STREAM_BYTES = 4 * BATCH * MODEL.seq * MODEL.dim;

for (const activationCheckpointing of [null, 'full'] as const) {
  test(`temporaries are pool or ring, and the ring holds the tensors between blocks: ${activationCheckpointing}`, async () => {
    const engine = await testEngine();
    const recorder = new Recorder({ rank: 0, world: 1 });
    engine.observe(recorder);
    const config = parseTrainConfig({
      model: MODEL,
      data: 'synthetic',
      batch: BATCH,
      activationCheckpointing,
    });
    const trainer = createTrainer({ config, engine, group: soloGroup(engine), observer: recorder });
    recorder.beginStep(1);
    trainer.step();
    const record = recorder.endStep({ engineBytes: engine.memory.bytes });
    trainer.dispose();
    const { atPeak, most } = temporaries(record);
    assert.equal(atPeak.pool + atPeak.ring, memoryAtPeak(record).temp);
    const { byCause, ring } = memoryOverTime(record);
    const temp = Math.max(...byCause.temp);
    assert.ok(most !== null && most.pool <= temp && most.pool + most.ring >= temp);
    // One gradient that is passed from block to block, and the loss.
    assert.equal(most.ring, STREAM_BYTES + 4);
    assert.equal(Math.max(...ring), most.ring);
    assert.ok(ring.every((bytes, i) => bytes >= 0 && bytes <= (byCause.temp[i] ?? 0)));
  });
}
