import { ConfigError, classOf, ShardlabError } from '../core';
import * as tf from '../core/tf';

/** The members of a parameter that functions of its gradient use. */
export interface Graded {
  readonly name: string;
  readonly shape: readonly number[];
  readonly size: number;
  readonly requiresGrad: boolean;
  /** Whether a strategy has replaced the state buffer. */
  readonly isAdopted: boolean;
  readonly state: { readonly name: string };
}

/** The gradients of a strategy's parameters, as a program reads and sets them: this rank's rows of each parameter. */
export interface ParameterGradients {
  /** The shape of this rank's rows of a parameter. */
  shapeOf(parameter: Graded): readonly number[];
  /** Returns a copy of this rank's rows of the gradient, which remains the same tensor until it is set; null if there is none. */
  read(parameter: Graded): tf.Tensor | null;
  /** Replaces this rank's rows of the gradient and takes ownership of `grad`; the caller owns the tensor that `read` returned. */
  write(parameter: Graded, grad: tf.Tensor | null): void;
}

/** Throws: CONFIG for a gradient that is not a float32 tensor; SHAPE for a gradient of another shape. */
export function requireGradient(parameter: Graded, grad: unknown, shape: readonly number[]): void {
  if (grad === null) return;
  const { name, isAdopted } = parameter;
  if (!(grad instanceof tf.Tensor) || grad.dtype !== 'float32') {
    const got = grad instanceof tf.Tensor ? `a tensor of ${grad.dtype}` : classOf(grad);
    throw new ConfigError(`${name}.grad takes a float32 tensor or null, not ${got}`);
  }
  if (grad.shape.join() === shape.join()) return;
  const why = isAdopted
    ? `the parameter [${parameter.shape}] is sharded, so its grad has this rank's rows only; write for example ` +
      `parameter.grad = parameter.grad.mul(0.5)`
    : 'give the shape of the parameter';
  throw new ShardlabError('SHAPE', `${name}.grad must be [${shape}], not [${grad.shape}]: ${why}`);
}

/** Returns the error for a gradient that is set where no gradient of a single parameter exists. */
export function gradientElsewhere({ name, requiresGrad, state }: Graded): ConfigError {
  if (!requiresGrad) {
    return new ConfigError(
      `${name}.grad cannot be set: the parameter was frozen when it was sharded, so no optimizer updates it; set its requiresGrad ` +
        'to true before fullyShard or FSDP',
    );
  }
  return new ConfigError(
    `${name}.grad cannot be set: this rank has no gradient of this parameter alone (it belongs to "${state.name}"). Set grad ` +
      'where the parameter trains, under fullyShard, FSDP or DDP; or scale the loss',
  );
}
