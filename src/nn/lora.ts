import { issuesMessage, type LoraConfig, loraSchema, requirePlain, toIssues } from '../config';
import { ConfigError, withGradients } from '../core';
import * as tf from '../core/tf';
import { type Engine, undone, untracked } from '../engine';
import { constant, type FirstValues, uniform, type ValueSource } from './init';
import { Dropout } from './layers/dropout';
import { affine, Linear } from './linear';
import { Module } from './module';
import { modulesEndingWith } from './name-patterns';
import { Parameter } from './parameter';
import { requireModule } from './require-parameters';

/** Options of `applyLoRA`; see the setting `lora`. */
export type LoraOptions = { readonly [Key in keyof LoraConfig]?: LoraConfig[Key] };

/** A linear layer with or without a bias. */
type Layer = Linear<boolean>;

/**
 * Adds adapters to a model's linear layers, in place, and freezes all other parameters. A layer then computes
 * Wx + b + alpha / r · B A dropout(x). A has the initial values of a linear layer, and B is 0, so the output does not change at
 * first. New parameters are 'blocks.0.qkv.lora_A.weight' [r, inputs] and 'blocks.0.qkv.lora_B.weight' [outputs, r]; `useDora` adds
 * 'blocks.0.qkv.lora_magnitude_vector' [outputs], see [Note: DoRA]. Call this function before a strategy is applied. Returns the
 * names of the adapted layers. Source: Hu et al. 2021; PEFT's LoraConfig (defaults and initial values).
 * Throws: CONFIG for unknown options, a name that fits no linear layer, a second call, and a sharded or tensor-parallel model.
 * @example
 * const net = nn.gpt({ layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32 });
 * nn.applyLoRA(net, { r: 4, alpha: 8, targets: ['qkv', 'proj'] })
 */
export function applyLoRA(model: Module, options: LoraOptions = {}): string[] {
  const config = checked(options);
  requireModule('applyLoRA', model);
  const adapted = model.modules().find((module) => adapterOf(module) !== null);
  if (adapted !== undefined) {
    throw new ConfigError(
      `applyLoRA: ${adapted.path} has an adapter already; call applyLoRA once, with all targets, or call mergeLoRA(model) first`,
    );
  }
  const layers = layersOf(model, config.targets);
  const split = layers.find(({ weight }) => weight.split !== null);
  if (split !== undefined) {
    throw new ConfigError(
      `applyLoRA: each rank has only a part of ${split.weight.name} (tensor parallelism), and an adapter needs the whole matrix; leave "${split.path}" ` +
        'out of lora.targets, or train adapters with data parallelism (DDP, fullyShard)',
    );
  }
  for (const parameter of model.parameters()) parameter.requiresGrad = false;
  for (const layer of layers) adapt(layer, config);
  return layers.map(({ path }) => path);
}

/**
 * Merges each adapter into its layer's matrix, and removes the adapters; parameters remain frozen. The model's outputs change
 * only by rounding. A layer whose matrix other modules read too (a head that is tied to the embedding) gets its own matrix, which
 * is no longer tied, because the adapter changes this layer only. Throws: CONFIG for a model without adapters; SHAPE for a sharded model.
 */
export function mergeLoRA(model: Module): void {
  requireModule('mergeLoRA', model);
  const layers = model.modules().filter((module): module is Layer => adapterOf(module) !== null);
  if (layers.length === 0)
    throw new ConfigError('mergeLoRA: the model has no adapters; call applyLoRA(model, { … }) first');
  for (const layer of layers) {
    const adapter = adapterOf(layer);
    if (adapter === null) continue;
    setMerged(layer, tf.keep(tf.tidy(() => mergedOf(layer, adapter))));
    for (const part of [...PARTS, MAGNITUDES]) Reflect.deleteProperty(layer, part);
    for (const module of [adapter.a, adapter.b]) module.dispose();
    adapter.magnitudes?.free();
  }
}

/** Returns the names of the layers that get adapters. Throws: CONFIG for a name that fits no linear layer. */
export function targetedLayers(model: Module, targets: LoraConfig['targets']): string[] {
  return layersOf(model, targets).map(({ path }) => path);
}

/** Returns the options with which a model's adapters were made; null if the model has no adapters. */
export function loraOf(model: Module): LoraConfig | null {
  for (const module of model.modules()) if (module instanceof LoraB) return module.config;
  return null;
}

/** Runs `work` with a model whose layers compute only Wx + b, as if it had no adapters. Source: PEFT's disable_adapter. */
export function withoutAdapters<T>(engine: Pick<Engine, 'onRecover'>, model: Module, work: () => T): T {
  const matrices = model.modules().filter((module) => module instanceof LoraB);
  const setOff = (isOff: boolean): void => {
    for (const matrix of matrices) matrix.isOff = isOff;
  };
  return undone(
    engine,
    () => setOff(false),
    () => {
      setOff(true);
      return work();
    },
  );
}

