import { requireOptions } from '../../config';
import type * as tf from '../../core/tf';
import { Module } from '../module';
import { type TorchLayer, torchLayer } from '../torch-layer';
import * as functional from './activation-functions';
import { GELU as GELU_OPTIONS } from './function-options';

/** Returns max(x, 0). Source: torch.nn.ReLU. */
export class ReLU extends Module {
  override get torchLayer(): TorchLayer {
    return torchLayer('ReLU');
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.relu(x);
  }
}

/** Returns min(max(x, 0), 6). Source: torch.nn.ReLU6. */
export class ReLU6 extends Module {
  override get torchLayer(): TorchLayer {
    return torchLayer('ReLU6');
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.relu6(x);
  }
}

/** Returns x for positive x, else negativeSlope · x. Source: torch.nn.LeakyReLU. */
export class LeakyReLU extends Module {
  readonly #slope: number;

  constructor(negativeSlope = 0.01) {
    super();
    this.#slope = negativeSlope;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('LeakyReLU', [], { negative_slope: [this.#slope, 0.01] });
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.leakyRelu(x, this.#slope);
  }
}

/** Returns x for positive x, else alpha (e^x − 1). Source: torch.nn.ELU. */
export class ELU extends Module {
  readonly #alpha: number;

  constructor(alpha = 1) {
    super();
    this.#alpha = alpha;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('ELU', [], { alpha: [this.#alpha, 1] });
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.elu(x, this.#alpha);
  }
}

/** Returns GELU(x): exact by default, or its tanh approximation. Source: torch.nn.GELU. */
export class GELU extends Module {
  readonly #approximate: 'none' | 'tanh';

  constructor(options: { readonly approximate?: 'none' | 'tanh' } = {}) {
    super();
    const { approximate = 'none' } = requireOptions('nn.GELU', options, GELU_OPTIONS);
    this.#approximate = approximate;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('GELU', [], { approximate: [this.#approximate, 'none'] });
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.gelu(x, { approximate: this.#approximate });
  }
}

/** Returns x · sigmoid(x). Source: torch.nn.SiLU. */
export class SiLU extends Module {
  override get torchLayer(): TorchLayer {
    return torchLayer('SiLU');
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.silu(x);
  }
}

/** Returns x · tanh(softplus(x)). Source: torch.nn.Mish. */
export class Mish extends Module {
  override get torchLayer(): TorchLayer {
    return torchLayer('Mish');
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.mish(x);
  }
}

/** Returns log(1 + e^x). Source: torch.nn.Softplus. */
export class Softplus extends Module {
  override get torchLayer(): TorchLayer {
    return torchLayer('Softplus');
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.softplus(x);
  }
}

/** Returns tanh(x). Source: torch.nn.Tanh. */
export class Tanh extends Module {
  override get torchLayer(): TorchLayer {
    return torchLayer('Tanh');
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.tanh(x);
  }
}

/** Returns 1 / (1 + e^−x). Source: torch.nn.Sigmoid. */
export class Sigmoid extends Module {
  override get torchLayer(): TorchLayer {
    return torchLayer('Sigmoid');
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.sigmoid(x);
  }
}

/** Returns the softmax along `dim`, by default the last dim. Source: torch.nn.Softmax. */
export class Softmax extends Module {
  readonly #dim: number;

  constructor(dim = -1) {
    super();
    this.#dim = dim;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('Softmax', [this.#dim]);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.softmax(x, this.#dim);
  }
}

/** Returns the logarithm of the softmax along `dim`, by default the last dim. Source: torch.nn.LogSoftmax. */
export class LogSoftmax extends Module {
  readonly #dim: number;

  constructor(dim = -1) {
    super();
    this.#dim = dim;
  }

  override get torchLayer(): TorchLayer {
    return torchLayer('LogSoftmax', [this.#dim]);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return functional.logSoftmax(x, this.#dim);
  }
}
