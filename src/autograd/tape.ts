import type { Engine } from '../backend/engine';
import { isFusedKernel, markConsumable, readsFirstGradientOnly } from '../backend/fused/fused-kernel';
import { tfjsState } from '../backend/tfjs-state';
import { ShardlabError } from '../core/errors';
import { mapTensors } from '../core/tensor-tree';
import * as tf from '../core/tf';
import type { Gradients, RecordedNode, Recording } from './recording';

/** Runs `work` with `tape` as tfjs's tape; disposes tensors unless `work` returns them or an operation saved them. */
export function record<T>(tape: Recording, work: () => T): T {
  const state = tfjsState();
  const { activeTape, gradientDepth, kernelDepth } = state;
  state.activeTape = tape;
  state.gradientDepth = 1;
  state.kernelDepth = 0;
  tape.scopeDepth = state.scopeStack.length;
  tape.parent?.unfinished.add(tape);
  try {
    return tidy(work);
  } catch (error) {
    tape.release();
    throw error;
  } finally {
    Object.assign(state, { activeTape, gradientDepth, kernelDepth });
  }
}

/** Does the same as tf.tidy, which finds the tensors of any result; its types do not say so. */
export function tidy<T>(work: () => T): T {
  return tf.tidy(work as () => tf.TensorContainer) as T;
}

/** Returns a forward's results; a result that is an input is cloned, because its gradient differs from the input's. */
export function ownResults<T>(tape: Recording, results: T): T {
  return mapTensors(results, (result) =>
    tape.flows(result) && tape.isLeaf(result) ? tf.clone(result) : result,
  );
}

/** Chooses gradients that backward leaves for later. */
export interface Deferral {
  /**
   * Returns the names of an operation's inputs whose gradients are left out. If there are any, the operation's saved tensors
   * belong to the deferral from then on.
   */
  take(tape: Recording, node: RecordedNode, dys: readonly (tf.Tensor | null)[]): ReadonlySet<string>;
}

const NONE: ReadonlySet<string> = new Set();

/**
 * Runs backward on a tape from the gradients `seeds`, and takes ownership of them. Each operation's saved tensors, and the
 * gradients of its outputs, are freed as soon as its own backward has run. Returns the gradients of the tape's leaves and
 * captures, except those that `deferral` leaves for later. Throws: ENGINE if an operation has no gradient.
 */
export function backward(engine: Engine, tape: Recording, seeds: Gradients, deferral?: Deferral): Gradients {
  const gradients = seeds;
  tape.inFlight = gradients;
  try {
    // An operation is on the tape until its backward has run, so an interrupted operation is released with the tape.
    for (let node = tape.at(-1); node !== undefined; node = tape.at(-1)) {
      const dys = node.outputs.map((output) => gradients.get(output.id) ?? null);
      const later = deferral?.take(tape, node, dys) ?? NONE;
      try {
        if (later.size === 0 && isFusedKernel(node.kernelName)) offer(dys, node.saved);
        if (dys.some((dy) => dy !== null)) {
          if (node.resume === undefined) {
            const names = namesOf(tape, node).filter((name) => !later.has(name));
            // A unit has gradients of parameters even if no input needs one.
            if (later.size === 0 || names.length > 0) differentiate(engine, node, names, dys, gradients);
          } else node.resume(dys, gradients);
        }
      } finally {
        if (later.size === 0) for (const tensor of node.saved ?? []) tensor.dispose();
        node.release?.();
        for (const dy of dys) dy?.dispose();
        for (const output of node.outputs) gradients.delete(output.id);
        tape.pop();
      }
    }
  } catch (error) {
    tape.release();
    throw error;
  }
  tape.inFlight = null;
  return gradients;
}

/** Allows a kernel to overwrite gradients and saved tensors with its result, because this is their last use. */
function offer(dys: readonly (tf.Tensor | null)[], saved: readonly tf.Tensor[] = []): void {
  for (const tensor of [...dys, ...saved]) if (tensor !== null) markConsumable(tensor);
}

/** Returns the names of an operation's inputs that need a gradient. */
function namesOf(tape: Recording, { inputs }: RecordedNode): string[] {
  return Object.keys(inputs).filter((name) => inputs[name] != null && tape.flows(inputs[name]));
}

/** Adds the gradients of an operation's inputs `names` to `gradients`. Throws: ENGINE if the operation has no gradient. */
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
    // tfjs replaces null by zeros; its types do not say so. If the gradient function does not read these gradients, the
    // outputs are passed in their place, so that no zeros are made.
    const isUnread = readsFirstGradientOnly(node.kernelName);
    const thunks = gradient(dys.map((dy, i) => dy ?? (isUnread ? node.outputs[i] : null)) as tf.Tensor[]);
    const taken = new Set<tf.Tensor>();
    // A unit has no gradients for inputs on which its output does not depend.
    const present = names.filter((name) => thunks[name] !== undefined || node.release === undefined);
    return present.map((name) => {
      const result = tf.tidy(() => resultOf(node, name, thunks[name]));
      // A result that was not made in this scope, or was returned twice, belongs to other code, so it is cloned.
      const isNew = result.scopeId === tfjsState().activeScope.id && !taken.has(result);
      taken.add(result);
      return { id: inputs[name]?.id ?? 0, result: isNew ? result : tf.clone(result) };
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

function accumulate(engine: Engine, gradients: Gradients, id: number, gradient: tf.Tensor): void {
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

/** Whether no other tensor is a view of the same buffer. */
export function isSoleOwner(tensor: tf.Tensor): boolean {
  return tf.backend().refCount(tensor.dataId) === 1;
}
