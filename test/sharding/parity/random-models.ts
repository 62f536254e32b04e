import { type Random, seeded } from '../../../src/core/random';
import * as tf from '../../../src/core/tf';
import { ModuleList } from '../../../src/nn/containers';
import { constant, normal } from '../../../src/nn/init';
import { Linear } from '../../../src/nn/linear';
import { Module } from '../../../src/nn/module';
import { LayerNorm } from '../../../src/nn/norms';
import { Parameter } from '../../../src/nn/parameter';

/** The parts of a random model, from one seed. */
export interface RandomModel {
  readonly model: Module;
  /** Width of inputs and targets. */
  readonly width: number;
}

/** A block with blocks inside, or none. */
class Nest extends Module {
  readonly inner: Nest | null;
  readonly first: Linear;
  readonly second: Linear;
  readonly norm: LayerNorm;
  readonly unused: Parameter | null;

  constructor(width: number, random: Random, depth: number) {
    super();
    const hidden = 1 + random.integer(9);
    this.norm = new LayerNorm(width);
    this.first = new Linear(width, hidden);
    this.inner = depth > 0 && random.integer(2) === 0 ? new Nest(hidden, random, depth - 1) : null;
    this.second = new Linear(hidden, width);
    const rows = 1 + random.integer(5);
    this.unused = random.integer(3) === 0 ? new Parameter(tf.ones([rows, 2])) : null;
  }

  forward(x: tf.Tensor): tf.Tensor {
    const hidden = tf.tanh(this.first.apply(this.norm.apply(x)));
    const inner = this.inner === null ? hidden : this.inner.apply(hidden);
    return tf.add(x, this.second.apply(inner));
  }
}

/** A model that uses its table at its start and at its end, as a GPT does. */
class RandomNet extends Module {
  readonly blocks: ModuleList<Nest>;
  readonly table: Parameter;
  readonly #isTied: boolean;
  readonly scale: Parameter;

  constructor(width: number, random: Random) {
    super();
    this.manualSeed(random.integer(1e6));
    this.#isTied = random.integer(2) === 0;
    this.table = Parameter.deferred([width, width], normal(0.3));
    this.scale = Parameter.deferred([1], constant(1));
    const count = 1 + random.integer(3);
    this.blocks = new ModuleList(Array.from({ length: count }, () => new Nest(width, random, 2)));
  }

  forward(x: tf.Tensor, target: tf.Tensor): tf.Tensor {
    let y: tf.Tensor = tf.matMul(x as tf.Tensor2D, this.table.tensor as tf.Tensor2D);
    for (const block of this.blocks) y = block.apply(y);
    if (this.#isTied) y = tf.matMul(y as tf.Tensor2D, this.table.tensor as tf.Tensor2D, false, true);
    return tf.mean(tf.square(tf.sub(tf.mul(y, this.scale.tensor), target)));
  }
}

/** The same model on every rank: sizes that no number of ranks divides, nested blocks, tied and unused parameters. */
export function randomModel(seed: number): RandomModel {
  const random = seeded(seed, 'random model');
  const width = 2 + random.integer(11);
  return { model: new RandomNet(width, random), width };
}
