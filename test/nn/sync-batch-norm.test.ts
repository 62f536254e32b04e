import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CollectiveEvent, SILENT } from '../../src/core/events';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import { withMetaEngine } from '../../src/engine/backend/meta-engine';
import * as nn from '../../src/nn/names/nn-names';
import { markWorld } from '../../src/wire/dist/current-world';
import { joinMetaWorld } from '../../src/wire/dist/meta-world';

test('a SyncBatchNorm gathers one number more than its statistics, and reduces two sums per channel', () => {
  withMetaEngine({}, (engine) => {
    const collectives: CollectiveEvent[] = [];
    const observer = { ...SILENT, collective: (event: CollectiveEvent) => void collectives.push(event) };
    markWorld(joinMetaWorld({ rank: 1, world: 4, engine, observer }));
    const model = nn.SyncBatchNorm.convertSyncBatchnorm(
      new nn.Sequential([new nn.BatchNorm2d(8), new nn.ReLU()]),
    );
    const step = (): string[] => {
      collectives.length = 0;
      gradients(engine, () => tf.sum(model.apply(tf.ones([2, 8, 3, 3])) as tf.Tensor)).backward();
      return collectives.map(({ op, bytes, cause, module }) => `${op} ${bytes} ${cause} ${module}`);
    };
    const [gathered = '', reduced = '', ...others] = step();
    assert.equal(gathered, `allGather ${4 * 17} buffer 0`);
    assert.equal(reduced, `allReduce ${4 * 2 * 8} buffer 0`);
    assert.deepEqual(others, []);
    model.eval();
    assert.deepEqual(step(), [], 'eval uses the running statistics');
  });
});
