import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTrainConfig } from '../../src/config/train-config';
import { memoryAtRest, totalBytes } from '../../src/ledger/memory';
import { Recorder } from '../../src/ledger/recorder';
import { createTrainer } from '../../src/training/trainer';
import { predictRun } from '../support/formulas/zero-units';
import { soloGroup } from '../support/solo-group';
import { testEngine } from '../support/wasm-test-engine';

const MODEL = { kind: 'gpt', layers: 2, dim: 32, heads: 2, vocab: 96, seq: 16 } as const;

for (const strategy of ['NO_SHARD', 'SHARD_GRAD_OP', 'FULL_SHARD'] as const) {
  test(`${strategy}: the ledger equals the engine's buffers after every step, and states equal ZeRO's formulas`, async () => {
    const engine = await testEngine();
    const before = engine.memory.bytes;
    const recorder = new Recorder({ rank: 0, world: 1 });
    engine.observe(recorder);
    const config = parseTrainConfig({ model: MODEL, data: 'synthetic', batch: 2, parallel: { strategy } });
    const trainer = createTrainer({ config, engine, group: soloGroup(engine), observer: recorder });
    const rests: number[] = [];
    try {
      for (let step = 1; step <= 4; step++) {
        recorder.beginStep(step);
        const { loss, tokens } = trainer.step();
        const record = recorder.endStep({ loss, tokens, engineBytes: engine.memory.bytes });
        assert.equal(record.memory.residualBytes, 0);
        assert.ok(record.memory.peakBytes > record.memory.restBytes);
        rests.push(record.memory.restBytes);
        const rest = memoryAtRest(record);
        assert.equal(totalBytes(rest), record.memory.restBytes);
        for (const { cause, bytes } of predictRun(config, 1).states) assert.equal(rest[cause], bytes, cause);
      }
      assert.equal(new Set(rests).size, 1, `bytes at rest changed: ${rests.join(', ')}`);
    } finally {
      trainer.dispose();
    }
    assert.equal(engine.memory.bytes, before);
  });
}

test('with offload the ledger has the optimizer states on the host, and the device holds exactly their bytes less', async () => {
  const engine = await testEngine();
  const rests = [false, true].map((optimizer) => {
    const recorder = new Recorder({ rank: 0, world: 1 });
    engine.observe(recorder);
    const config = parseTrainConfig({ model: MODEL, data: 'synthetic', batch: 2, offload: { optimizer } });
    const trainer = createTrainer({ config, engine, group: soloGroup(engine), observer: recorder });
    recorder.beginStep(1);
    trainer.step();
    const { memory } = recorder.endStep({ engineBytes: engine.memory.bytes });
    const onHost = memory.owners.reduce(
      (sum, { space, cause }, i) =>
        sum + (space === 'host' && cause === 'optimizer' ? (memory.atRest[i] ?? 0) : 0),
      0,
    );
    const states = 8 * trainer.model.states().reduce((sum, { size }) => sum + size, 0);
    assert.equal(onHost, optimizer ? states : 0);
    trainer.dispose();
    return { device: memory.restBytes, states };
  });
  const [without, offloaded] = rests;
  assert.ok(without && offloaded);
  assert.equal(without.device - offloaded.device, without.states);
});
