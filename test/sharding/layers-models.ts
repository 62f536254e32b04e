import { seeded } from '../../src/core/random';
import * as tf from '../../src/core/tf';

interface LayersModelCase {
  create(): tf.LayersModel;
  /** A rank's own batch. */
  batch(rank: number, step: number): { readonly x: tf.Tensor; readonly y: tf.Tensor };
  loss(y: tf.Tensor, predicted: tf.Tensor): tf.Tensor;
}

const BATCH = 4;

const normal = (shape: number[], ...path: (string | number)[]): tf.Tensor => {
  const random = seeded(3, ...path.map(String));
  const size = shape.reduce((product, extent) => product * extent, 1);
  return tf.tensor(
    Float32Array.from({ length: size }, () => random.normal()),
    shape,
  );
};

const init = (seed: number) => tf.initializers.glorotUniform({ seed });
const dense = (units: number, seed: number, more: object = {}): tf.layers.Layer =>
  tf.layers.dense({ name: `dense${seed}`, units, kernelInitializer: init(seed), ...more });

const regression = (inputShape: number[]): Pick<LayersModelCase, 'batch' | 'loss'> => ({
  batch: (rank, step) => ({
    x: normal([BATCH, ...inputShape], 'x', rank, step),
    y: normal([BATCH, 3], 'y', rank, step),
  }),
  loss: (y, predicted) => tf.losses.meanSquaredError(y, predicted),
});

/** tf.LayersModels of every kind; sizes are not multiples of the number of ranks. */
export const LAYERS_MODELS = {
  sequential: {
    create: () =>
      tf.sequential({
        layers: [
          dense(7, 1, { inputShape: [5], activation: 'relu' }),
          dense(6, 2, { activation: 'tanh' }),
          dense(3, 3),
        ],
      }),
    ...regression([5]),
  },
  functional: {
    create() {
      const input = tf.input({ shape: [5] });
      const hidden = dense(5, 4, { activation: 'relu' }).apply(input) as tf.SymbolicTensor;
      const sum = tf.layers.add().apply([input, hidden]) as tf.SymbolicTensor;
      return tf.model({ inputs: input, outputs: dense(3, 5).apply(sum) as tf.SymbolicTensor });
    },
    ...regression([5]),
  },
  convolutional: {
    create: () =>
      tf.sequential({
        layers: [
          tf.layers.conv2d({
            name: 'conv',
            filters: 5,
            kernelSize: 3,
            activation: 'relu',
            inputShape: [8, 8, 2],
            kernelInitializer: init(6),
          }),
          tf.layers.maxPooling2d({ poolSize: 2 }),
          tf.layers.separableConv2d({
            name: 'separable',
            filters: 4,
            kernelSize: 2,
            depthwiseInitializer: init(7),
            pointwiseInitializer: init(8),
          }),
          tf.layers.flatten(),
          dense(3, 9),
        ],
      }),
    ...regression([8, 8, 2]),
  },
  recurrent: {
    create: () =>
      tf.sequential({
        layers: [
          tf.layers.lstm({
            name: 'lstm',
            units: 6,
            inputShape: [9, 4],
            kernelInitializer: init(10),
            recurrentInitializer: init(11),
          }),
          dense(3, 12),
        ],
      }),
    ...regression([9, 4]),
  },
} as const satisfies Record<string, LayersModelCase>;

export type LayersModelName = keyof typeof LAYERS_MODELS;
