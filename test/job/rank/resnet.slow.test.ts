import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { testData } from '../../support/paths';
import { launchFor } from '../job-fixture';

// Written by test/data/resnet_reference.py.
const reference = JSON.parse(readFileSync(testData('resnet_reference.json'), 'utf8')) as {
  readonly losses: readonly number[];
  readonly buffers: Readonly<Record<string, readonly number[]>>;
};

const AROUND = ['DDP', 'ZERO_1', 'ZERO_2', 'fullyShard', 'fullyShard, checkpointed', 'FSDP', 'SHARD_GRAD_OP'];

type Tensor = import('@tensorflow/tfjs').Tensor;

interface Trained {
  readonly losses: readonly number[];
  readonly buffers: Readonly<Record<string, readonly number[]>>;
  readonly evaluated: number;
}

function requireClose(actual: readonly number[], expected: readonly number[], what: string): void {
  assert.equal(actual.length, expected.length, what);
  expected.forEach((value, i) => {
    const bound = 2e-5 * Math.max(1, Math.abs(value));
    assert.ok(
      Math.abs((actual[i] ?? Number.NaN) - value) <= bound,
      `${what}[${i}]: ${actual[i]}, torch's ${value}`,
    );
  });
}

for (const world of [1, 2, 4]) {
  test(`a ResNet with SyncBatchNorm on ${world} ranks trains as torch's with BatchNorm on the whole batch`, async (context) => {
    const job = await launchFor(context, { ranks: world });
    for (const around of AROUND) {
      const ranks = await job.on('all').run((scope, wrapper): Trained => {
        const { nn, tf, rank, worldSize, optim, gradients, dist, fullyShard, DDP, FSDP, checkpointWrapper } =
          scope;
        class Block extends nn.Module {
          readonly conv1: InstanceType<typeof nn.Conv2d>;
          readonly norm1: InstanceType<typeof nn.BatchNorm2d>;
          readonly conv2: InstanceType<typeof nn.Conv2d>;
          readonly norm2: InstanceType<typeof nn.BatchNorm2d>;
          constructor(channels: number) {
            super();
            this.conv1 = new nn.Conv2d(channels, channels, 3, { padding: 1, bias: false });
            this.norm1 = new nn.BatchNorm2d(channels);
            this.conv2 = new nn.Conv2d(channels, channels, 3, { padding: 1, bias: false });
            this.norm2 = new nn.BatchNorm2d(channels);
          }
          forward(x: Tensor): Tensor {
            const inner = tf.relu(this.norm1.apply(this.conv1.apply(x)));
            return tf.relu(tf.add(x, this.norm2.apply(this.conv2.apply(inner))));
          }
        }
        class ResNet extends nn.Module {
          readonly stem = new nn.Conv2d(3, 4, 3, { padding: 1, bias: false });
          readonly norm = new nn.BatchNorm2d(4);
          readonly first = new Block(4);
          readonly down = new nn.Conv2d(4, 8, 3, { stride: 2, padding: 1 });
          readonly second = new Block(8);
          readonly head = new nn.Linear(8, 5);
          forward(x: Tensor): Tensor {
            const small = nn.functional.maxPool2d(tf.relu(this.norm.apply(this.stem.apply(x))), 2);
            const y = this.second.apply(this.down.apply(this.first.apply(small)));
            return this.head.apply(tf.mean(y, [2, 3]));
          }
        }
        // As in model_reference.py.
        const scattered = (from: number, count: number, number: number, size: number): Float32Array =>
          Float32Array.from({ length: count }, (_, i) => {
            const first = Math.imul((from + i) * 7919 + number * 104729 + 17, 2654435761) >>> 0;
            const second = Math.imul(first ^ (first >>> 15), 2654435761) >>> 0;
            return size * (second / 2 ** 32 - 0.5);
          });
        const model = nn.SyncBatchNorm.convertSyncBatchnorm(new ResNet());
        [...model.namedParameters()].forEach(([name, parameter], place) => {
          const base = /norm.*weight$/.test(name) ? 1 : 0;
          parameter.defer({
            fill(start, target) {
              const values = scattered(start, target.length, place, 1);
              for (let i = 0; i < values.length; i++) target[i] = (values[i] ?? 0) + base;
            },
          });
        });
        let trained: InstanceType<typeof nn.Module> = model;
        if (wrapper === 'DDP') DDP(model);
        else if (wrapper === 'ZERO_1' || wrapper === 'ZERO_2') fullyShard(model, { strategy: wrapper });
        else if (wrapper === 'FSDP') trained = FSDP(model);
        else if (wrapper === 'SHARD_GRAD_OP') trained = FSDP(model, { shardingStrategy: wrapper });
        else {
          for (const block of [model.first, model.second]) {
            if (wrapper.endsWith('checkpointed')) checkpointWrapper(block);
            fullyShard(block);
          }
          fullyShard(model);
        }
        const optimizer = optim.sgd(trained, { lr: 0.05, momentum: 0.9 });
        const rows = 8 / worldSize;
        const batch = (number: number): [Tensor, Tensor] => {
          const pixels = rows * 3 * 64;
          const labels = Array.from({ length: rows }, (_, i) => (7 * (rank * rows + i) + 3) % 5);
          return [
            tf.tensor4d(scattered(rank * pixels, pixels, number, 4), [rows, 3, 8, 8]),
            tf.tensor1d(labels, 'int32'),
          ];
        };
        const losses = Array.from({ length: 6 }, (_, step) => {
          const [x, y] = batch(100 + step);
          const pass = gradients(() => nn.functional.crossEntropy(trained.apply(x) as Tensor, y));
          pass.backward();
          optimizer.step();
          optimizer.zeroGrad();
          dist.allReduce(pass.loss, { op: 'avg' });
          const [loss = Number.NaN] = pass.loss.dataSync();
          tf.dispose([x, y, pass.loss]);
          return loss;
        });
        const buffers = Object.fromEntries(
          [...model.namedBuffers()].map(([name, { tensor }]) => [name, [...tensor.dataSync()]]),
        );
        trained.eval();
        const [x] = batch(100);
        const evaluated = tf.tidy(
          () => tf.sum(tf.abs(trained.apply(x) as Tensor)).dataSync()[0] ?? Number.NaN,
        );
        return { losses, buffers, evaluated };
      }, around);
      for (const { losses, buffers, evaluated } of ranks) {
        requireClose(losses, reference.losses, `${around}: losses`);
        assert.deepEqual(Object.keys(buffers).sort(), Object.keys(reference.buffers).sort());
        for (const [name, expected] of Object.entries(reference.buffers))
          requireClose(buffers[name] ?? [], expected, `${around}: ${name}`);
        assert.ok(Number.isFinite(evaluated));
      }
    }
  });
}

