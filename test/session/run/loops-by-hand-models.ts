import type { Tensor } from '@tensorflow/tfjs';
import type { RankScope } from '../../../src/launch/rank/scope';

/*
 * What the tests of loops by hand train. Ranks get each function as source code, so it contains all it needs.
 */

interface Batch {
  readonly inputs: readonly Tensor[];
  readonly y?: Tensor;
}

/** A model, the batches of microbatches, and the modules that become units besides the root. */
export interface LoopModel {
  readonly model: (scope: RankScope) => object;
  readonly data: (scope: RankScope, index: number) => Batch;
  /** The loss of the model's output; undefined: the output is the loss. */
  readonly loss?: (output: Tensor, batch: Batch, scope: RankScope) => Tensor;
  readonly units: readonly string[];
}

function tokens({ tf, rank }: RankScope, index: number): Batch {
  const start = index * 7919 + rank * 104729;
  const rows = Array.from({ length: 36 }, (_, i) => (start + i * i * 31) % 48);
  const ids = rows.filter((_, i) => i % 9 !== 8);
  const targets = rows.filter((_, i) => i % 9 !== 0);
  return { inputs: [tf.tensor(ids, [4, 8], 'int32'), tf.tensor(targets, [32], 'int32')] };
}

/** A language model of the library. */
const gpt: LoopModel = {
  model: ({ nn }) => nn.gpt({ layers: 2, dim: 16, heads: 2, vocab: 48, seq: 8 }),
  data: tokens,
  units: ['blocks.0', 'blocks.1'],
};

const moe: LoopModel = {
  model: ({ nn }) => nn.moe({ layers: 2, dim: 16, heads: 2, vocab: 48, seq: 8, experts: 2 }),
  data: tokens,
  units: ['blocks.0', 'blocks.1'],
};

/** A module of the user's own, with the buffers of its norms, a recurrent layer, and a part that does not train. */
const own: LoopModel = {
  model: ({ nn, tf }) => {
    class Block extends nn.Module {
      readonly conv = new nn.Conv2d(4, 4, 3, { padding: 1, bias: false });
      readonly norm = new nn.BatchNorm2d(4);
      forward(x: Tensor): Tensor {
        return tf.relu(tf.add(x, this.norm.apply(this.conv.apply(x))));
      }
    }
    class Net extends nn.Module {
      readonly stem = new nn.Conv2d(3, 4, 3, { padding: 1 });
      readonly stages = new nn.ModuleList([new Block(), new Block()]);
      readonly rows = new nn.LSTM(24, 8, { batchFirst: true });
      readonly head = new nn.Linear(8, 5);
      forward(x: Tensor, labels: Tensor): Tensor {
        let h = tf.relu(this.stem.apply(x));
        for (const stage of this.stages) h = stage.apply(h);
        const rows = tf.reshape(tf.transpose(h, [0, 2, 1, 3]), [h.shape[0] ?? 0, 6, 24]);
        const [output] = this.rows.apply(rows);
        return nn.functional.crossEntropy(this.head.apply(tf.mean(output, 1)), labels);
      }
    }
    const net = new Net();
    nn.freeze(net, ['stem']);
    return net;
  },
  data: ({ tf, rank }, index) => {
    const pixels = Array.from({ length: 3 * 3 * 6 * 6 }, (_, i) => Math.sin(i * 3 + rank * 5 + index));
    return {
      inputs: [tf.tensor(pixels, [3, 3, 6, 6]), tf.tensor([index % 5, 1, (rank + 2) % 5], [3], 'int32')],
    };
  },
  units: ['stages.0', 'stages.1', 'rows'],
};

/** A model of tfjs; its loss is computed outside of it. */
const layers: LoopModel = {
  model: ({ tf }) => {
    const ends = (inputs: number, outputs: number) => ({
      name: `from${inputs}`,
      units: outputs,
      inputShape: [inputs],
      kernelInitializer: tf.initializers.glorotUniform({ seed: inputs }),
    });
    return tf.sequential({
      layers: [tf.layers.dense({ ...ends(7, 13), activation: 'relu' }), tf.layers.dense(ends(13, 3))],
    });
  },
  data: ({ tf, rank }, index) => {
    const values = Array.from({ length: 28 }, (_, i) => Math.cos(i * 2 + rank * 3 + index));
    return { inputs: [tf.tensor(values, [4, 7])], y: tf.tensor(values.slice(0, 12), [4, 3]) };
  },
  loss: (output, { y }, { tf }) => tf.losses.meanSquaredError(y ?? 0, output),
  units: [],
};

export const LOOP_MODELS = { gpt, own, layers, moe } as const;
