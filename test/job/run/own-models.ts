import type { Tensor } from '@tensorflow/tfjs';
import type { RankScope } from '../../../src/job/rank/scope';

/*
 * Models of a user's own, as a notebook has them. Ranks get each function as source code, so it contains all it needs. All ranks
 * together train on the same 8 rows, whatever their number.
 */

interface Batch {
  readonly x: Tensor;
  readonly y: Tensor;
}

const regression = {
  model: ({ nn, tf }: RankScope) => {
    class Net extends nn.Module {
      readonly a = new nn.Linear(7, 13);
      readonly b = new nn.Linear(13, 1);
      forward(x: Tensor) {
        return this.b.apply(tf.relu(this.a.apply(x)));
      }
    }
    return new Net();
  },
  data: ({ tf, rank, worldSize }: RankScope, index: number) => {
    const rows = 8 / worldSize;
    const all = tf.randomNormal([8, 7], 0, 1, 'float32', 1 + index);
    const x = all.slice([rank * rows, 0], [rows, 7]);
    return { x, y: tf.sum(x, 1, true) };
  },
  loss: (output: Tensor, { y }: Batch, { tf }: RankScope): Tensor => tf.losses.meanSquaredError(y, output),
};

const gpt = {
  model: ({ nn, tf }: RankScope) => {
    class Layer extends nn.Module {
      readonly norm = new nn.LayerNorm(16);
      readonly q = new nn.Linear(16, 16);
      readonly k = new nn.Linear(16, 16, { bias: false });
      readonly v = new nn.Linear(16, 16);
      readonly up = new nn.Linear(16, 32);
      readonly down = new nn.Linear(32, 16);
      forward(x: Tensor) {
        const seq = x.shape[1] ?? 0;
        const past = tf.linalg.bandPart(tf.ones([seq, seq]), -1, 0);
        const h = this.norm.apply(x);
        const scores = tf.div(tf.matMul(this.q.apply(h), this.k.apply(h), false, true), 4);
        const weights = tf.softmax(tf.add(scores, tf.mul(tf.sub(past, 1), 1e9)));
        const attended = tf.add(x, tf.matMul(weights, this.v.apply(h)));
        return tf.add(attended, this.down.apply(tf.relu(this.up.apply(attended))));
      }
    }
    class Gpt extends nn.Module {
      readonly wte = new nn.Embedding(40, 16);
      readonly layers = new nn.ModuleList([new Layer(), new Layer()]);
      readonly norm = new nn.LayerNorm(16);
      readonly head = new nn.Linear(16, 40, { bias: false });
      constructor() {
        super();
        Object.assign(this.head, { weight: this.wte.weight });
      }
      forward(ids: Tensor) {
        let x: Tensor = this.wte.apply(ids);
        for (const layer of this.layers) x = layer.apply(x);
        return this.head.apply(this.norm.apply(x));
      }
    }
    return new Gpt();
  },
  data: ({ tf, rank, worldSize }: RankScope, index: number) => {
    const rows = 8 / worldSize;
    const ids = Array.from({ length: rows * 13 }, (_, i) => {
      const row = rank * rows + Math.floor(i / 13);
      return (row * row + 3 * (i % 13) + index * 7) % 40;
    });
    const tokens = tf.tensor(ids, [rows, 13], 'int32');
    return { x: tokens.slice([0, 0], [rows, 12]), y: tokens.slice([0, 1], [rows, 12]).flatten() };
  },
  loss: (output: Tensor, { y }: Batch, { nn }: RankScope): Tensor =>
    nn.functional.crossEntropy(output.reshape([-1, 40]), y),
};

/** `encoder` does not train, and `block` runs twice. Its output is the loss. */
const partlyFrozen = {
  model: async ({ nn, tf }: RankScope) => {
    class Net extends nn.Module {
      readonly encoder = new nn.Linear(7, 12);
      readonly block = new nn.Linear(12, 12);
      readonly head = new nn.Linear(12, 1);
      readonly offset = new nn.Buffer(tf.ones([12]));
      forward(x: Tensor, y: Tensor) {
        const once = tf.relu(this.block.apply(tf.add(this.encoder.apply(x), this.offset.tensor)));
        return tf.mean(tf.square(tf.sub(this.head.apply(tf.relu(this.block.apply(once))), y)));
      }
    }
    const net = new Net();
    await Promise.resolve();
    nn.freeze(net, ['encoder']);
    return net;
  },
  data: ({ tf, rank, worldSize }: RankScope, index: number) => {
    const rows = 8 / worldSize;
    const all = tf.randomNormal([8, 7], 0, 1, 'float32', 1 + index);
    const x = all.slice([rank * rows, 0], [rows, 7]);
    return { inputs: [x, tf.sum(x, 1, true)] };
  },
};

const autoencoder = {
  model: ({ nn, tf }: RankScope) => {
    class Net extends nn.Module {
      readonly encoder = new nn.Sequential([new nn.Linear(7, 16), new nn.ReLU(), new nn.Linear(16, 3)]);
      readonly decoder = new nn.Sequential([new nn.Linear(3, 16), new nn.ReLU(), new nn.Linear(16, 7)]);
      forward(x: Tensor) {
        const code: Tensor = this.encoder.apply(x);
        return { code, image: tf.tanh(this.decoder.apply(code)) };
      }
    }
    return new Net();
  },
  data: ({ rank, worldSize }: RankScope, index: number) => {
    const rows = 8 / worldSize;
    const value = (row: number, at: number): number => Math.sin(row * 3 + at * 5 + index);
    return {
      x: Array.from({ length: rows }, (_, row) =>
        Array.from({ length: 7 }, (_, at) => value(rank * rows + row, at)),
      ),
    };
  },
  loss: (
    { code, image }: { readonly code: Tensor; readonly image: Tensor },
    { x }: Batch,
    { tf }: RankScope,
  ): Tensor => tf.add(tf.losses.meanSquaredError(x, image), tf.mul(0.1, tf.mean(tf.square(code)))),
};

const layers = {
  ...regression,
  model: ({ tf }: RankScope) => {
    // A name of tfjs counts the layers of a process, so it would differ between ranks.
    const ends = (inputs: number, outputs: number) => ({
      name: `from${inputs}`,
      units: outputs,
      inputShape: [inputs],
      kernelInitializer: tf.initializers.glorotUniform({ seed: inputs }),
    });
    return tf.sequential({
      layers: [tf.layers.dense({ ...ends(7, 13), activation: 'relu' }), tf.layers.dense(ends(13, 1))],
    });
  },
};

/** The user's own models of the tests, and the modules that become units besides the root. */
export const OWN: Readonly<
  Record<
    string,
    { readonly parts: object; readonly wrap: 'blocks' | 'root' | { readonly modules: readonly string[] } }
  >
> = {
  'an MLP for a regression': { parts: regression, wrap: { modules: ['a', 'b'] } },
  'a tied GPT written by hand': { parts: gpt, wrap: 'blocks' },
  'a model with a frozen part and a layer that runs twice': {
    parts: partlyFrozen,
    wrap: { modules: ['encoder', 'block'] },
  },
  'a tf.LayersModel': { parts: layers, wrap: 'root' },
  'an autoencoder with two losses': { parts: autoencoder, wrap: { modules: ['encoder', 'decoder'] } },
};