test('SyncBatchNorm normalizes over all rows, also if ranks have different numbers of them', async (context) => {
  const job = await launchFor(context, { ranks: 3 });
  const ranks = await job.on('all').run(({ nn, tf, rank, gradients }) => {
    const first = [0, 1, 4][rank] ?? 0;
    const values = Array.from({ length: 12 }, (_, i) => [Math.sin(i), Math.cos(3 * i) + 2]);
    const normOf = (norm: InstanceType<typeof nn.SyncBatchNorm>, from: number, to: number) => {
      const x = new nn.Parameter(tf.tensor2d(values.slice(from, to)));
      // The sum over ranks of all losses is the loss of the whole batch.
      const pass = gradients(() => tf.sum(tf.pow(norm.apply(x.tensor), 3)));
      pass.backward();
      return [x.grad?.dataSync() ?? [], norm.running_var?.tensor.dataSync() ?? []].map((part) => [...part]);
    };
    const whole = new nn.SyncBatchNorm(2, { processGroup: { size: 1 } as never });
    const [gradient = [], variance = []] = normOf(whole, 0, 12);
    const own = normOf(new nn.SyncBatchNorm(2), first, [1, 4, 12][rank] ?? 0);
    return { own, expected: [gradient.slice(2 * first, 2 * first + (own[0]?.length ?? 0)), variance] };
  });
  for (const { own, expected } of ranks)
    own.forEach((part, i) => {
      requireClose(part, expected[i] ?? [], 'gradient and running variance');
    });
});
