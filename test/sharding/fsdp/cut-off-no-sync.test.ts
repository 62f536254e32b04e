import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { DDP } from '../../../src/sharding/ddp/distributed-data-parallel';
import { fullyShard } from '../../../src/sharding/fsdp/fully-shard';
import { noSync, unitsOf } from '../../../src/sharding/fsdp/units-of';
import { soloGroup } from '../../support/solo-group';
import { testEngine } from '../../support/wasm-test-engine';
import { Chain } from '../chain-model';

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** Starts work that is cut off; as in an interrupted cell, no `finally` runs. */
function cutOff(within: (work: () => void) => void): void {
  const run = (): void =>
    within(() => {
      for (;;);
    });
  assert.throws(() => runInNewContext('run()', { run }, { timeout: 20 }), /timed out/);
  engine.recover();
}

test('units reduce their gradients again after an interrupted noSync', () => {
  const model = fullyShard(new Chain(), { engine, observer: SILENT, group: soloGroup(engine) });
  cutOff((work) => noSync(model, work));
  assert.ok(unitsOf(model).every(({ requiresGradientSync }) => requiresGradientSync));
  for (const unit of unitsOf(model)) unit.dispose();
});

test('DDP reduces its gradients again after an interrupted noSync', () => {
  const context = { engine, observer: SILENT, group: soloGroup(engine) };
  const ddp = new DDP(new Chain(), context);
  cutOff((work) => ddp.noSync(work));
  const reduced: number[] = [];
  ddp.registerCommHook(reduced, (seen, { index }) => {
    seen.push(index);
    return { done: true, wait: () => undefined };
  });
  const x = tf.tensor([[0.1, -0.2, 0.3]]);
  const pass = gradients(engine, () => ddp.module.apply(x));
  pass.backward();
  tf.dispose([x, pass.loss]);
  assert.deepEqual(
    reduced,
    ddp.buckets.map((_, index) => index),
  );
  ddp.module.dispose();
});
