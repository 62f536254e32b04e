import type { Engine } from '../backend/engine';
import type { HalfDType } from '../core/dtypes';
import * as tf from '../core/tf';

/** What a gradient is with respect to: a model's parameter. */
export interface Leaf {
  /** Full name within the model. */
  readonly name: string;
  /** Full name of the owning module, for tags. */
  readonly module: string;
  readonly requiresGrad: boolean;
  /** The unit whose backward takes the gradient; null: the parameter is loose, and the gradient comes to `grad`. */
  readonly unit: string | null;
  grad: tf.Tensor | null;
  /** Whether its values are in this tensor now. */
  isIn(tensor: tf.Tensor): boolean;
}

const LEAF = Symbol('the parameter whose values these are');

interface Marked {
  [LEAF]?: Leaf;
}

/** Says whose values a tensor has. */
export function markLeaf(tensor: tf.Tensor, leaf: Leaf): void {
  (tensor as Marked)[LEAF] = leaf;
}

/**
 * The parameter whose values a tensor has now, if it trains. A tfjs variable that trains is one too, until a module takes it
 * over with its gradient.
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

/** Adds a gradient to a parameter's, and takes it over. `declared`: the type that its values are kept at, if one is. */
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
