import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../src/core/tf';
import { withMetaEngine } from '../../../src/engine/backend/meta-engine';
import { BatchNormWarning } from '../../../src/launch/rank/batch-norm-warning';
import { BatchNorm2d, SyncBatchNorm } from '../../../src/nn/layers/batch-norm';
import { Module } from '../../../src/nn/module';

class Net extends Module {
  readonly norm = new BatchNorm2d(3);

  forward(x: Tensor): Tensor {
    return this.norm.apply(x);
  }
}

test('a batch norm that does not see other ranks is named once, and only on several ranks', () => {
  withMetaEngine({}, () => {
    const warnings: string[] = [];
    const batchNorms = new BatchNormWarning((message) => warnings.push(message));
    batchNorms.check(SyncBatchNorm.convertSyncBatchnorm(new Net()), 2);
    batchNorms.check(new Net(), 1);
    assert.deepEqual(warnings, []);
    batchNorms.check(new Net(), 2);
    batchNorms.check(new Net(), 2);
    assert.deepEqual(warnings, [
      `BatchNorm at "norm" uses the statistics of each rank's own batch, as in torch; for the statistics of all ranks, call ` +
        'nn.SyncBatchNorm.convertSyncBatchnorm(model) first. This warning appears once',
    ]);
  });
});
