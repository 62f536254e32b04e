import type { Tensor } from '@tensorflow/tfjs';
import type { Module } from '../../../src/nn/module';
import type { OwnModel, OwnScope } from './own-values';

interface Batch {
  readonly y: Tensor;
}

/** Its two stages can be wrapped. */
interface Staged extends Module {
  readonly first: Module;
  readonly second: Module;
}

/** A ResNet whose batch norms see the rows of all ranks. */
export const RESNET = {
  model: ({ nn, tf, values, worldSize }: OwnScope): Staged => {
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
    const model = values.fill(new ResNet());
    return worldSize > 1 ? nn.SyncBatchNorm.convertSyncBatchnorm(model) : model;
  },
  data: ({ values, ...place }: OwnScope, index: number) => ({
    x: values.numbers(place, 100 + 2 * index, 3, 8, 8),
    y: values.labels(place, index, 5),
  }),
  loss: (output: Tensor, { y }: Batch, { nn }: OwnScope): Tensor => nn.functional.crossEntropy(output, y),
};

const unet = {
  model: ({ nn, tf, values }: OwnScope) => {
    class Conv extends nn.Module {
      readonly conv: InstanceType<typeof nn.Conv2d>;
      readonly norm: InstanceType<typeof nn.GroupNorm>;
      constructor(inputs: number, outputs: number) {
        super();
        this.conv = new nn.Conv2d(inputs, outputs, 3, { padding: 1 });
        this.norm = new nn.GroupNorm(2, outputs);
      }
      forward(x: Tensor): Tensor {
        return nn.functional.silu(this.norm.apply(this.conv.apply(x)));
      }
    }
    class UNet extends nn.Module {
      readonly down = new Conv(2, 4);
      readonly middle = new Conv(4, 8);
      readonly up = new nn.ConvTranspose2d(8, 4, 2, { stride: 2 });
      readonly last = new nn.Conv2d(8, 1, 3, { padding: 1 });
      forward(x: Tensor): Tensor {
        const wide: Tensor = this.down.apply(x);
        const back = this.up.apply(this.middle.apply(nn.functional.maxPool2d(wide, 2)));
        return this.last.apply(tf.concat([wide, back], 1));
      }
    }
    return values.fill(new UNet());
  },
  data: ({ values, ...place }: OwnScope, index: number) => ({
    x: values.numbers(place, 100 + 2 * index, 2, 8, 8),
    y: values.numbers(place, 101 + 2 * index, 1, 8, 8),
  }),
  loss: (output: Tensor, { y }: Batch, { nn }: OwnScope): Tensor => nn.functional.mseLoss(output, y),
};

/** The user's own models of images. */
export const IMAGE_MODELS: Readonly<Record<string, OwnModel>> = {
  'a ResNet with batch norms': {
    parts: RESNET,
    wrap: { modules: ['first', 'second'] },
    optimizer: { kind: 'sgd', lr: 0.05, momentum: 0.9 },
  },
  'a U-Net': { parts: unet, wrap: { modules: ['down', 'middle', 'up'] } },
};
