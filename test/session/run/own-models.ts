import type { Tensor } from '@tensorflow/tfjs';
import { IMAGE_MODELS } from './own-image-models';
import { SEQUENCE_MODELS } from './own-sequence-models';
import type { OwnModel, OwnScope } from './own-values';

/*
 * Models of a user's own, as a notebook has them. Ranks get each function as source code, so it contains all it needs besides
 * the variable `values`. All ranks together train on the same rows, whatever their number: test/data/own_models_reference.py has
 * the same models in torch.
 */

interface Batch {
  readonly x: Tensor;
  readonly y: Tensor;
}

const regression = {
  data: ({ values, ...place }: OwnScope, index: number) => {
    const x = values.numbers(place, 100 + 2 * index, 7);
    return { x, y: place.tf.sum(x, 1, true) };
  },
  loss: (output: Tensor, { y }: Batch, { tf }: OwnScope): Tensor => tf.losses.meanSquaredError(y, output),
};

const residual = {
  ...regression,
  model: ({ nn, tf, values }: OwnScope) => {
    class Block extends nn.Module {
      readonly norm = new nn.LayerNorm(10);
      readonly up = new nn.Linear(10, 20);
      readonly down = new nn.Linear(20, 10);
      forward(x: Tensor): Tensor {
        return tf.add(x, this.down.apply(nn.functional.gelu(this.up.apply(this.norm.apply(x)))));
      }
    }
    class Net extends nn.Module {
      readonly stem = new nn.Linear(7, 10);
      readonly blocks = new nn.ModuleList([new Block(), new Block()]);
      readonly head = new nn.Linear(10, 1);
      forward(x: Tensor): Tensor {
        let y: Tensor = this.stem.apply(x);
        for (const block of this.blocks) y = block.apply(y);
        return this.head.apply(y);
      }
    }
    return values.fill(new Net());
  },
};

/** Each row has 4 pairs, and the other 3 pairs of its row are a pair's negatives: the loss does not depend on the ranks. */
const towers = {
  model: ({ nn, tf, values }: OwnScope) => {
    class Towers extends nn.Module {
      readonly left = new nn.Sequential([new nn.Linear(7, 16), new nn.ReLU(), new nn.Linear(16, 5)]);
      readonly right = new nn.Sequential([new nn.Linear(6, 16), new nn.Tanh(), new nn.Linear(16, 5)]);
      readonly temperature = new nn.Parameter(tf.zeros([1]));
      forward(a: Tensor, b: Tensor): [Tensor, Tensor] {
        const [left, right] = [this.left.apply(a), this.right.apply(b)].map((side: Tensor) =>
          nn.functional.normalize(side, { dim: -1 }),
        ) as [Tensor, Tensor];
        const logits = tf.mul(tf.matMul(left, right, false, true), tf.exp(this.temperature.tensor));
        return [logits, tf.transpose(logits, [0, 2, 1])];
      }
    }
    return values.fill(new Towers());
  },
  data: ({ values, ...place }: OwnScope, index: number) => ({
    inputs: [values.numbers(place, 100 + 2 * index, 4, 7), values.numbers(place, 101 + 2 * index, 4, 6)],
    own: place.tf.tile(place.tf.range(0, 4, 1, 'int32'), [12 / place.worldSize]),
  }),
  loss: (
    [there, back]: readonly [Tensor, Tensor],
    { own }: { readonly own: Tensor },
    { nn, tf }: OwnScope,
  ): Tensor => {
    const lossOf = (logits: Tensor): Tensor => nn.functional.crossEntropy(logits.reshape([-1, 4]), own);
    return tf.div(tf.add(lossOf(there), lossOf(back)), 2);
  },
};

/** The two experts with the largest gates see a row. */
const mixture = {
  ...regression,
  model: ({ nn, tf, values }: OwnScope) => {
    class Expert extends nn.Module {
      readonly up = new nn.Linear(8, 12);
      readonly down = new nn.Linear(12, 8);
      forward(x: Tensor): Tensor {
        return this.down.apply(nn.functional.silu(this.up.apply(x)));
      }
    }
    class Mixture extends nn.Module {
      readonly router = new nn.Linear(8, 4);
      readonly experts = new nn.ModuleList(Array.from({ length: 4 }, () => new Expert()));
      readonly head = new nn.Linear(8, 1);
      forward(x: Tensor) {
        const gates = tf.softmax(this.router.apply(x));
        const second = tf.slice(tf.topk(gates, 2).values, [0, 1], [-1, 1]);
        const chosen = tf.mul(gates, tf.cast(tf.greaterEqual(gates, second), 'float32'));
        const shares = tf.split(tf.div(chosen, tf.sum(chosen, 1, true)), 4, 1);
        let y = x;
        [...this.experts].forEach((expert, i) => {
          y = tf.add(y, tf.mul(shares[i] as Tensor, expert.apply(x)));
        });
        return { y: this.head.apply(y), balance: tf.mean(tf.sum(tf.square(gates), 1)) };
      }
    }
    return values.fill(new Mixture());
  },
  data: ({ values, ...place }: OwnScope, index: number) => {
    const x = values.numbers(place, 100 + 2 * index, 8);
    return { x, y: place.tf.sum(x, 1, true) };
  },
  loss: (
    output: { readonly y: Tensor; readonly balance: Tensor },
    { y }: Batch,
    { nn, tf }: OwnScope,
  ): Tensor => tf.add(nn.functional.mseLoss(output.y, y), tf.mul(0.01, output.balance)),
};

