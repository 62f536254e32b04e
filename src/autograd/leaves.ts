import type { Engine } from '../backend/engine';
import type { HalfDType } from '../core/dtypes';
import * as tf from '../core/tf';

/** A model's parameter, with respect to which gradients are computed. */
export interface Leaf {
  /** Full name within the model. */
  readonly name: string;
  /** Full name of the owning module, for tags. */
  readonly module: string;
  readonly requiresGrad: boolean;
  /** The unit whose backward takes the gradient; null: the parameter is loose, and its gradient goes to `grad`. */
  readonly unit: string | null;
  grad: tf.Tensor | null;
  /** Whether this tensor holds the parameter's values now. */
  isIn(tensor: tf.Tensor): boolean;
}

const LEAF = Symbol('the parameter whose values these are');

interface Marked {
  [LEAF]?: Leaf;
}

/** Marks a tensor as holding a parameter's values. */
export function markLeaf(tensor: tf.Tensor, leaf: Leaf): void {
  (tensor as Marked)[LEAF] = leaf;
}

/**
 * The parameter whose values a tensor holds now, if the parameter trains. A trainable tfjs variable counts as a
 * parameter too, until a module takes it over with its gradient.
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
    isIn: (other) => other === tensor,
  };
  markLeaf(tensor, made);
  return made;
}

/**
 * Adds a gradient to a parameter's gradient, and takes ownership of it. `declared`: the type to which its values are
 * rounded, if any.
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
