import type { HalfDType } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';

/** A parameter of a model; gradients are computed with respect to it. */
export interface Leaf {
  /** Full name within the model. */
  readonly name: string;
  /** Full name of the owning module, for tags. */
  readonly module: string;
  readonly requiresGrad: boolean;
  /** The unit whose backward gets the gradient; null: the parameter is loose, and its gradient is added to `grad`. */
  readonly unit: string | null;
  grad: tf.Tensor | null;
  /** Counts the changes of the values, so that a backward can notice that the values are no longer those of its forward. */
  readonly version: number;
  /** Says which part of a whole tensor this rank has; null or undefined if it has all of it. */
  readonly split?: object | null;
  /** Whether `tensor` is the parameter's current tensor. */
  isIn(tensor: tf.Tensor): boolean;
}

const LEAF = Symbol('the parameter whose values these are');

interface Marked {
  [LEAF]?: Leaf;
}

/** Marks a tensor as the tensor of a parameter. */
export function markLeaf(tensor: tf.Tensor, leaf: Leaf): void {
  (tensor as Marked)[LEAF] = leaf;
}

/**
 * Returns the parameter whose current tensor is `tensor`, if the parameter requires a gradient. A trainable tfjs variable
 * counts as a parameter too, until a module makes a parameter of it.
 */
export function leafOf(tensor: tf.Tensor): Leaf | undefined {
  const leaf = (tensor as Marked)[LEAF];
  if (leaf !== undefined) return leaf.requiresGrad && leaf.isIn(tensor) ? leaf : undefined;
  if (!(tensor instanceof tf.Variable) || !tensor.trainable) return undefined;
  const { name } = tensor;
  const made: Leaf = {
    name,
    module: '',
    requiresGrad: true,
    unit: null,
    grad: null,
    version: 0, // tfjs writes new values into another buffer, so saved tensors keep the old values
    isIn: (candidate) => candidate === tensor,
  };
  markLeaf(tensor, made);
  return made;
}

/** Whether the tensor is the current tensor of a module's parameter that requires a gradient. */
export function isTrainedParameter(tensor: tf.Tensor): boolean {
  const leaf = (tensor as Marked)[LEAF];
  return leaf?.requiresGrad === true && !(tensor instanceof tf.Variable) && leaf.isIn(tensor);
}

/**
 * Adds `grad` to a parameter's gradient, and takes ownership of `grad`. `declared`: the 16-bit dtype to which the values
 * of `grad` are rounded, if any.
 */
export function accumulateGrad(
  engine: Engine,
  parameter: Pick<Leaf, 'grad' | 'module'>,
  grad: tf.Tensor,
  declared?: HalfDType,
): void {
  if (parameter.grad === null) {
    engine.retag(grad, { cause: 'grad.full', module: parameter.module, declared });
    parameter.grad = grad;
    return;
  }
  engine.addInto(parameter.grad, grad);
  grad.dispose();
}