/** The names of an adapter's modules and of its magnitudes, as in PEFT. */
const PARTS = ['lora_A', 'lora_B', 'lora_dropout'] as const;
const MAGNITUDES = 'lora_magnitude_vector';

/**
 * A matrix of an adapter. The class is not a `Linear`, so that the policy 'linear' leaves the matrix in the unit of its layer.
 */
class LoraMatrix extends Module {
  readonly weight: Parameter;

  constructor(inputs: number, outputs: number, first: FirstValues) {
    super();
    this.weight = Parameter.deferred([outputs, inputs], first);
  }

  forward(x: tf.Tensor): tf.Tensor {
    return affine(x, this.weight.tensor);
  }
}

/** The matrix B, whose output is multiplied by alpha / r. */
class LoraB extends LoraMatrix {
  readonly config: LoraConfig;
  /** Whether the layer computes as without its adapter. */
  isOff = false;

  constructor(outputs: number, config: LoraConfig) {
    super(config.r, outputs, constant(0));
    this.config = config;
  }

  get scale(): number {
    return this.config.alpha / this.config.r;
  }

  override forward(x: tf.Tensor): tf.Tensor {
    return tf.mul(super.forward(x), this.scale);
  }
}

interface Adapter {
  readonly a: LoraMatrix;
  readonly b: LoraB;
  readonly drop: Dropout | null;
  /** null if the adapter does not use DoRA. */
  readonly magnitudes: Parameter | null;
}

function adapt(layer: Layer, config: LoraConfig): void {
  const { r, dropout, useDora } = config;
  const [outputs = 0, inputs = 0] = layer.weight.shape;
  const matrices = [new LoraMatrix(inputs, r, uniform(1 / Math.sqrt(inputs))), new LoraB(outputs, config)];
  for (const [i, matrix] of matrices.entries()) Reflect.set(layer, PARTS[i] ?? '', matrix);
  if (dropout > 0) Reflect.set(layer, 'lora_dropout', new Dropout(dropout));
  if (useDora) {
    Reflect.set(layer, MAGNITUDES, magnitudesOf(layer.weight));
    // The layer's forward reads the matrices, so the matrices cannot be separate units.
    for (const { weight } of matrices) weight.usedBy(layer);
  }
  layer.wrapOnce(WRAPPED, (inputs, next) => {
    const adapter = adapterOf(layer);
    const y = next(...inputs) as tf.Tensor;
    const [x] = inputs as [tf.Tensor]; // a linear layer's input
    return adapter === null || adapter.b.isOff ? y : adaptedOf(layer, adapter, x, y);
  });
}

const WRAPPED = Symbol('LoRA');

/**
 * Returns the output of a layer with its adapter; y is the layer's output without the adapter. Source: PEFT, also for dropout
 * with DoRA.
 */
function adaptedOf(layer: Layer, adapter: Adapter, x: tf.Tensor, y: tf.Tensor): tf.Tensor {
  const { a, b, drop, magnitudes } = adapter;
  const dropped = drop === null ? x : drop.apply(x);
  const added = b.apply(a.apply(dropped));
  if (magnitudes === null) return tf.add(y, added);
  const bias = layer.bias?.tensor;
  const factors = perNorm(magnitudes.tensor, () => sumOf(layer, adapter));
  if (drop !== null && layer.training) {
    const own = affine(dropped, layer.weight.tensor);
    return tf.add(tf.sub(y, own), tf.mul(tf.add(own, added), factors));
  }
  const scaled = tf.mul(tf.add(bias === undefined ? y : tf.sub(y, bias), added), factors);
  return bias === undefined ? scaled : tf.add(scaled, bias);
}

/** Returns W + alpha / r · BA. */
function sumOf({ weight }: Layer, { a, b }: Adapter): tf.Tensor {
  return tf.add(weight.tensor, tf.mul(tf.matMul(b.weight.tensor, a.weight.tensor), b.scale));
}

function mergedOf(layer: Layer, adapter: Adapter): tf.Tensor {
  const sum = sumOf(layer, adapter);
  if (adapter.magnitudes === null) return sum;
  const factors = perNorm(adapter.magnitudes.tensor, () => sum);
  return tf.mul(sum, tf.reshape(factors, [-1, 1]));
}

/** Replaces a layer's matrix; a matrix that other modules read too does not change. */
function setMerged(layer: Layer, merged: tf.Tensor): void {
  const { weight } = layer;
  if ([...weight.users].some((user) => user !== layer)) {
    layer.weight = new Parameter(merged, { requiresGrad: false });
    return;
  }
  const before = weight.tensor;
  weight.replace(merged);
  before.dispose();
}

