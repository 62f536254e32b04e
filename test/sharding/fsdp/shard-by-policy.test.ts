import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { Linear } from '../../../src/nn/linear';
import { gpt } from '../../../src/nn/models/gpt';
import type { Module } from '../../../src/nn/module';
import { fullyShard, type ShardContext } from '../../../src/sharding/fsdp/fully-shard';
import { unitsOf } from '../../../src/sharding/fsdp/units-of';
import {
  modulesToWrap,
  sizeBasedAutoWrapPolicy,
  transformerAutoWrapPolicy,
} from '../../../src/sharding/wrap-policy';
import { soloGroup } from '../../support/solo-group';
import { testEngine } from '../../support/wasm-test-engine';
import { Chain } from '../chain-model';
import { fullyShardByPolicy } from './shard-by-policy';

let engine: Engine;
let context: ShardContext;
before(async () => {
  engine = await testEngine();
  context = { engine, observer: SILENT, group: soloGroup(engine) };
});

function disposeUnits(model: Module): void {
  for (const unit of unitsOf(model)) unit.dispose();
}

test('a policy makes units of the modules that it selects, and the model the root, even an empty root', () => {
  const model = new Chain();
  const policy = transformerAutoWrapPolicy({ transformerLayerCls: new Set([Linear]) });
  fullyShardByPolicy(model, policy, context);
  assert.deepEqual(
    unitsOf(model).map(({ module }) => module),
    ['layers.0', 'layers.1', 'layers.2', 'last'],
  );
  const x = tf.tensor([[0.1, -0.2, 0.3]]);
  const pass = gradients(engine, () => model.apply(x));
  assert.ok(unitsOf(model).every(({ state }) => state === 'sharded'));
  pass.backward();
  assert.ok(unitsOf(model).every(({ hasGrad }) => hasGrad));
  tf.dispose([pass.loss, x]);
  disposeUnits(model);
});

test('a transformer policy wraps the modules of its classes, innermost first', () => {
  const model = new Chain();
  const policy = transformerAutoWrapPolicy({ transformerLayerCls: new Set([Linear]) });
  assert.deepEqual(
    modulesToWrap(model, policy).map(({ path }) => path),
    ['last', 'layers.2', 'layers.1', 'layers.0'],
  );
  model.dispose();
});

test('wrapping by size leaves a tied table to the root; wrapping the table by hand is refused', () => {
  const shape = { layers: 2, dim: 8, heads: 2, vocab: 16, seq: 4 };
  const [ids, targets] = [tf.zeros([1, 4], 'int32'), tf.zeros([4], 'int32')];
  const model = gpt(shape);
  fullyShardByPolicy(model, sizeBasedAutoWrapPolicy({ minNumParams: 30 }), context);
  assert.equal(
    unitsOf(model).some(({ module }) => module === 'wte' || module === 'wpe'),
    false,
  );
  const pass = gradients(engine, () => model.apply(ids, targets));
  pass.backward();
  assert.ok(unitsOf(model).every(({ hasGrad }) => hasGrad));
  disposeUnits(model);
  const other = gpt(shape);
  for (const work of [
    () => fullyShard(other.wte, context),
    () => fullyShard(other, context, { ignoredModules: [other.wpe] }),
  ]) {
    assert.throws(work, { code: 'CONFIG', message: /"wte" cannot be a separate unit|"wpe" cannot be/ });
  }
  fullyShard(gpt({ ...shape, tied: false }).wte, context);
  tf.dispose([pass.loss, ids, targets]);
});
