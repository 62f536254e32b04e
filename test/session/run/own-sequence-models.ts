import type { Tensor } from '@tensorflow/tfjs';
import { testData } from '../../support/paths';
import type { OwnModel, OwnScope } from './own-values';

interface Batch {
  readonly y: Tensor;
}

const classifier = {
  model: ({ nn, tf, values }: OwnScope) => {
    class Classifier extends nn.Module {
      readonly embedding = new nn.Embedding(20, 6);
      readonly lstm = new nn.LSTM(6, 8, { numLayers: 2, batchFirst: true, bidirectional: true });
      readonly head = new nn.Linear(16, 4);
      forward(ids: Tensor): Tensor {
        const [, [h]] = this.lstm.apply(this.embedding.apply(ids));
        const ends = tf.unstack(h).slice(-2);
        return this.head.apply(tf.concat(ends, 1));
      }
    }
    return values.fill(new Classifier());
  },
  data: ({ values, ...place }: OwnScope, index: number) => ({
    x: values.labels(place, index, 20, 9),
    y: values.labels(place, index, 4),
  }),
  loss: (output: Tensor, { y }: Batch, { nn }: OwnScope): Tensor => nn.functional.crossEntropy(output, y),
};

const gpt = {
  model: ({ nn, tf, values }: OwnScope) => {
    class Layer extends nn.Module {
      readonly norm = new nn.LayerNorm(16);
      readonly q = new nn.Linear(16, 16);
      readonly k = new nn.Linear(16, 16, { bias: false });
      readonly v = new nn.Linear(16, 16);
      readonly up = new nn.Linear(16, 32);
      readonly down = new nn.Linear(32, 16);
      forward(x: Tensor): Tensor {
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
      forward(ids: Tensor): Tensor {
        let x: Tensor = this.wte.apply(ids);
        for (const layer of this.layers) x = layer.apply(x);
        return this.head.apply(this.norm.apply(x));
      }
    }
    return values.fill(new Gpt());
  },
  data: ({ values, ...place }: OwnScope, index: number) => {
    const tokens = values.labels(place, index, 40, 13);
    return { x: tokens.slice([0, 0], [-1, 12]), y: tokens.slice([0, 1], [-1, 12]).flatten() };
  },
  loss: (output: Tensor, { y }: Batch, { nn }: OwnScope): Tensor =>
    nn.functional.crossEntropy(output.reshape([-1, 40]), y),
};

const llama = {
  model: { from: testData('pretrained', 'llama') },
  data: ({ values, ...place }: OwnScope, index: number) => {
    const tokens = values.labels(place, index, 96, 13);
    return { x: tokens.slice([0, 0], [-1, 12]), y: tokens.slice([0, 1], [-1, 12]).flatten() };
  },
  loss: (output: Tensor, { y }: Batch, { nn }: OwnScope): Tensor =>
    nn.functional.crossEntropy(output.reshape([-1, 96]), y),
};

/** The user's own models of sequences, and a Llama of a folder with a loss and data of the user's own. */
export const SEQUENCE_MODELS: Readonly<Record<string, OwnModel>> = {
  'an LSTM classifier': { parts: classifier, wrap: { modules: ['embedding', 'lstm'] } },
  'a tied GPT': { parts: gpt, wrap: 'blocks' },
  'a Llama of a folder': { parts: llama, wrap: 'blocks' },
};