/** Returns a module's adapter; null if the module has none. */
function adapterOf(module: Module): Adapter | null {
  const [a, b, drop] = PARTS.map((part) => module.children.get(part));
  if (!(a instanceof LoraMatrix && b instanceof LoraB)) return null;
  const magnitudes = module.ownParameters.get(MAGNITUDES) ?? null;
  return { a, b, drop: drop instanceof Dropout ? drop : null, magnitudes };
}

function layersOf(model: Module, targets: LoraConfig['targets']): Layer[] {
  const isLayer = (module: Module): module is Layer => module instanceof Linear;
  if (targets === 'all-linear') {
    const linears = model
      .modules()
      .filter((module): module is Layer => isLayer(module) && module.path !== 'lm_head');
    if (linears.length > 0) return linears;
    throw new ConfigError(
      `applyLoRA: ${model.constructor.name} has no nn.Linear; adapters are for linear layers only`,
    );
  }
  const layers = targets.flatMap((target) => {
    const modules = modulesEndingWith(model, target, 'lora.targets');
    const nonLinear = modules.find((module) => !isLayer(module));
    if (nonLinear === undefined) return modules.filter(isLayer);
    throw new ConfigError(
      `lora.targets: "${target}" names ${nonLinear.path}, a ${nonLinear.constructor.name}; adapters are for nn.Linear only, so name the layers inside it`,
    );
  });
  return [...new Set(layers)];
}

function checked(options: LoraOptions): LoraConfig {
  requirePlain(options);
  const parsed = loraSchema.safeParse(options);
  if (parsed.success) return parsed.data;
  const issues = toIssues(parsed.error.issues, options, { '': Object.keys(loraSchema.shape) });
  throw new ConfigError(issuesMessage(issues, 'applyLoRA: '));
}

/**
 * [Note: DoRA] A layer with magnitudes has the matrix m · V / ‖V‖ with V = W + alpha / r · BA. ‖V‖ has the norm of each row of
 * V; a row has the weights of one output. The vector m has one element per output and trains; its initial values are the norms
 * of W's rows, so the output does not change at first. Backward treats the norms as constants, so no matrix of the size of W is
 * stored. Source: Liu et al. 2024, section 4.3; PEFT's DoraLinearLayer.
 */

/** The number of elements of W that are read at once. */
const BLOCK = 2 ** 18;

/**
 * Makes the magnitudes of a matrix. If the matrix has deferred values, the magnitudes are also deferred: they are computed when
 * they are first needed. See [Note: DoRA].
 */
export function magnitudesOf(weight: Parameter): Parameter {
  const { first, shape } = weight;
  if (first === null) return new Parameter(untracked(() => tf.tidy(() => rowNorms(weight.tensor))));
  return Parameter.deferred(shape.slice(0, 1), ({ seed }) => {
    const { name } = weight;
    return normsOf(name, first({ seed, name, shape }), shape[1] ?? 1);
  });
}

/** Returns m / ‖V‖, by which the outputs are multiplied. `matrix` returns V, into which no gradient flows. */
function perNorm(magnitudes: tf.Tensor, matrix: () => tf.Tensor): tf.Tensor {
  return withGradients([magnitudes], (save) => {
    const norms = rowNorms(matrix());
    save([norms]);
    return {
      value: tf.div(magnitudes, norms),
      gradients: (dy, [saved = norms]) => [tf.div(dy, saved)],
    };
  });
}

/** Returns the norms of a matrix's rows. Shapes: [outputs, inputs] → [outputs]. */
function rowNorms(matrix: tf.Tensor): tf.Tensor {
  return tf.sqrt(tf.sum(tf.square(matrix), 1));
}

/** Returns the norms of the rows of a matrix [outputs, inputs], whose values are read in blocks. */
function normsOf(name: string, values: ValueSource, inputs: number): ValueSource {
  const rowsPerBlock = Math.max(1, Math.floor(BLOCK / inputs));
  return {
    fill(start, target) {
      for (let done = 0; done < target.length; done += rowsPerBlock) {
        const block = new Float32Array(Math.min(rowsPerBlock, target.length - done) * inputs);
        values.fill((start + done) * inputs, block);
        for (let row = 0; row * inputs < block.length; row++) {
          const norm = normOf(block.subarray(row * inputs, (row + 1) * inputs));
          if (norm === 0) throw withoutDirection(name, start + done + row);
          target[done + row] = norm;
        }
      }
    },
  };
}

function normOf(row: Float32Array): number {
  let sum = 0;
  for (const value of row) sum += value * value;
  return Math.sqrt(sum);
}

function withoutDirection(name: string, row: number): ConfigError {
  return new ConfigError(
    `lora.useDora: all weights of row ${row} of ${name} are 0, so DoRA cannot divide them by their norm; leave the layer out of lora.targets`,
  );
}
