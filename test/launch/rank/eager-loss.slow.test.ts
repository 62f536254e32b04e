import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shareJob } from '../../session/job-fixture';

const shared = shareJob({ ranks: 2 });

test('a fused loss outside of tf.tidy has the backward that gradients() gives', async () => {
  const job = shared();
  const [first] = await job.on('all').run(({ nn, tf, FSDP, optim, gradients }) => {
    const [x, y] = [tf.ones([3, 4]), tf.tensor1d([0, 1, 4], 'int32')];
    const trained = (isEager: boolean): number[] => {
      const net = new nn.Linear(4, 5).manualSeed(3);
      const model = FSDP(net);
      const optimizer = optim.sgd(model, { lr: 1 });
      if (isEager) nn.functional.crossEntropy(model(x), y).backward();
      else gradients(() => nn.functional.crossEntropy(model.apply(x), y)).backward();
      optimizer.step();
      return [...net.stateDict().values()].flatMap((tensor) => [...tensor.dataSync()]);
    };
    return [trained(true), trained(false)];
  });
  assert.equal(first?.[0]?.length, 25);
  assert.deepEqual(first?.[0], first?.[1]);
});
