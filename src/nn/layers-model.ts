import { alias, ConfigError, classOf } from '../core';
import * as tf from '../core/tf';
import { leafOf } from '../engine';
import { Module } from './module';
import { Parameter } from './parameter';

/** A tfjs layer or model; strategies and optimizers accept it in place of a module. */
export type Layer = tf.layers.Layer;

type Variable = Layer['weights'][number];
type Arguments = Parameters<Layer['call']>[1];

const MODULE: unique symbol = Symbol('the module of a layer');

interface WithModule extends Layer {
  [MODULE]?: Module;
}

/** Whether a value is a tfjs layer or model. */
export function isLayer(value: unknown): value is Layer {
  return value instanceof tf.layers.Layer;
}

/**
 * Returns the module of a tfjs layer or model; the first call makes this module. From then on, the layer's trainable weights
 * are parameters of the module, and calls of the layer run the module and its wrappers. A model's layers that have weights are
 * child modules with their own names. Weights that gradients do not train (moving averages of batch norm) stay in the layer.
 * These weights are whole on every rank and are not synchronised, like buffers under torch's FSDP.
 * Throws: CONFIG for a model that is not built, and for stateful layers.
 */
export function moduleOf(layer: Layer): Module {
  const known = (layer as WithModule)[MODULE];
  if (known !== undefined) return known;
  if (layer instanceof tf.Sequential && !layer.built && layer.outputs?.length > 0) layer.build();
  if (!layer.built) {
    throw new ConfigError(
      `${layer.name} has no weights yet; give its first layer an inputShape, or call it once, before it is sharded`,
    );
  }
  if (layer.stateful) {
    throw new ConfigError(
      `${layer.name} is stateful: it stores activations between batches, and no strategy can shard these; make it with stateful: false`,
    );
  }
  const module = new LayerModule(layer);
  (layer as WithModule)[MODULE] = module;
  return module;
}

/**
 * Returns the value itself if it is a module, or the module of a tfjs layer or model. `caller` is the caller's name, such
 * as 'fullyShard', for the message.
 * Throws: CONFIG for anything else.
 */
export function asModule(value: unknown, caller: string): Module {
  if (value instanceof Module) return value;
  if (isLayer(value)) return moduleOf(value);
  throw new ConfigError(
    `${caller} takes a module, such as nn.gpt({ … }), or a tf.LayersModel, not ${described(value)}`,
  );
}

function described(value: unknown): string {
  return `${classOf(value)}${instead(value)}`;
}

/** Returns a hint: what to pass in place of the wrong value. */
function instead(value: unknown): string {
  if (typeof value !== 'object' || value === null) return '';
  if ('module' in value && value.module instanceof Module) return '; give its .module';
  const items = Array.isArray(value) ? value : value instanceof Map ? [...value.values()] : [value];
  const isOfParameters = items.length > 0 && items.every((item) => item instanceof Parameter);
  return isOfParameters
    ? '; give the module that has these parameters, and freeze its other parameters (nn.freeze)'
    : '';
}

/** The module of a tfjs layer or model. Shapes: those of the layer. */
class LayerModule extends Module {
  readonly #layer: Layer;
  readonly #call: Layer['call'];
  /** The arguments of the layer's last call; forward uses these arguments, also when forward runs again in backward. */
  #arguments: Arguments = {};

  constructor(layer: Layer) {
    super();
    this.#layer = layer;
    const parts = partsOf(layer);
    for (const part of parts) if (part.weights.length > 0) this.addChild(part.name, moduleOf(part));
    const taken = new Set(parts.flatMap((part) => part.weights));
    for (const variable of layer.weights) if (!taken.has(variable)) this.#adopt(variable);
    this.#call = layer.call.bind(layer);
    layer.call = (inputs, callArguments) => {
      this.#arguments = callArguments;
      const self: LayerModule = this; // the type `this` hides the type of forward
      return self.apply(...(Array.isArray(inputs) ? inputs : [inputs]));
    };
    if (layer instanceof tf.LayersModel) refuseOwnTraining(layer);
  }

  forward(...inputs: tf.Tensor[]): tf.Tensor | tf.Tensor[] {
    const output = this.#call(inputs, this.#arguments);
    // The call of a model returns a list, but apply returns a single output without a list.
    const [first, ...more] = Array.isArray(output) ? output : [output];
    return first !== undefined && more.length === 0 ? first : output;
  }

  /** Makes a parameter from a variable's values. After this call, the layer reads the parameter, and the module disposes it. */
  #adopt(variable: Variable): void {
    if (!variable.trainable) return;
    const requiresGrad = this.#layer.trainable;
    const value = variable.read();
    const parameter = new Parameter(alias(value), { requiresGrad });
    // An earlier backward may have written a gradient.
    parameter.grad = leafOf(value)?.grad ?? null;
    value.dispose();
    this.addParameter(this.#nameFor(variable), parameter);
    variable.read = () => parameter.tensor;
    variable.dispose = () => undefined;
    variable.write = () => {
      throw new ConfigError(
        `${parameter.name} belongs to a sharded model; load values with loadCheckpoint, or set them before the model is sharded`,
      );
    };
  }

  /** Returns 'kernel' for 'dense_Dense1/kernel'; a second weight of the same name gets a number. */
  #nameFor({ originalName }: Variable): string {
    const name = (originalName.split('/').at(-1) ?? originalName).replaceAll('.', '_');
    let free = name;
    for (let i = 1; this.ownParameters.has(free); i++) free = `${name}_${i}`;
    return free;
  }
}

/** Returns the layers of a model; empty for a single layer, also for a wrapper (bidirectional, time distributed). */
function partsOf(layer: Layer): readonly Layer[] {
  return layer instanceof tf.LayersModel ? layer.layers : [];
}

/** Makes tfjs's own training throw, and replaces `predict`, because both bypass the model's call and cannot see shards. */
function refuseOwnTraining(model: tf.LayersModel): void {
  const refuse = (name: string, instead: string) => (): never => {
    throw new ConfigError(`model.${name} does not communicate with other ranks; ${instead}`);
  };
  const train = 'train with gradients(() => loss).backward() and an optimizer of optim';
  model.fit = refuse('fit', train);
  model.fitDataset = refuse('fitDataset', train);
  model.trainOnBatch = refuse('trainOnBatch', train);
  model.evaluate = refuse('evaluate', 'compute the loss from model.apply(x)');
  // If its input is a tensor, a model returns tensors, not symbolic tensors.
  model.predict = (x) => tf.tidy(() => model.apply(x) as tf.Tensor | tf.Tensor[]);
}
