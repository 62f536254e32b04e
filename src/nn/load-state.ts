import * as tf from '@tensorflow/tfjs';
import type { Engine } from '../backend/engine';
import { ShardlabError } from '../core/errors';
import type { Module } from './module';

/** Values by full parameter name. */
export type StateDict = ReadonlyMap<
  string,
  { readonly shape: readonly number[]; readonly values: Float32Array | Int32Array }
>;

/**
 * Writes values into a model's whole parameters; names and shapes must match exactly.
 * Throws: SHAPE naming every parameter that is missing, unknown or of another shape.
 */
export function loadState(engine: Engine, model: Module, state: StateDict): void {
  const parameters = model.namedParameters();
  const wrong = [...state.keys()]
    .filter((name) => !parameters.has(name))
    .map((name) => `${name} is unknown to the model`);
  for (const [name, parameter] of parameters) {
    const shape = state.get(name)?.shape;
    if (shape === undefined) wrong.push(`${name} is missing`);
    else if (shape.join() !== parameter.shape.join()) {
      wrong.push(`${name} has shape [${shape.join(', ')}], the model's is [${parameter.shape.join(', ')}]`);
    }
  }
  if (wrong.length > 0) {
    throw new ShardlabError('SHAPE', `the values do not fit the model: ${wrong.join('; ')}`);
  }
  for (const [name, { values }] of state) {
    const target = parameters.get(name)?.tensor;
    if (target === undefined) continue;
    const source = tf.tensor(values, target.shape, 'float32');
    engine.copyInto(target, 0, source);
    source.dispose();
  }
}
