import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withMetaEngine } from '../../../src/backend/meta-engine';
import type { Tensor } from '../../../src/core/tf';
import { warnOfBatchNorm } from '../../../src/job/rank/batch-norm-warning';
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
    const warn = (message: string): void => void warnings.push(message);
    warnOfBatchNorm(SyncBatchNorm.convertSyncBatchnorm(new Net()), 2, warn);
    warnOfBatchNorm(new Net(), 1, warn);
    assert.deepEqual(warnings, []);
    warnOfBatchNorm(new Net(), 2, warn);
    warnOfBatchNorm(new Net(), 2, warn);
    assert.deepEqual(warnings, [
      `BatchNorm at "norm" uses the statistics of each rank's own batch, as in torch; for those of all ranks, call ` +
        'nn.SyncBatchNorm.convertSyncBatchnorm(model) first. This warning appears once',
    ]);
  });
});
