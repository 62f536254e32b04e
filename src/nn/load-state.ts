import { ShardlabError } from '../core';
import * as tf from '../core/tf';
import type { Engine } from '../engine';
import { type ValueSource, valuesOf } from './init';
import type { Module } from './module';

/** A tensor's shape and values. The values are in memory, or ranges of them are read from a source. */
export type StateEntry = { readonly shape: readonly number[] } & (
  | { readonly values: Float32Array | Int32Array }
  | { readonly source: ValueSource }
);

/** Values by full parameter name. For a file, `unread` has the names that cannot be read, each with the reason. */
export type StateDict = ReadonlyMap<string, StateEntry> & { readonly unread?: ReadonlyMap<string, string> };

/** Maximum number of differences that an error names; the others are only counted. */
const MOST_NAMED = 30;

/**
 * Loads values into a model's parameters and persistent buffers; names and shapes must match exactly. A deferred parameter only
 * stores the source of the new values, so `state` must stay readable and unchanged until the model is sharded or used.
 * Throws: SHAPE; the error names the parameters that are missing, unknown or have another shape.
 */
export function loadState(engine: Engine, model: Module, state: StateDict): void {
  const parameters = model.namedState();
  const wrong = [...state.keys()]
    .filter((name) => !parameters.has(name))
    .map((name) => `${name} is unknown to the model`);
  for (const [name, parameter] of parameters) {
    const shape = state.get(name)?.shape;
    if (shape === undefined) wrong.push(`${name} ${state.unread?.get(name) ?? 'is missing'}`);
    else if (shape.join() !== parameter.shape.join()) {
      wrong.push(`${name} has shape [${shape.join(', ')}], the model's is [${parameter.shape.join(', ')}]`);
    }
  }
  if (wrong.length > 0) {
    const more = wrong.length > MOST_NAMED ? `; and ${wrong.length - MOST_NAMED} more` : '';
    throw new ShardlabError(
      'SHAPE',
      `the values do not fit the model: ${wrong.slice(0, MOST_NAMED).join('; ')}${more}`,
    );
  }
  for (const [name, entry] of state) {
    const parameter = parameters.get(name);
    const source = 'source' in entry ? entry.source : valuesOf(entry.values);
    if (parameter === undefined) continue;
    if (parameter.source !== null) parameter.defer(source);
    else writeAll(engine, parameter.tensor, source);
  }
}

function writeAll(engine: Engine, target: tf.Tensor, source: ValueSource): void {
  const values = new Float32Array(target.size);
  source.fill(0, values);
  const tensor = tf.tensor(values, target.shape, target.dtype);
  engine.copyInto(target, 0, tensor);
  tensor.dispose();
}
