import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchFor, temporaryFolder } from '../../session/job-fixture';

test('buffers are in checkpoints as rank 0 has them, and bufferDtype rounds them', async (context) => {
  const { path: folder } = temporaryFolder(context);
  const trained = await launchFor(context, { ranks: 2 });
  const expected = [Math.fround(1 / 3), Math.fround(2 / 3)];
  const saved = await trained.on('all').run(async (scope, path: string) => {
    const { nn, tf, rank, optim, FSDP, MixedPrecision, saveCheckpoint } = scope;
    class Net extends nn.Module {
      readonly fc = new nn.Linear(2, 3);
      readonly mean = new nn.Buffer(tf.zeros([2]));
      readonly calls = new nn.Buffer(tf.zeros([1], 'int32'));
      readonly mask = new nn.Buffer(tf.ones([2]), { persistent: false });
      forward(x: import('@tensorflow/tfjs').Tensor) {
        this.mean.update(() => tf.div(tf.tensor1d([1 + rank, 2 + rank]), 3));
        this.calls.update((calls) => tf.add(calls, tf.scalar(20_000_001 + rank, 'int32')));
        return this.fc.apply(x);
      }
    }
    const found: unknown[] = [];
    for (const bufferDtype of [null, 'bf16'] as const) {
      const model = FSDP(new Net(), { mixedPrecision: MixedPrecision({ bufferDtype }) });
      const optimizer = optim.adamW(model, { lr: 1e-2 });
      model(tf.ones([4, 2]))
        .mean()
        .backward();
      optimizer.step();
      found.push([model.mean, model.calls].map(({ tensor }) => [...tensor.dataSync()]));
      if (bufferDtype !== null) continue;
      await saveCheckpoint(model, optimizer, `${path}/sharded`);
      await saveCheckpoint(model, null, `${path}/full`, { type: 'FULL_STATE_DICT', dtype: 'BF16' });
    }
    return found;
  }, folder);
  const bf16 = [0.333984375, 0.66796875];
  assert.deepEqual(saved, [
    [
      [expected, [20_000_001]],
      [bf16, [20_000_001]],
    ],
    [
      [[Math.fround(2 / 3), 1], [20_000_002]],
      [[0.66796875, 1], [20_000_002]],
    ],
  ]);
  const fresh = await launchFor(context, { ranks: 3 });
  const loaded = await fresh.on('all').run(async (scope, path: string) => {
    const { nn, tf, optim, fullyShard, loadCheckpoint } = scope;
    class Net extends nn.Module {
      readonly fc = new nn.Linear(2, 3);
      readonly mean = new nn.Buffer(tf.zeros([2]));
      readonly calls = new nn.Buffer(tf.zeros([1], 'int32'));
      readonly mask = new nn.Buffer(tf.ones([2]), { persistent: false });
      forward(x: import('@tensorflow/tfjs').Tensor) {
        return this.fc.apply(x);
      }
    }
    const model = fullyShard(new Net());
    const optimizer = optim.adamW(model, { lr: 1e-2 });
    const found: unknown[] = [];
    for (const name of ['sharded', 'full']) {
      await loadCheckpoint(model, name === 'full' ? null : optimizer, `${path}/${name}`);
      const dict = model.stateDict();
      found.push(
        [...dict.keys()],
        [...(dict.get('mean')?.dataSync() ?? [])],
        [...model.calls.tensor.dataSync()],
      );
    }
    return found;
  }, folder);
  const names = ['fc.weight', 'fc.bias', 'mean', 'calls'];
  for (const ofRank of loaded) {
    assert.deepEqual(
      ofRank.map((each) => (Array.isArray(each) && typeof each[0] === 'string' ? each.toSorted() : each)),
      [names.toSorted(), expected, [20_000_001], names.toSorted(), bf16, [20_000_001]],
    );
  }
});
