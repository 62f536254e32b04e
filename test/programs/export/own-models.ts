import type { TrainConfigInput } from '../../../src/config/train-config';
import type * as tfjs from '../../../src/core/tf';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { TrainInput } from '../../../src/session/plans/own';

type Batch = Readonly<Record<string, tfjs.Tensor>>;

/** A training of a user's own model; ranks get its functions as source code. */
export type OwnTraining = Pick<TrainInput<never, never>, 'model' | 'data' | 'loss'> &
  Omit<TrainConfigInput, 'model' | 'data' | 'loss'>;

const classified = (output: tfjs.Tensor, { y }: Batch, { nn }: RankScope) =>
  nn.functional.crossEntropy(output, y as tfjs.Tensor);

const vectors = ({ tf, rank }: RankScope, index: number) => ({
  x: tf.randomNormal([6, 7], 0, 1, 'float32', 100 * index + rank + 1),
  y: tf.randomUniform([6], 0, 5, 'int32', 100 * index + rank + 1),
});

const images = ({ tf, rank }: RankScope, index: number) => ({
  x: tf.randomNormal([4, 3, 8, 8], 0, 1, 'float32', 100 * index + rank + 1),
  y: tf.randomUniform([4], 0, 5, 'int32', 100 * index + rank + 1),
});

const tokens = ({ tf, rank }: RankScope, index: number) => ({
  x: tf.randomUniform([3, 10], 0, 31, 'int32', 100 * index + rank + 1),
  y: tf.randomUniform([3, 10], 0, 31, 'int32', 100 * index + rank + 51),
});

const nextToken = (output: tfjs.Tensor, { y }: Batch, { nn }: RankScope) =>
  nn.functional.crossEntropy(output.reshape([-1, 31]), (y as tfjs.Tensor).flatten());

