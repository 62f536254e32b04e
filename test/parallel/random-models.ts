import * as tf from '@tensorflow/tfjs';
import { type Random, seeded } from '../../src/core/random';
import { type Init, initializer } from '../../src/nn/init';
import { LayerNorm } from '../../src/nn/layer-norm';
import { Linear } from '../../src/nn/linear';
import { Module, ModuleList } from '../../src/nn/module';
import { Parameter } from '../../src/nn/parameter';

/** What a random model is made of, from one seed. */
export interface RandomModel {
  readonly model: Module;
  /** Width of inputs and targets. */
  readonly width: number;
}

/** A block with blocks inside, or none. */
class Nest extends Module {
  readonly #inner: Nest | null;
  readonly #first: Linear;
  readonly #second: Linear;
  readonly #norm: LayerNorm;
  readonly #unused: Parameter;

  constructor(width: number, random: Random, init: Init, depth: number) {
    super();
    const hidden = 1 + random.integer(9);
    this.#norm = this.addChild('norm', new LayerNorm(width, init));
    this.#first = this.addChild('first', new Linear(width, hidden, init.within('first')));
    this.#inner =
      depth > 0 && random.integer(2) === 0
        ? this.addChild('inner', new Nest(hidden, random, init.within('inner'), depth - 1))
        : null;
    this.#second = this.addChild('second', new Linear(hidden, width, init.within('second')));
    this.#unused = new Parameter(tf.ones([1 + random.integer(5), 2]));
    if (random.integer(3) === 0) this.addParameter('unused', this.#unused);
    else this.#unused.tensor.dispose();
  }

  forward(x: tf.Tensor): tf.Tensor {
    const hidden = tf.tanh(this.#first.apply(this.#norm.apply(x)));
    const inner = this.#inner === null ? hidden : this.#inner.apply(hidden);
    return tf.add(x, this.#second.apply(inner));
  }
}

/** A model whose table is used at its begin and its end, as a GPT's is. */
class RandomNet extends Module {
  readonly blocks: ModuleList<Nest>;
  readonly #table: Parameter;
  readonly #isTied: boolean;
  readonly #scale: Parameter;

  constructor(width: number, random: Random) {
    super();
    const init = initializer(random.integer(1e6));
    this.#isTied = random.integer(2) === 0;
    this.#table = this.addParameter('table', init.normal('table', [width, width], 0.3));
    this.#scale = this.addParameter('scale', init.constant([1], 1));
    const count = 1 + random.integer(3);
    const blocks = Array.from({ length: count }, (_, i) => new Nest(width, random, init.within(`${i}`), 2));
    this.blocks = this.addChild('blocks', new ModuleList(blocks));
  }

  forward(x: tf.Tensor, target: tf.Tensor): tf.Tensor {
    let y: tf.Tensor = tf.matMul(x as tf.Tensor2D, this.#table.tensor as tf.Tensor2D);
    for (const block of this.blocks) y = block.apply(y);
    if (this.#isTied) y = tf.matMul(y as tf.Tensor2D, this.#table.tensor as tf.Tensor2D, false, true);
    return tf.mean(tf.square(tf.sub(tf.mul(y, this.#scale.tensor), target)));
  }
}

/** The same model on every rank: sizes that fit no number of ranks, nested blocks, tied and unused parameters. */
export function randomModel(seed: number): RandomModel {
  const random = seeded(seed, 'random model');
  const width = 2 + random.integer(11);
  return { model: new RandomNet(width, random), width };
}
