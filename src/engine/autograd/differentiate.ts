import { alias, ShardlabError } from '../../core';
import * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';
import { readsFirstGradientOnly } from '../backend/fused/fused-kernel';
import { tfjsState } from '../backend/tfjs-state';
import type { Gradients, RecordedNode } from './recording';

/** Adds to `gradients` the gradients of the inputs `names` of an operation. Throws: ENGINE if the operation has no gradient. */
export function differentiate(
  engine: Engine,
  node: RecordedNode,
  names: readonly string[],
  dys: readonly (tf.Tensor | null)[],
  gradients: Gradients,
): void {
  const { gradient, inputs } = node;
  if (gradient === undefined) {
    throw new ShardlabError(
      'ENGINE',
      `The operation ${node.kernelName} has no gradient in tfjs; use other operations, or tf.customGrad.`,
    );
  }
  const results = tf.tidy(() => {
    // tfjs replaces a null gradient by zeros, although its types forbid null. If the gradient function does not read the
    // null gradient of an output, the output is passed in its place, so that no zeros are made.
    const isUnread = readsFirstGradientOnly(node.kernelName);
    const thunks = gradient(dys.map((dy, i) => dy ?? (isUnread ? node.outputs[i] : null)) as tf.Tensor[]);
    const taken = new Set<tf.Tensor>();
    // A unit has no gradients for inputs on which the unit's output does not depend.
    const present = names.filter((name) => thunks[name] !== undefined || node.release === undefined);
    return present.map((name) => {
      const result = tf.tidy(() => resultOf(node, name, thunks[name]));
      // A result that was not made in this scope, or was returned twice, belongs to other code, so it is cloned.
      const isNew = result.scopeId === tfjsState().activeScope.id && !taken.has(result);
      taken.add(result);
      return { id: inputs[name]?.id ?? 0, result: isNew ? result : alias(result) };
    });
  });
  for (const { id, result } of results) accumulate(engine, gradients, id, result);
}

function resultOf(node: RecordedNode, name: string, thunk: (() => tf.Tensor) | undefined): tf.Tensor {
  const input = node.inputs[name];
  const result = thunk?.();
  if (input === undefined || result === undefined || !tf.util.arraysEqual(result.shape, input.shape)) {
    throw new ShardlabError(
      'ENGINE',
      `The gradient of ${node.kernelName} for its input '${name}' [${input?.shape}] ` +
        (result === undefined
          ? 'is missing.'
          : `has the shape [${result.shape}]; it must have the input's shape.`),
    );
  }
  return result;
}

/** Adds `gradient` to the sum so far, and takes ownership of `gradient`. */
export function accumulate(engine: Engine, gradients: Gradients, id: number, gradient: tf.Tensor): void {
  const sum = gradients.get(id);
  if (sum === undefined) {
    gradients.set(id, gradient);
  } else if (isSoleOwner(sum)) {
    engine.addInto(sum, gradient);
    gradient.dispose();
  } else {
    gradients.set(id, tf.add(sum, gradient));
    sum.dispose();
    gradient.dispose();
  }
}

/** Whether no other tensor is a view of the tensor's buffer. */
export function isSoleOwner(tensor: tf.Tensor): boolean {
  return tf.backend().refCount(tensor.dataId) === 1;
}
