import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launchFor, resultsOf, runCell } from '../../session/job-fixture';

test('a cell of ranks trains its own attention over divided sequences, by hand and under FSDP, as on whole ones', async (context) => {
  const job = await launchFor(context, { ranks: 2 });
  await runCell(
    job,
    `
    class Net extends nn.Module {
      qkv = new nn.Linear(12, 36);
      out = new nn.Linear(12, 12);
      attend = (q, k, v) => nn.attention(q, k, v, { causal: true });
      forward(x) {
        const heads = tf.split(this.qkv(x), 3, 2).map((part) => part.reshape([2, -1, 4, 3]));
        return this.out(this.attend(...heads).reshape(x.shape));
      }
    }
    const parallel = initializeModelParallel({ contextParallelSize: 2 });
    const x = tf.randomNormal([2, 8, 12], 0, 1, 'float32', 5);
    const trained = (net, cut, mean) => {
      const optimizer = optim.sgd(net, { lr: 0.1 });
      const losses = [];
      for (let step = 0; step < 3; step++) {
        const loss = mean(net(cut(x)).square().mean());
        losses.push(loss.dataSync()[0]);
        loss.backward();
        optimizer.step();
        optimizer.zeroGrad();
        loss.dispose();
      }
      return losses;
    };
    const whole = trained(new Net(), (all) => all.clone(), (loss) => loss.clone());`,
  );
  const ways = {
    ring: '(...heads) => ringAttention(...heads, { group: parallel.cp, causal: true })',
    ulysses: '(...heads) => ulyssesAttention(...heads, { group: parallel.cp, causal: true })',
    object: '(...heads) => sequences.attention(...heads, { causal: true })',
  };
  let cell = 2;
  for (const [name, attend] of Object.entries(ways)) {
    const events = await runCell(
      job,
      `
      const sequences = contextParallel(parallel.cp, { kind: '${name === 'ulysses' ? 'ulysses' : 'ring'}' });
      const net = new Net();
      net.attend = ${attend};
      fullyShard(net);
      trained(net, (all) => sequences.cut(all), (loss) => sequences.mean(loss)).map((loss, i) => Math.abs(loss - whole[i]) < 1e-6).join()`,
      cell++,
    );
    assert.deepEqual(
      resultsOf(events),
      { 0: "'true,true,true'", 1: "'true,true,true'" },
      JSON.stringify(events),
    );
  }
});