/** Kinds of models, each with what is special about its code. */
export const OWN_MODELS: Readonly<Record<string, OwnTraining>> = {
  'an MLP': {
    model: ({ nn }: RankScope) => {
      class Net extends nn.Module {
        fc1 = new nn.Linear(7, 13);
        fc2 = new nn.Linear(13, 5, { bias: false });
        forward(x: tfjs.Tensor) {
          return this.fc2.apply(this.fc1.apply(x).relu());
        }
      }
      return new Net();
    },
    data: vectors,
    loss: classified,
  },
  'a CNN with batch norms': {
    model: ({ nn }: RankScope) => {
      class Net extends nn.Module {
        features = new nn.Sequential(
          new nn.Conv2d(3, 8, 3, { padding: 1, bias: false }),
          new nn.BatchNorm2d(8),
          new nn.ReLU(),
          new nn.MaxPool2d(2),
        );
        conv = new nn.Conv2d(8, 6, 3, { stride: 2, padding: 1, groups: 2 });
        head = new nn.Linear(24, 5);
        forward(x: tfjs.Tensor) {
          return this.head.apply(this.conv.apply(this.features.apply(x)).flatten(1));
        }
      }
      return new Net();
    },
    data: images,
    loss: classified,
  },
  'an LSTM': {
    model: ({ nn }: RankScope) => {
      class Net extends nn.Module {
        embedding = new nn.Embedding(31, 12);
        lstm = new nn.LSTM(12, 16, { numLayers: 2, batchFirst: true });
        head = new nn.Linear(16, 31);
        forward(ids: tfjs.Tensor) {
          const [hidden] = this.lstm.apply(this.embedding.apply(ids));
          return this.head.apply(hidden);
        }
      }
      return new Net();
    },
    data: tokens,
    loss: nextToken,
    parallel: { wrap: { modules: ['lstm'] } },
  },
  'a transformer with a tied head': {
    model: ({ nn, tf }: RankScope) => {
      class Block extends nn.Module {
        ln1 = new nn.LayerNorm(16);
        qkv = new nn.Linear(16, 48);
        proj = new nn.Linear(16, 16);
        ln2 = new nn.LayerNorm(16);
        mlp = new nn.Sequential(new nn.Linear(16, 32), new nn.GELU(), new nn.Linear(32, 16));
        forward(x: tfjs.Tensor) {
          const [rows = 0, length = 0] = x.shape;
          const [q, k, v] = tf
            .split(this.qkv.apply(this.ln1.apply(x)), 3, 2)
            .map((part) => part.reshape([rows, length, 4, 4]).transpose([0, 2, 1, 3])) as [
            tfjs.Tensor,
            tfjs.Tensor,
            tfjs.Tensor,
          ];
          const mixed = nn.functional.scaledDotProductAttention(q, k, v, { isCausal: true });
          const joined = mixed.transpose([0, 2, 1, 3]).reshape([rows, length, 16]);
          const y = x.add(this.proj.apply(joined));
          return y.add(this.mlp.apply(this.ln2.apply(y)));
        }
      }
      class Net extends nn.Module {
        wte = new nn.Embedding(31, 16);
        wpe = new nn.Embedding(12, 16);
        blocks = new nn.ModuleList([new Block(), new Block()]);
        ln = new nn.LayerNorm(16);
        head = new nn.Linear(16, 31, { bias: false });
        constructor() {
          super();
          this.head.weight = this.wte.weight;
        }
        forward(ids: tfjs.Tensor) {
          const positions = tf.range(0, ids.shape[1] ?? 0, 1, 'int32');
          let x = this.wte.apply(ids).add(this.wpe.apply(positions));
          for (const block of this.blocks) x = block.apply(x);
          return this.head.apply(this.ln.apply(x));
        }
      }
      return new Net();
    },
    data: tokens,
    loss: nextToken,
  },
  'a mixture of experts': {
    model: ({ nn, tf }: RankScope) => {
      class Expert extends nn.Module {
        up = new nn.Linear(7, 11);
        down = new nn.Linear(11, 7);
        forward(x: tfjs.Tensor) {
          return this.down.apply(nn.functional.silu(this.up.apply(x)));
        }
      }
      class Net extends nn.Module {
        gate = new nn.Linear(7, 3, { bias: false });
        experts = new nn.ModuleList([new Expert(), new Expert(), new Expert()]);
        head = new nn.Linear(7, 5);
        forward(x: tfjs.Tensor) {
          const weights = tf.softmax(this.gate.apply(x));
          const { values } = tf.topk(weights, 2);
          const least = values.slice([0, 1], [-1, 1]);
          const chosen = tf.where(tf.greaterEqual(weights, least), weights, tf.zerosLike(weights));
          const shares = tf.div(chosen, tf.sum(chosen, 1, true));
          const mixed = [...this.experts].map((expert, i) =>
            expert.apply(x).mul(shares.slice([0, i], [-1, 1])),
          );
          return this.head.apply(mixed.reduce((sum, part) => sum.add(part)));
        }
      }
      return new Net();
    },
    data: vectors,
    loss: classified,
    parallel: { wrap: { modules: ['experts.*'] } },
  },
  'residual blocks that share a class and a constant, one of them called twice': {
    model: ({ nn, tf }: RankScope) => {
      class Residual extends nn.Module {
        norm = new nn.RMSNorm(7, { eps: 1e-6 });
        fc = new nn.Linear(7, 7);
        scale = new nn.Parameter(tf.fill([7], 0.5));
        forward(x: tfjs.Tensor) {
          const signs = tf.tensor1d([1, -1, 1, -1, 1, -1, 1]);
          return x.add(this.fc.apply(this.norm.apply(x)).tanh().mul(this.scale.tensor).mul(signs));
        }
      }
      class Net extends nn.Module {
        first = new Residual();
        blocks = new nn.Sequential(new Residual(), new Residual(), new Residual());
        head = new nn.Linear(7, 5);
        forward(x: tfjs.Tensor) {
          return this.head.apply(this.blocks.apply(this.first.apply(this.first.apply(x))));
        }
      }
      return new Net();
    },
    data: vectors,
    loss: classified,
  },
  'dropout with probability 0': {
    model: ({ nn }: RankScope) => {
      class Net extends nn.Module {
        fc1 = new nn.Linear(7, 13);
        drop = new nn.Dropout(0);
        fc2 = new nn.Linear(13, 5);
        forward(x: tfjs.Tensor) {
          return this.fc2.apply(this.drop.apply(nn.functional.gelu(this.fc1.apply(x))));
        }
      }
      return new Net();
    },
    data: vectors,
    loss: classified,
  },
  'two inputs': {
    model: ({ nn, tf }: RankScope) => {
      class Net extends nn.Module {
        user = new nn.Embedding(19, 8);
        item = new nn.Embedding(23, 8);
        bilinear = new nn.Linear(8, 8, { bias: false });
        bias = new nn.Parameter(tf.zeros([1]));
        forward(users: tfjs.Tensor, items: tfjs.Tensor) {
          const score = tf.sum(
            tf.mul(this.bilinear.apply(this.user.apply(users)), this.item.apply(items)),
            -1,
          );
          return { score: score.add(this.bias.tensor), norm: tf.mean(tf.square(this.item.apply(items))) };
        }
      }
      return new Net();
    },
    data: ({ tf, rank }: RankScope, index: number) => ({
      inputs: [
        tf.randomUniform([9], 0, 19, 'int32', 100 * index + rank + 1),
        tf.randomUniform([9], 0, 23, 'int32', 100 * index + rank + 51),
      ],
      rating: tf.randomNormal([9], 0, 1, 'float32', 100 * index + rank + 1),
    }),
    loss: (
      { score, norm }: { readonly score: tfjs.Tensor; readonly norm: tfjs.Tensor },
      { rating }: Batch,
      { nn }: RankScope,
    ) => nn.functional.mseLoss(score, rating as tfjs.Tensor).add(norm.mul(0.01)),
  },
  'a ViT': {
    model: ({ nn, tf }: RankScope) => {
      class Net extends nn.Module {
        patches = new nn.Conv2d(3, 16, 4, { stride: 4 });
        token = new nn.Parameter(tf.zeros([1, 1, 16]));
        positions = new nn.Parameter(tf.randomNormal([1, 5, 16], 0, 0.02, 'float32', 7));
        attention = new nn.MultiheadAttention(16, 4, { batchFirst: true });
        norm = new nn.LayerNorm(16);
        head = new nn.Linear(16, 5);
        forward(x: tfjs.Tensor) {
          const [rows = 0] = x.shape;
          const patches = this.patches.apply(x).reshape([rows, 16, 4]).transpose([0, 2, 1]);
          const all = tf
            .concat([this.token.tensor.tile([rows, 1, 1]), patches], 1)
            .add(this.positions.tensor);
          const [mixed] = this.attention.apply(all, all, all, { needWeights: false });
          const first = all.add(mixed).slice([0, 0, 0], [-1, 1, -1]).squeeze([1]);
          return this.head.apply(this.norm.apply(first));
        }
      }
      return new Net();
    },
    data: images,
    loss: classified,
  },
  'a model with parameters that do not reach the loss': {
    model: ({ nn }: RankScope) => {
      class Net extends nn.Module {
        fc1 = new nn.Linear(7, 13);
        fc2 = new nn.Linear(13, 5);
        other = new nn.Linear(13, 3);
        gate = new nn.Linear(13, 13);
        unread = new nn.Linear(2, 2);
        forward(x: tfjs.Tensor) {
          const hidden = this.fc1.apply(x).tanh();
          const isOpen = this.gate.apply(hidden).greater(0);
          return {
            kept: this.fc2.apply(hidden.mul(isOpen.cast('float32'))),
            left: this.other.apply(hidden),
          };
        }
      }
      return new Net();
    },
    data: vectors,
    loss: ({ kept }: Batch, { y }: Batch, { nn }: RankScope) =>
      nn.functional.crossEntropy(kept as tfjs.Tensor, y as tfjs.Tensor),
  },
  'messages along the edges of a graph': {
    model: ({ nn, tf }: RankScope) => {
      class Net extends nn.Module {
        message = new nn.Linear(7, 7);
        update = new nn.Linear(14, 9);
        head = new nn.Linear(9, 1);
        forward(nodes: tfjs.Tensor, from: tfjs.Tensor, to: tfjs.Tensor) {
          const messages = tf.gather(this.message.apply(nodes), from);
          const sums = tf.unsortedSegmentSum(messages, to as tfjs.Tensor1D, 12);
          return this.head.apply(nn.functional.elu(this.update.apply(tf.concat([nodes, sums], 1))));
        }
      }
      return new Net();
    },
    data: ({ tf, rank }: RankScope, index: number) => ({
      inputs: [
        tf.randomNormal([12, 7], 0, 1, 'float32', 100 * index + rank + 1),
        tf.randomUniform([20], 0, 12, 'int32', 100 * index + rank + 1),
        tf.randomUniform([20], 0, 12, 'int32', 100 * index + rank + 51),
      ],
      y: tf.randomNormal([12, 1], 0, 1, 'float32', 100 * index + rank + 51),
    }),
    loss: (output: tfjs.Tensor, { y }: Batch) =>
      output
        .sub(y as tfjs.Tensor)
        .square()
        .mean(),
  },
  'names that Python needs for itself': {
    model: ({ nn, tf }: RankScope) => {
      class Constant extends nn.Module {
        forward(_: tfjs.Tensor) {
          return tf.tensor1d([1, 2, 3, 4, 5, 6, 7]);
        }
      }
      class range extends nn.Module {
        in = new nn.Linear(7, 7);
        forward(self: tfjs.Tensor) {
          return this.in.apply(tf.softmax(self));
        }
      }
      class main extends nn.Module {
        lambda = new nn.Parameter(tf.ones([5]));
        __hidden = new nn.Linear(7, 7);
        self = new range();
        blocks = new nn.ModuleList([new range(), new range()]);
        named = new nn.ModuleDict({ 'a "b"': new nn.Linear(7, 5), 权重: new nn.Linear(5, 5) });
        shift = new Constant();
        forward(F: tfjs.Tensor) {
          let constant = this.self.apply(this.__hidden.apply(tf.softmax(F)));
          constant = constant.add(this.shift.apply(constant));
          for (const block of this.blocks) constant = block.apply(constant);
          for (const key of ['a "b"', '权重']) constant = this.named.get(key)?.apply(constant) ?? constant;
          return constant.mul(this.lambda.tensor);
        }
      }
      return new main();
    },
    data: ({ tf, rank }: RankScope, index: number) => ({
      x: tf.randomNormal([6, 7], 0, 1, 'float32', 100 * index + rank + 1),
      y: tf.randomUniform([6], 0, 5, 'int32', 100 * index + rank + 1),
      '数 "q"': tf.ones([6, 5]),
      model: tf.randomNormal([6, 5], 0, 1, 'float32', 100 * index + rank + 7),
      'a b': tf.randomNormal([6, 5], 0, 1, 'float32', 100 * index + rank + 8),
      a_b: tf.randomNormal([6, 5], 0, 1, 'float32', 100 * index + rank + 9),
      '1a': tf.ones([6, 5]),
    }),
    loss: (output: tfjs.Tensor, batch: Batch, { nn }: RankScope) => {
      const [q, model, first, second, third] = ['数 "q"', 'model', 'a b', 'a_b', '1a'].map(
        (key) => batch[key] as tfjs.Tensor,
      );
      const moved = output.mul(q ?? 1).add(model ?? 0);
      const scaled = moved.add((first ?? output).mul(second ?? 1)).mul(third ?? 1);
      return nn.functional.crossEntropy(scaled, batch.y as tfjs.Tensor);
    },
  },
  'integers, booleans and scalars': {
    model: ({ nn, tf }: RankScope) => {
      class Net extends nn.Module {
        fc = new nn.Linear(7, 5);
        forward(x: tfjs.Tensor) {
          const logits = tf.where(
            tf.tensor1d([true, false, true, true, true], 'bool'),
            this.fc.apply(x),
            tf.fill([5], -3),
          );
          const whole = tf.cast(x.mul(10), 'int32');
          const mean = tf.mean(whole, 1, true).add(tf.mean(x.greater(0), 1, true));
          const product = tf.dot(x.slice([0, 0], [1, 7]).flatten(), x.slice([1, 0], [1, 7]).flatten());
          return tf.reverse(tf.logSigmoid(logits.add(mean))).add(product);
        }
      }
      return new Net();
    },
    data: vectors,
    loss: classified,
  },
} as Readonly<Record<string, unknown>> as Readonly<Record<string, OwnTraining>>; // each model has its own types of outputs and batches
