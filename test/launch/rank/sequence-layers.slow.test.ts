import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shareJob } from '../../session/job-fixture';
import { valuesHere } from '../../support/cases';

const AROUND = ['none', 'DDP', 'fullyShard', 'fullyShard, checkpointed'];

type Tensor = import('@tensorflow/tfjs').Tensor;

const alone = shareJob({ ranks: 1 });
const two = shareJob({ ranks: 2 });

test('attention, LSTM and GRU as units and regions train as on one rank', async () => {
  let expected: readonly number[] = [];
  for (const world of [1, 2]) {
    const job = world === 1 ? alone() : two();
    for (const around of world === 1 ? valuesHere(AROUND, [0]) : AROUND.slice(1)) {
      const ranks = await job.on('all').run((scope, wrapper): number[] => {
        const { nn, tf, rank, worldSize, optim, gradients, dist, fullyShard, DDP, checkpointWrapper } = scope;
        class Classifier extends nn.Module {
          readonly embedding = new nn.Embedding(11, 8, { paddingIdx: 0 });
          readonly attention = new nn.MultiheadAttention(8, 2, { batchFirst: true });
          readonly norm = new nn.LayerNorm(8);
          readonly lstm = new nn.LSTM(8, 6, { batchFirst: true, bidirectional: true });
          readonly gru = new nn.GRU(12, 5, { batchFirst: true });
          readonly head = new nn.Linear(11, 3);
          forward(ids: Tensor): Tensor {
            const x = this.embedding.apply(ids);
            const keyPaddingMask = tf.equal(ids, tf.scalar(0, 'int32'));
            const [mixed] = this.attention.apply(x, x, x, { keyPaddingMask, needWeights: false });
            const [output, [h]] = this.lstm.apply(this.norm.apply(tf.add(x, mixed)));
            const [, last] = this.gru.apply(output);
            const [forwards = h] = tf.unstack(h);
            return this.head.apply(tf.concat([tf.squeeze(last, [0]), forwards], 1));
          }
        }
        const model = new Classifier();
        const parts = [model.attention, model.lstm, model.gru];
        if (wrapper.endsWith('checkpointed')) for (const part of parts) checkpointWrapper(part);
        if (wrapper === 'DDP') DDP(model);
        else if (wrapper !== 'none') for (const part of [...parts, model]) fullyShard(part);
        const optimizer = optim.sgd(model, { lr: 0.1, momentum: 0.9 });
        const rows = 4 / worldSize;
        return Array.from({ length: 6 }, () => {
          const first = rank * rows;
          const id = (i: number): number => ((first * 6 + i) * 7 + 3) % 11;
          const ids = tf.tensor2d(
            Array.from({ length: rows * 6 }, (_, i) => id(i)),
            [rows, 6],
            'int32',
          );
          const labels = tf.tensor1d(
            Array.from({ length: rows }, (_, i) => (first + i) % 3),
            'int32',
          );
          const pass = gradients(() => nn.functional.crossEntropy(model.apply(ids), labels));
          pass.backward();
          optimizer.step();
          optimizer.zeroGrad();
          dist.allReduce(pass.loss, { op: 'avg' });
          const [loss = Number.NaN] = pass.loss.dataSync();
          tf.dispose([ids, labels, pass.loss]);
          return loss;
        });
      }, around);
      const [losses = []] = ranks;
      if (expected.length === 0) expected = losses;
      assert.ok((losses.at(-1) ?? 9) < (losses[0] ?? 0), `${around} does not train: ${losses}`);
      losses.forEach((loss, step) => {
        const alone = expected[step] ?? Number.NaN;
        assert.ok(
          Math.abs(loss - alone) <= 1e-5,
          `${around} on ${world} ranks, step ${step}: ${loss}, not ${alone} as on one rank without a wrapper`,
        );
      });
    }
  }
});
