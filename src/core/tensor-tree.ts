import * as tf from './tf';

// A tree is a tensor, or arrays and plain objects of trees, in any depth. Other values in a tree have no tensors.

/** Returns the tensors of a tree, in order; a tensor that is in the tree twice appears once. */
export function tensorsIn(tree: unknown): tf.Tensor[] {
  const tensors = new Set<tf.Tensor>();
  mapTensors(tree, (tensor) => {
    tensors.add(tensor);
    return tensor;
  });
  return [...tensors];
}

/** Returns a copy of a tree with the tensors that `map` returns; the tree itself if these are the same tensors. */
export function mapTensors<T>(tree: T, map: (tensor: tf.Tensor) => tf.Tensor): T {
  // Each branch returns a value of the same kind as its argument.
  return mapped(tree, map) as T;
}

function mapped(tree: unknown, map: (tensor: tf.Tensor) => tf.Tensor): unknown {
  if (tree instanceof tf.Tensor) return map(tree);
  if (Array.isArray(tree)) {
    const items = tree.map((item: unknown) => mapped(item, map));
    return items.every((item, i) => item === tree[i]) ? tree : items;
  }
  if (!isPlain(tree)) return tree;
  const entries = Object.entries(tree).map(([name, value]) => [name, mapped(value, map)] as const);
  return entries.every(([name, value]) => value === tree[name]) ? tree : Object.fromEntries(entries);
}

/** Whether a value is an object without a class. */
export function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