const autoencoder = {
  model: ({ nn, tf, values }: OwnScope) => {
    class Net extends nn.Module {
      readonly encoder = new nn.Sequential([new nn.Linear(7, 16), new nn.ReLU(), new nn.Linear(16, 3)]);
      readonly decoder = new nn.Sequential([new nn.Linear(3, 16), new nn.ReLU(), new nn.Linear(16, 7)]);
      forward(x: Tensor) {
        const code: Tensor = this.encoder.apply(x);
        return { code, image: tf.tanh(this.decoder.apply(code)) };
      }
    }
    return values.fill(new Net());
  },
  // Nested arrays become tensors.
  data: ({ values, ...place }: OwnScope, index: number) => ({
    x: values.numbers(place, 100 + 2 * index, 7).arraySync() as number[][],
  }),
  loss: (
    { code, image }: { readonly code: Tensor; readonly image: Tensor },
    { x }: Batch,
    { tf }: OwnScope,
  ): Tensor => tf.add(tf.losses.meanSquaredError(x, image), tf.mul(0.1, tf.mean(tf.square(code)))),
};

/** The first part and one in the middle do not train, and `body` without its bias. */
const frozen = {
  ...regression,
  model: async ({ nn, tf, values }: OwnScope) => {
    class Net extends nn.Module {
      readonly encoder = new nn.Linear(7, 12);
      readonly norm = new nn.LayerNorm(12);
      readonly stem = new nn.Linear(12, 12);
      readonly middle = new nn.Linear(12, 12);
      readonly body = new nn.Linear(12, 12);
      readonly head = new nn.Linear(12, 1);
      forward(x: Tensor): Tensor {
        const stem: Tensor = this.stem.apply(this.norm.apply(this.encoder.apply(x)));
        const middle: Tensor = this.middle.apply(tf.relu(stem));
        return this.head.apply(tf.relu(this.body.apply(tf.relu(middle))));
      }
    }
    const net = values.fill(new Net());
    await Promise.resolve();
    nn.freeze(net, ['encoder', 'norm', 'middle', 'body.bias']);
    return net;
  },
};

/** `block` runs three times. The model's output is the loss. */
const reused = {
  model: ({ nn, tf, values }: OwnScope) => {
    class Block extends nn.Module {
      readonly norm = new nn.LayerNorm(12);
      readonly linear = new nn.Linear(12, 12);
      forward(x: Tensor): Tensor {
        return tf.add(x, tf.relu(this.linear.apply(this.norm.apply(x))));
      }
    }
    class Net extends nn.Module {
      readonly stem = new nn.Linear(7, 12);
      readonly block = new Block();
      readonly head = new nn.Linear(12, 1);
      readonly offset = new nn.Buffer(tf.ones([12]));
      forward(x: Tensor, y: Tensor): Tensor {
        let h: Tensor = tf.add(this.stem.apply(x), this.offset.tensor);
        for (let i = 0; i < 3; i++) h = this.block.apply(h);
        return tf.mean(tf.square(tf.sub(this.head.apply(h), y)));
      }
    }
    return values.fill(new Net());
  },
  data: ({ values, ...place }: OwnScope, index: number) => {
    const x = values.numbers(place, 100 + 2 * index, 7);
    return { inputs: [x, place.tf.sum(x, 1, true)] };
  },
};

const layers = {
  ...regression,
  model: ({ tf, values }: OwnScope) => {
    const model = tf.sequential({
      layers: [
        tf.layers.dense({ name: 'first', units: 13, inputShape: [7], activation: 'relu' }),
        tf.layers.layerNormalization({ name: 'norm' }),
        tf.layers.dense({ name: 'last', units: 1 }),
      ],
    });
    // A second model of a process gets other names of variables.
    const names = ['first.kernel', 'first.bias', 'norm.gamma', 'norm.beta', 'last.kernel', 'last.bias'];
    model.setWeights(
      model
        .getWeights()
        .map(({ shape, size }, i) => tf.tensor(values.first(names, names[i] ?? '', size), shape)),
    );
    return model;
  },
};

/** The user's own models of the tests. */
export const OWN: Readonly<Record<string, OwnModel>> = {
  'a residual MLP': { parts: residual, wrap: 'blocks' },
  ...IMAGE_MODELS,
  ...SEQUENCE_MODELS,
  'two towers with a contrastive loss': { parts: towers, wrap: { modules: ['left', 'right'] } },
  'a mixture of experts': { parts: mixture, wrap: { layerCls: ['Expert'] } },
  'an autoencoder with two losses': { parts: autoencoder, wrap: { modules: ['encoder', 'decoder'] } },
  'a model with frozen parts': { parts: frozen, wrap: { modules: ['encoder', 'middle', 'body'] } },
  'a model that reuses a layer': { parts: reused, wrap: { modules: ['block'] } },
  'a tf.LayersModel': { parts: layers, wrap: { modules: ['first', 'last'] } },
};
